"""Kernels over inner entries, taken as rows of 64-bit words (:mod:`tidelog.index.entries` says which).

Entry: child, rows, then seven words for each column: flags, nulls, nans, min, max, and the two words of the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.index.entry_words import COLUMN_WORDS, COUNTS, FLOAT, HEAD_WORDS, SIGNED, SUMMARY_WORDS, TEXT
from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u64, void
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, MAX_TRUNCATED, MIN_TRUNCATED

_OF_BOUNDS = HAS_BOUNDS | MIN_TRUNCATED | MAX_TRUNCATED
_OF_SUM = HAS_SUM | INTEGER_SUM

_SIGN = np.uint64(1 << 63)
_TOP = np.uint64(63)
_BYTES = np.uint64(0x00FF00FF00FF00FF)
_PAIRS = np.uint64(0x0000FFFF0000FFFF)


@inline
def _key(word: Any, kind: Any) -> Any:
    """An unsigned integer that sorts like the value of this word."""
    if kind == FLOAT:
        return ~word if word >> _TOP != np.uint64(0) else word ^ _SIGN
    if kind == TEXT:
        word = ((word >> np.uint64(8)) & _BYTES) | ((word & _BYTES) << np.uint64(8))
        word = ((word >> np.uint64(16)) & _PAIRS) | ((word & _PAIRS) << np.uint64(16))
        return (word >> np.uint64(32)) | (word << np.uint64(32))
    if kind == SIGNED:
        return word ^ _SIGN
    return word


@inline
def _merge_column(entries: Any, first: Any, last: Any, kind: Any, base: Any, out: Any) -> None:
    """Merge one column of entries ``first`` to ``last`` into ``out``, whose rows are still those before."""
    rows = np.int64(out[1])
    flags = np.int64(out[base])
    nulls = np.int64(out[base + 1])
    nans = np.int64(out[base + 2])
    low = out[base + 3]
    high = out[base + 4]
    lower = out[base + 5]
    upper = out[base + 6]
    for i in range(first, last):
        entry = entries[i]
        values = np.int64(entry[1]) - np.int64(entry[base + 1]) - np.int64(entry[base + 2])
        if values != 0 and kind != COUNTS:
            theirs = np.int64(entry[base])
            if rows - nulls - nans == 0:
                flags = theirs
                low = entry[base + 3]
                high = entry[base + 4]
                lower = entry[base + 5]
                upper = entry[base + 6]
            else:
                both = flags & theirs
                if both & HAS_BOUNDS:
                    ours_key = _key(low, kind)
                    their_key = _key(entry[base + 3], kind)
                    if their_key < ours_key:
                        low = entry[base + 3]
                        flags = (flags & ~MIN_TRUNCATED) | (theirs & MIN_TRUNCATED)
                    elif their_key == ours_key:
                        # Of values with one prefix the one that is whole is the smallest.
                        flags &= ~MIN_TRUNCATED | (theirs & MIN_TRUNCATED)
                    ours_key = _key(high, kind)
                    their_key = _key(entry[base + 4], kind)
                    if their_key > ours_key:
                        high = entry[base + 4]
                        flags = (flags & ~MAX_TRUNCATED) | (theirs & MAX_TRUNCATED)
                    elif their_key == ours_key:
                        flags |= theirs & MAX_TRUNCATED
                else:
                    flags &= ~_OF_BOUNDS
                    low = np.uint64(0)
                    high = np.uint64(0)
                keep = both & HAS_SUM != 0 and (flags ^ theirs) & INTEGER_SUM == 0
                if keep and flags & INTEGER_SUM:
                    total = lower + entry[base + 5]
                    carry = np.uint64(total < lower)
                    over = upper + entry[base + 6] + carry
                    # Equal signs going in, another coming out: the sum does not fit.
                    keep = ((upper ^ over) & (entry[base + 6] ^ over)) >> _TOP == np.uint64(0)
                    lower = total
                    upper = over
                elif keep:
                    theirs_sum = np.uint64(entry[base + 5]).view(np.float64)
                    lower = np.float64(np.uint64(lower).view(np.float64) + theirs_sum).view(np.uint64)
                if not keep:
                    flags &= ~_OF_SUM
                    lower = np.uint64(0)
                    upper = np.uint64(0)
        rows += np.int64(entry[1])
        nulls += np.int64(entry[base + 1])
        nans += np.int64(entry[base + 2])
    out[base] = np.uint64(flags)
    out[base + 1] = np.uint64(nulls)
    out[base + 2] = np.uint64(nans)
    out[base + 3] = low
    out[base + 4] = high
    out[base + 5] = lower
    out[base + 6] = upper


@inline
def _merge(entries: Any, first: Any, last: Any, kinds: Any, columns: Any, out: Any) -> None:
    for k in range(len(columns)):
        _merge_column(entries, first, last, kinds[columns[k]], HEAD_WORDS + COLUMN_WORDS * columns[k], out)
    rows = out[1]
    for i in range(first, last):
        rows += entries[i, 1]
    out[1] = rows


@kernel(void(array_in(u64, 2), i64, i64, array_in(u8), array_in(i64), array_out(u64)))
def merge_into(entries: Any, first: Any, last: Any, kinds: Any, columns: Any, out: Any) -> None:
    """Merge ``columns`` of the entries ``first`` to ``last`` (exclusive), in their order, into the entry ``out``.

    ``out`` is zero for nothing yet. Its child and its other columns stay as they are.
    """
    _merge(entries, first, last, kinds, columns, out)


@kernel(void(array_in(u64, 2), array_in(u8), array_in(i64), array_in(i64), array_out(u64, 2)))
def put_leaves(summaries: Any, kinds: Any, ids: Any, rows: Any, out: Any) -> None:
    """Write the entries of leaves, given their summaries, six words for each column."""
    low = np.uint64(0xFFFFFFFF)
    for i in range(len(summaries)):
        out[i, 0] = np.uint64(ids[i])
        out[i, 1] = np.uint64(rows[i])
        for k in range(len(kinds)):
            base = HEAD_WORDS + COLUMN_WORDS * k
            first = summaries[i, SUMMARY_WORDS * k]
            out[i, base + 1] = first >> np.uint64(32)
            out[i, base + 2] = summaries[i, SUMMARY_WORDS * k + 1] & low
            kept = u64(kinds[k] != COUNTS)
            out[i, base] = kept * (first & low)
            for word in range(3, COLUMN_WORDS):
                out[i, base + word] = kept * summaries[i, SUMMARY_WORDS * k + word - 1]


@kernel(void(array_in(u64, 2), array_in(i64), array_in(i64), array_in(u8), array_in(i64), array_out(u64, 2)))
def merge_ranges(entries: Any, firsts: Any, lasts: Any, kinds: Any, columns: Any, out: Any) -> None:
    """Merge entries ``firsts[i]`` to ``lasts[i]`` into ``out[i]``, for every ``i``; see :func:`merge_into`."""
    for i in range(len(firsts)):
        _merge(entries, firsts[i], lasts[i], kinds, columns, out[i])


@kernel(void(array_in(u64, 2), array_in(u64, 2), array_in(u8), array_in(i64), array_out(u64, 2)))
def merge_pairs(entries: Any, others: Any, kinds: Any, columns: Any, out: Any) -> None:
    """Merge each entry with the one at the same place among others, into ``out``; see :func:`merge_into`."""
    for i in range(len(entries)):
        _merge(entries, i, i + 1, kinds, columns, out[i])
        _merge(others, i, i + 1, kinds, columns, out[i])


@kernel(void(array_in(u64, 2), array_in(i64), array_in(u8), array_in(i64), i64, array_out(u64, 2)))
def scan_entries(entries: Any, cuts: Any, kinds: Any, columns: Any, backward: Any, out: Any) -> None:
    """Merge, into ``out[i]``, entry ``i`` with all before it in its run, or all behind it; see :func:`merge_into`."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        for at in range(last - first):
            i = last - 1 - at if backward else first + at
            if at > 0:
                before = i + 1 if backward else i - 1
                _merge(out, before, before + 1, kinds, columns, out[i])
            _merge(entries, i, i + 1, kinds, columns, out[i])


@kernel(void(array_in(u64, 3), array_in(i64), array_in(i64), array_out(u64, 2)))
def widen_summaries(summaries: Any, cuts: Any, columns: Any, entries: Any) -> None:
    """Make an entry of the rows between each two cuts, of the words of summaries by column and run.

    Summaries count nulls and NaN in half a word each, entries in whole ones.
    """
    half = np.uint64(0xFFFF_FFFF)
    for i in range(len(entries)):
        entries[i, :] = 0
        entries[i, 1] = np.uint64(cuts[i + 1] - cuts[i])
        for k in range(len(columns)):
            at = HEAD_WORDS + COLUMN_WORDS * columns[k]
            entries[i, at] = summaries[k, i, 0] & half
            entries[i, at + 1] = summaries[k, i, 0] >> np.uint64(32)
            entries[i, at + 2] = summaries[k, i, 1] & half
            for word in range(2, 6):
                entries[i, at + word + 1] = summaries[k, i, word]


_STRETCH = 1024


@kernel(i64(array_in(i64)))
def falls(values: Any) -> Any:
    """Whether a value is less than the one before it: 1 or 0."""
    for start in range(1, len(values), _STRETCH):  # as in :func:`first_disorder`
        wrong = np.int64(0)
        for i in range(start, min(start + _STRETCH, len(values))):
            wrong |= np.int64(values[np.uint64(i)] < values[np.uint64(i - 1)])
        if wrong:
            return 1
    return 0


@kernel(void(array_in(i64), array_in(i64), array_out(i64), array_out(i64), array_out(i64)))
def interleave(old: Any, new: Any, order: Any, woven: Any, before: Any) -> None:
    """The order of two sorted runs of values, the second numbered from the end of the first on, and the values in it.

    Of equal ones the old come first. ``before`` gets how many old ones stand before each new one.
    """
    i = 0
    k = 0
    for j in range(len(new)):
        value = new[j]
        while i < len(old) and old[i] <= value:
            order[k] = i
            woven[k] = old[i]
            i += 1
            k += 1
        order[k] = len(old) + j
        woven[k] = value
        before[j] = i
        k += 1
    for rest in range(i, len(old)):
        order[k] = rest
        woven[k] = old[rest]
        k += 1


@kernel(i64(array_in(i64), array_in(i64)))
def first_disorder(times: Any, sequence: Any) -> Any:
    """The first row that does not come behind the one before it by (time, sequence), or -1."""
    # In stretches: a loop without a way out of its middle is done several rows at a time.
    for start in range(1, len(times), _STRETCH):
        stop = min(start + _STRETCH, len(times))
        wrong = np.int64(0)
        for i in range(start, stop):
            here, before = np.uint64(i), np.uint64(i - 1)  # signed ones would be checked for being negative
            is_tie_wrong = (times[here] == times[before]) & (sequence[here] <= sequence[before])
            wrong += np.int64((times[here] < times[before]) | is_tie_wrong)
        if wrong:
            for i in range(start, stop):
                if times[i] < times[i - 1] or (times[i] == times[i - 1] and sequence[i] <= sequence[i - 1]):
                    return i
    return -1
