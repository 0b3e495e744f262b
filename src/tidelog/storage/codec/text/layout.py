"""The bodies of text pieces: fixed parts, and what the numbers in them mean."""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

LARGEST_TEXT = (1 << 31) - 1
"""Bytes of text one block may hold: what LZ4 and 32-bit offsets can still address."""


class Compression(IntEnum):
    """How the bytes of a piece are compressed where that saves; the numbers are part of the format."""

    LZ4 = 1
    """Raw LZ4 blocks, without a frame."""
    ZSTD = 2
    """Zstandard frames that state the size of their content."""


PLAIN_HEAD = struct.Struct("<II")
"""Bytes of the stream of lengths; compression."""

PLAIN_HEAD_TYPE = np.dtype([("stream", "<u4"), ("compression", "<u4")])

DICTIONARY_HEAD = struct.Struct("<IIIIII")
"""Entries; bytes of their values; bytes these take in the piece; compression; bytes of the streams of indexes
and of sizes."""

DICTIONARY_HEAD_TYPE = np.dtype(
    [
        ("entries", "<u4"),
        ("values", "<u4"),
        ("stored", "<u4"),
        ("compression", "<u4"),
        ("indexes", "<u4"),
        ("sizes", "<u4"),
    ]
)

DIRECTORY_ENTRY = np.dtype("<u4")
"""Bytes of text of a vector, and bytes that a segment takes in the piece."""
