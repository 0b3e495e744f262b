"""What some of the kernels beside do, for a few entries, in Python alone (see :mod:`tidelog.lazy`)."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.index.entry_words import COLUMN_WORDS, COUNTS, FLOAT, HEAD_WORDS, SIGNED, SUMMARY_WORDS, TEXT
from tidelog.lazy import stands_in
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, MAX_TRUNCATED, MIN_TRUNCATED

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Kinds = npt.NDArray[np.uint8]

_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_HALF: Final = np.uint64(0xFFFFFFFF)
_OF_BOUNDS: Final = HAS_BOUNDS | MIN_TRUNCATED | MAX_TRUNCATED
_OF_SUM: Final = HAS_SUM | INTEGER_SUM
_WORD: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")


def _key(word: int, kind: int) -> int:
    """An unsigned integer that sorts like the value of this word."""
    if kind == FLOAT:
        return word ^ _MASK if word & _SIGN else word ^ _SIGN
    if kind == TEXT:
        return int.from_bytes(word.to_bytes(8, "little"), "big")
    return word ^ _SIGN if kind == SIGNED else word


def _sum_of_doubles(first: int, second: int) -> int:
    (one,), (other,) = _DOUBLE.unpack(_WORD.pack(first)), _DOUBLE.unpack(_WORD.pack(second))
    found: int = _WORD.unpack(_DOUBLE.pack(one + other))[0]
    return found


def _merge_column(counts: list[int], records: list[list[int]], kind: int, rows: int, out: list[int]) -> list[int]:
    """Merge one column of entries with so many rows each into ``out``, the words of an entry of ``rows`` rows."""
    flags, nulls, nans, low, high, lower, upper = out
    for count, (theirs, their_nulls, their_nans, their_low, their_high, their_lower, their_upper) in zip(
        counts, records, strict=True
    ):
        if count - their_nulls - their_nans != 0 and kind != COUNTS:
            if rows - nulls - nans == 0:
                flags, low, high, lower, upper = theirs, their_low, their_high, their_lower, their_upper
            else:
                both = flags & theirs
                if both & HAS_BOUNDS:
                    ours, other = _key(low, kind), _key(their_low, kind)
                    if other < ours:
                        low = their_low
                        flags = (flags & ~MIN_TRUNCATED) | (theirs & MIN_TRUNCATED)
                    elif other == ours:
                        flags &= ~MIN_TRUNCATED | (theirs & MIN_TRUNCATED)
                    ours, other = _key(high, kind), _key(their_high, kind)
                    if other > ours:
                        high = their_high
                        flags = (flags & ~MAX_TRUNCATED) | (theirs & MAX_TRUNCATED)
                    elif other == ours:
                        flags |= theirs & MAX_TRUNCATED
                else:
                    flags &= ~_OF_BOUNDS
                    low = high = 0
                keep = both & HAS_SUM != 0 and (flags ^ theirs) & INTEGER_SUM == 0
                if keep and flags & INTEGER_SUM:
                    total = lower + their_lower
                    over = (upper + their_upper + (total >> 64)) & _MASK
                    keep = not (upper ^ over) & (their_upper ^ over) & _SIGN
                    lower, upper = total & _MASK, over
                elif keep:
                    lower = _sum_of_doubles(lower, their_lower)
                if not keep:
                    flags &= ~_OF_SUM
                    lower = upper = 0
        rows += count
        nulls += their_nulls
        nans += their_nans
    return [flags & _MASK, nulls & _MASK, nans & _MASK, low, high, lower, upper]


def _steps_of_merging(entries: Words, first: int, last: int, kinds: Kinds, columns: Ints, out: Words) -> int:
    return 20 + 3 * max(0, last - first) * len(columns)


@stands_in(_steps_of_merging)
def merge_into(entries: Words, first: int, last: int, kinds: Kinds, columns: Ints, out: Words) -> None:
    """See the kernel."""
    counts = entries[first:last, 1].tolist()
    rows = int(out[1])
    for column in columns.tolist():
        at = HEAD_WORDS + COLUMN_WORDS * column
        record = slice(at, at + COLUMN_WORDS)
        records = entries[first:last, record].tolist()
        out[record] = np.array(
            _merge_column(counts, records, int(kinds[column]), rows, out[record].tolist()), np.uint64
        )
    out[1] = (rows + sum(counts)) & _MASK


def _steps_of_ranges(entries: Words, firsts: Ints, lasts: Ints, kinds: Kinds, columns: Ints, out: Words) -> int:
    return 20 * len(firsts) + 3 * int(np.maximum(lasts - firsts, 0).sum()) * len(columns)


@stands_in(_steps_of_ranges)
def merge_ranges(entries: Words, firsts: Ints, lasts: Ints, kinds: Kinds, columns: Ints, out: Words) -> None:
    """See the kernel."""
    for row, (first, last) in enumerate(zip(firsts.tolist(), lasts.tolist(), strict=True)):
        merge_into(entries, first, last, kinds, columns, out[row])


def _steps_of_leaves(summaries: Words, kinds: Kinds, *rest: Any) -> int:
    return 20 + summaries.size // 100


@stands_in(_steps_of_leaves)
def put_leaves(summaries: Words, kinds: Kinds, ids: Ints, rows: Ints, out: Words) -> None:
    """See the kernel."""
    words = SUMMARY_WORDS
    out[:, 0] = ids.view(np.uint64)
    out[:, 1] = rows.view(np.uint64)
    for column, kind in enumerate(kinds.tolist()):
        at = HEAD_WORDS + COLUMN_WORDS * column
        summary = summaries[:, words * column : words * (column + 1)]
        out[:, at + 1] = summary[:, 0] >> np.uint64(32)
        out[:, at + 2] = summary[:, 1] & _HALF
        is_kept = np.uint64(kind != COUNTS)
        out[:, at] = is_kept * (summary[:, 0] & _HALF)
        out[:, at + 3 : at + COLUMN_WORDS] = is_kept * summary[:, 2:]
