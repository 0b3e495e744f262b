"""Finds the rows of matches that expressions are about."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i32, i64, kernel, u8, void

_IN_I32, _IN_I64, _IN_U8 = array_in(i32), array_in(i64), array_in(u8)
_OUT_I64 = array_out(i64)


@kernel(void(_IN_I64, _IN_I32, _IN_U8, i64, i64, _OUT_I64))
def locate(offsets: Any, variables: Any, wanted: Any, is_last: Any, logical: Any, places: Any) -> None:
    """For each match the place of the last or first row of wanted variables, ``logical`` such rows from it; or -1."""
    for match in range(len(offsets) - 1):
        begin, end = offsets[match], offsets[match + 1]
        left = logical
        places[match] = -1
        if is_last != 0:
            place = end - 1
            while place >= begin:
                if wanted[variables[place]] != 0:
                    if left == 0:
                        places[match] = place
                        break
                    left -= 1
                place -= 1
        else:
            for place in range(begin, end):
                if wanted[variables[place]] != 0:
                    if left == 0:
                        places[match] = place
                        break
                    left -= 1


@kernel(void(_IN_I64, _IN_I32, _IN_U8, i64, i64, _OUT_I64, _OUT_I64))
def locate_running(
    offsets: Any, variables: Any, wanted: Any, is_last: Any, logical: Any, own: Any, places: Any
) -> None:
    """The same for each row, of the rows of its match up to it. ``own`` has room for all rows."""
    for match in range(len(offsets) - 1):
        count = 0
        for place in range(offsets[match], offsets[match + 1]):
            if wanted[variables[place]] != 0:
                own[count] = place
                count += 1
            if count <= logical:
                places[place] = -1
            else:
                places[place] = own[count - 1 - logical] if is_last != 0 else own[logical]
