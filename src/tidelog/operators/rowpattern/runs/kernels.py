"""Goes from run to run of rows that fit the parts of a pattern, without a decision at each row."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i32, i64, inlined, kernel, u8, u64
from tidelog.operators.rowpattern.opcodes import MATCHED
from tidelog.storage.codec.memory.kernels import trailing_zeros

_IN_I32, _IN_I64, _IN_U8 = array_in(i32), array_in(i64), array_in(u8)
_OUT_I32, _OUT_I64 = array_out(i32), array_out(i64)
_SLACK = 8
"""Values that are written at once, some of which are perhaps written over by what comes next."""


@inlined
def _window(words: Any, place: Any) -> Any:
    """The 64 bits from a place on."""
    word, shift = place >> i64(6), u64(place & i64(63))
    return (words[u64(word)] >> shift) | ((words[u64(word + 1)] << u64(1)) << (u64(63) - shift))


@kernel(
    i64(
        array_in(u64), array_in(u64, 2), _IN_U8, _IN_I32, i64,
        _IN_I64, _IN_I64, _IN_U8, _OUT_I64, _OUT_I64, _IN_I64,
        array_out(i64, 2), array_out(i64, 2), _OUT_I64, _OUT_I32,
    )
)  # fmt: skip
def find(
    begins: Any, fits: Any, is_run: Any, variables: Any, most_rows: Any,
    lows: Any, highs: Any, closed: Any, resumes: Any, numbers: Any, decisions: Any,
    known: Any, found: Any, found_rows: Any, found_variables: Any,
) -> Any:  # fmt: skip
    """Look for the matches of partitions as :func:`tidelog.operators.rowpattern.machine.kernels.search` does.

    A match begins only at rows whose bits are set in ``begins``. ``fits`` has the bits of the rows that may be bound to
    each part of the pattern, one row or, ``is_run``, as many as follow one another. No row fits both a run and the part
    behind it, so that from each row there is one way at the most.

    ``known`` has three numbers for each part: the first row and the end of the last run that was counted, and the end
    of the part's rows. Returns the number of matches; -1 if one is too long, -2 if there is no room for them: whoever
    searches again begins where this search did.
    """
    matches, rows = i64(0), i64(0)
    most = found_rows.shape[0] - _SLACK
    parts = len(is_run)
    for partition in range(len(lows)):
        high, is_closed = highs[partition], closed[partition] != 0
        begin, number = resumes[partition], numbers[partition]
        while begin < high:
            bits = _window(begins, begin)
            if bits == u64(0):
                begin += 64
                continue
            begin += i64(trailing_zeros(bits))
            if begin >= high:
                break
            position = begin
            state = i64(0)  # 1 if it fails, 2 if rows to come decide
            for part in range(parts):
                if is_run[u64(part)] == 0:
                    if position >= high:
                        state = i64(1) if is_closed else i64(2)
                        break
                    if _window(fits[u64(part)], position) & u64(1) == u64(0):
                        state = i64(1)
                        break
                    position += 1
                else:
                    first = position
                    if known[u64(part), 0] <= position < known[u64(part), 1]:  # in a run that was counted before
                        position = known[u64(part), 1]
                    else:
                        while True:
                            gap = ~_window(fits[u64(part)], position)
                            if gap != u64(0):
                                position += i64(trailing_zeros(gap))
                                break
                            position += 64
                            if position >= high:
                                break
                        position = min(position, high)
                        known[u64(part), 0], known[u64(part), 1] = first, position
                    if position - begin > most_rows:
                        return i64(-1)
                    if position >= high and not is_closed:
                        state = i64(2)
                        break
                    if position == first:
                        state = i64(1)
                        break
                known[u64(part), 2] = position
            if state == 2:
                break
            if state == 1:
                begin += 1
                continue
            if position - begin > most_rows:
                return i64(-1)
            if matches >= found.shape[1] or rows + position - begin > most:
                return i64(-2)
            at, end = rows, rows
            for part in range(parts):
                end = rows + known[u64(part), 2] - begin
                while at < end:
                    for place in range(_SLACK):
                        found_variables[u64(at + place)] = variables[u64(part)]
                    at += _SLACK
                at = end
            at = rows
            while at < end:
                for place in range(_SLACK):
                    found_rows[u64(at + place)] = begin + (at - rows) + place
                at += _SLACK
            rows = end
            found[0, u64(matches)], found[1, u64(matches)], found[2, u64(matches)] = partition, begin, rows
            found[3, u64(matches)], found[4, u64(matches)] = MATCHED, number
            found[5, u64(matches)] = decisions[partition]
            matches += 1
            number += 1
            begin = position
        resumes[partition] = min(begin, high)
        numbers[partition] = number
    return matches
