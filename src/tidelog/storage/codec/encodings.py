"""Numbers of the format of pieces that everything about them starts from, kernels too."""

from __future__ import annotations

from enum import IntEnum

VECTOR = 1024
"""Rows of a vector, the unit a reader can decode alone (a block is a few of them)."""

HEAD = 16
"""Bytes of a piece's head."""


class Encoding(IntEnum):
    """How the body of a piece stands for its values. The numbers are part of the format: never reuse one."""

    RAW = 0
    """The values as Arrow lays them out (booleans: one byte each)."""
    PACKED = 1
    """Integers: differences, frame of reference, bit packing, per vector."""
    DECIMAL = 2
    """Floats as scaled integers, packed; the parameter is the power of ten."""
    ORDERED = 3
    """Floats by the order-preserving integers of their bit patterns, packed."""
    RUNS = 4
    """Values and lengths of runs, both packed."""
    DICTIONARY = 5
    """Distinct values and indexes into them, both packed; the parameter is the number of distinct values."""
    HALVES = 6
    """128-bit values as low and high 64-bit words, both packed."""
    SHUFFLED = 7
    """Bytes of equal significance together, compressed; the parameter names the compression."""
    TEXT_PLAIN = 32
    """Lengths, and the bytes in segments of whole vectors."""
    TEXT_DICTIONARY = 33
    """Distinct strings and indexes into them."""
    TEXT_CONSTANT = 34
    """One string that stands for all rows."""
    TEXT_TEMPLATE = 35
    """Templates of lines, and the numbers and words that stand in their slots."""


class ValidityKind(IntEnum):
    """How a piece says which rows are null. The numbers are part of the format."""

    NO_NULLS = 0
    ALL_NULL = 1
    BITMAP = 2
    """One bit per row, least significant first, 1 = valid; bits behind the last row are 0."""
    BITMAP_LZ4 = 3
    """The same, as one raw LZ4 block."""
