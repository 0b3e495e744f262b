"""Follows the chains of matches of ranges of time."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i32, i64, kernel, void

_IN_I32, _IN_I64 = array_in(i32), array_in(i64)
_OUT_I64 = array_out(i64)


@kernel(void(i64, _IN_I64, _IN_I64, _IN_I32, _OUT_I64, _OUT_I64))
def join(stop: Any, cuts: Any, starts: Any, seen: Any, exits: Any, matches: Any) -> None:
    """Where searches from several rows come to, and how many matches they find, if they go on with what they joined.

    Search ``p`` has found ``matches[p]`` matches by itself, whose first rows are those from ``cuts[p]`` to
    ``cuts[p + 1]`` of ``starts``, and came to row ``exits[p]``. If that is before ``stop``, an earlier search had been
    there, which ``seen`` tells.
    """
    for place in range(len(exits)):
        joined = exits[place]
        if joined >= stop:
            continue
        other = i64(seen[joined]) - 1
        own, behind = cuts[other], cuts[other + 1]
        while own < behind:
            middle = (own + behind) // 2
            if starts[middle] < joined:
                own = middle + 1
            else:
                behind = middle
        matches[place] += matches[other] - (own - cuts[other])
        exits[place] = exits[other]
