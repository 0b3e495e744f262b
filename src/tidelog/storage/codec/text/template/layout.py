"""The body of a TEMPLATE piece: fixed parts, and what the numbers in them mean."""

from __future__ import annotations

import struct

import numpy as np

LARGEST_TEXT = 1 << 24
"""Bytes of text of a block that is encoded by templates."""

LARGEST_TABLE = 1 << 26
"""Bytes of the table of a piece, not compressed."""

HEAD = struct.Struct("<8I")
"""Operations; bases; bytes of constants; words; bytes of words; bytes the table takes in the piece; compression; bytes
of the stream of template numbers. The directory follows."""

DIRECTORY_ENTRY = np.dtype("<u4")
ENTRY = struct.Struct("<II")
"""Of a vector: bytes of its text, bytes of its packed values."""

GUARD = 16
"""Zero bytes behind the packed values, so that they can be read in words."""

ROOM = 640
"""Bytes behind the decoded text of a piece that are overwritten: at most two long constants, in words."""

BAD_TABLE, BAD_NUMBER, BAD_BITS, BAD_TEXT = -1, -2, -3, -4
"""What may be wrong with a piece: its table; the template of a row; the bits of a vector; its text."""
