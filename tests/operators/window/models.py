"""Windows row by row, in plain Python: what operators are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]

AGGREGATES = {
    "rows": "count(*)",
    "known": "count(x)",
    "total": "sum(x)",
    "whole": "sum(n)",
    "mean": "avg(x)",
    "average": "avg(n)",
    "low": "min(x)",
    "high": "max(n)",
    "opening": "first(x)",
    "closing": "last(n)",
    "text": "min(k)",
    "few": "count(*) filter (where n > 0)",
    "second": "second_largest(n)",
}


def aggregated(rows: Sequence[Row]) -> tuple[Any, ...]:
    """The values of :data:`AGGREGATES`."""
    x = [row["x"] for row in rows if row["x"] is not None]
    n = [row["n"] for row in rows if row["n"] is not None]
    k = [row["k"] for row in rows if row["k"] is not None]
    return (
        len(rows),
        len(x),
        math.fsum(x) if x else None,
        sum(n) if n else None,
        math.fsum(x) / len(x) if x else None,
        sum(n) / len(n) if n else None,
        min(x, default=None),
        max(n, default=None),
        rows[0]["x"] if rows else None,
        rows[-1]["n"] if rows else None,
        min(k, default=None),
        sum(each > 0 for each in n),
        sorted(n)[-2] if len(n) > 1 else None,
    )


def time_windows(
    rows: Sequence[Row],
    bounds: Callable[[int, int], Iterable[tuple[int, int]]],
    by: Sequence[str] = (),
    *,
    empty: bool = False,
    complete_only: bool = False,
) -> list[tuple[Any, ...]]:
    """Windows of rows in order. ``bounds`` gives all windows that may have rows between two times, in order."""
    found: list[tuple[Any, ...]] = []
    if not rows:
        return found
    first, last = rows[0]["ts"], rows[-1]["ts"]
    held = []
    for start, end in sorted(bounds(first, last), key=lambda window: (window[1], window[0])):
        inside: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            if start <= row["ts"] < end:
                inside.setdefault(tuple(row[name] for name in by), []).append(row)
        held.append((start, end, inside))
    with_rows = [place for place, (_, _, inside) in enumerate(held) if inside]
    for place, (start, end, inside) in enumerate(held):
        if complete_only and not (start >= first and end - 1 <= last):
            continue
        if empty and not inside and with_rows and with_rows[0] <= place <= with_rows[-1]:
            inside[()] = []
        found += [(*key, start, end, *aggregated(chosen)) for key, chosen in inside.items()]
    return found


def fixed(size: int, slide: int, origin: int) -> Callable[[int, int], Iterable[tuple[int, int]]]:
    def bounds(first: int, last: int) -> Iterable[tuple[int, int]]:
        start = origin + ((first - size - origin) // slide - 1) * slide
        while start <= last:
            yield start, start + size
            start += slide

    return bounds
