"""The bodies of text pieces: fixed parts, and what the numbers in them mean."""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

PLAIN, DICTIONARY, CONSTANT, NOTHING, TEMPLATE = range(5)
"""What kernels call the kinds of pieces; NOTHING has no valid row, and no body."""

LARGEST_TEXT = (1 << 31) - 1
"""Bytes of text one block may hold: what LZ4 and 32-bit offsets can still address."""


class Compression(IntEnum):
    """How the bytes of a piece are compressed where that saves; the numbers are part of the format."""

    LZ4 = 1
    """Raw LZ4 blocks, without a frame."""
    ZSTD = 2
    """Zstandard frames that state the size of their content."""


PLAIN_HEAD = struct.Struct("<II")
"""Bytes of the stream of lengths; compression. The directory follows."""

DICTIONARY_HEAD = struct.Struct("<IIIIII")
"""Distinct values; their bytes; the bytes they take in the piece; compression; bytes of the stream of indexes and
of that of sizes. The streams follow."""

DIRECTORY_ENTRY = np.dtype("<u4")
"""Bytes of text of a vector, and bytes that a segment takes in the piece."""
