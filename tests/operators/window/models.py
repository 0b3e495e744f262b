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


def count_windows(rows: Sequence[Row], size: int, slide: int, by: Sequence[str]) -> list[tuple[Any, ...]]:
    """Windows of ``size`` rows of each key, every ``slide`` rows, by their last rows."""
    found = []
    by_key: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    for number, row in enumerate(rows):
        by_key.setdefault(tuple(row[name] for name in by), []).append((number, row))
    for key, own in by_key.items():
        for start in range(0, len(own) - size + 1, slide):
            chosen = own[start : start + size]
            held = [row for _, row in chosen]
            found.append((chosen[-1][0], (*key, held[0]["ts"], held[-1]["ts"], *aggregated(held))))
    return [window for _, window in sorted(found, key=lambda each: each[0])]


def sessions(rows: Sequence[Row], gap: int, by: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows of a key that follow one another by at most ``gap``, as for Spark."""
    held: list[tuple[tuple[Any, ...], int, list[Row]]] = []
    newest: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        key = tuple(row[name] for name in by)
        if key in newest and row["ts"] - held[newest[key]][2][-1]["ts"] <= gap:
            held[newest[key]][2].append(row)
        else:
            newest[key] = len(held)
            held.append((key, number, [row]))
    held.sort(key=lambda each: (each[2][-1]["ts"] + gap, each[2][0]["ts"], each[1]))
    return [(*key, own[0]["ts"], own[-1]["ts"] + gap, *aggregated(own)) for key, _, own in held]
