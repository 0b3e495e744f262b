"""What kernels of numbers have in common: the constants of the format, as the types they are calculated with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import inline
from tidelog.storage.codec.encodings import Encoding, ValidityKind

U: Any = np.uint64
I: Any = np.int64  # noqa: E741

LANES = 16

RAW, PACKED, DECIMAL, ORDERED = (
    np.int64(each) for each in (Encoding.RAW, Encoding.PACKED, Encoding.DECIMAL, Encoding.ORDERED)
)
ALL_NULL = int(ValidityKind.ALL_NULL)

ZERO, ONE = np.uint64(0), np.uint64(1)
HIGHEST = np.int64(2**63 - 1)
LOWEST = np.int64(-(2**63))
LOWEST_32 = np.int64(-(2**31))

# A float becomes an integer by adding 1.5 * 2**52: the bits of the sum less those of this constant.
MAGIC = np.float64(1.5 * 2**52)
MAGIC_BITS = MAGIC.view(np.uint64)
POWERS = np.array([10.0**e for e in range(16)])

HASH = np.uint64(0x9E3779B97F4A7C15)
"""Multiplied by it, values that are near each other are far apart."""


@inline
def packed_words(n: Any, width: Any) -> Any:
    """Words that ``n`` values of ``width`` bits take."""
    return LANES * ((((n + LANES - 1) // LANES) * width + 63) >> 6)
