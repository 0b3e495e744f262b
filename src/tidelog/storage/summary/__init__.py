"""Summaries of blocks: what the frame of a block says about each of its columns.

A summary is one record of :data:`SUMMARY`, 48 bytes, little-endian:

====== ======== =====================================================================================
offset field    content
====== ======== =====================================================================================
0      flags    u32: 1 has min and max, 2 has sum, 4 the sum is an integer, 8 min truncated,
                16 max truncated
4      nulls    u32: number of null rows
8      nans     u32: number of NaN among the other rows
12     reserved u32: zero
16     min      8 bytes, by type as below; zero unless flag 1
24     max      8 bytes, likewise
32     sum      16 bytes: two's complement integer (flag 4), else a double and 8 zero bytes; zero unless
                flag 2
====== ======== =====================================================================================

Nulls take no part in anything but ``nulls``. What is kept depends on the type:

* **Integers, booleans (0 and 1), durations, decimals of 32 and 64 bits**: min and max as 64-bit integers
  (unsigned for unsigned types) and the exact sum.
* **Timestamps, dates, times**: min and max as 64-bit integers in the unit of the type; no sum.
* **Floats** (half and single ones widened): min, max and sum as doubles. NaN are counted and otherwise
  left out; -0.0 sorts below +0.0. The order of summation is fixed
  (:func:`~tidelog.storage.summary.kernels.summarise_floats`), so equal blocks have equal sums on every
  machine; infinities of both signs make the sum NaN, as IEEE 754 has it.
* **decimal128**: min and max as 64-bit integers of the unscaled values, only if every value of the block
  fits; the exact sum, only if it fits 128 bits.
* **Strings and binary**, of fixed size too: ``min`` and ``max`` are the first eight bytes of the smallest and
  largest value in the order of unsigned bytes, padded with zeros; compare them as big-endian words. A bound
  is *truncated* if those bytes do not determine the value: it is longer, or ends in a zero byte. No sum.
* **Everything else**: ``nulls`` alone.

**How to use bounds of text.** Padding keeps order: if ``v <= w`` then ``pad(v) <= pad(w)``. So a block can
hold ``q`` only if ``min <= pad(q) <= max``, truncated or not. As values: every ``v`` of the block has
``v >= minimum(...)``; it has ``v <= maximum(...)`` if the maximum is not truncated, ``v < maximum(...)`` if
it is.
"""

from __future__ import annotations

from tidelog.storage.summary.compute import (
    WORDS,
    summarise,
    summarise_consecutive,
    summarise_into,
    summarise_numbers,
)
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, MAX_TRUNCATED, MIN_TRUNCATED
from tidelog.storage.summary.record import SUMMARY, maximum, minimum, total

__all__ = [
    "HAS_BOUNDS",
    "HAS_SUM",
    "INTEGER_SUM",
    "MAX_TRUNCATED",
    "MIN_TRUNCATED",
    "SUMMARY",
    "WORDS",
    "maximum",
    "minimum",
    "summarise",
    "summarise_consecutive",
    "summarise_into",
    "summarise_numbers",
    "total",
]
