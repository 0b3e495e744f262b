"""Small cases with known answers, in the words of the thesis: there what *finishes* another starts before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

TICKS = 21
"""One row for each tick from 0 on."""

_AGGRESSIVE = {
    ("A", "B"): ["meets", "overlaps", "starts", "during"],
    ("B", "C"): ["contains", "finishes", "overlaps", "meets"],
    ("A", "C"): ["before"],
}
_FOUR = {
    ("A", "B"): ["before"],
    ("A", "C"): ["before"],
    ("A", "D"): ["before"],
    ("C", "D"): ["contains", "finishes", "meets"],
}
_BOUNDS: dict[str, tuple[int, int | None]] = {"A": (5, None), "B": (4, 30), "C": (3, None)}


@dataclass(frozen=True)
class Golden:
    """A pattern, one situation of each name, and when the match becomes known; None for no match."""

    name: str
    pattern: dict[tuple[str, str], list[str]]
    """In the words of the thesis."""
    situations: dict[str, tuple[int, int]]
    instant: int | None
    bounds: dict[str, tuple[int, int | None]]

    def allen(self) -> dict[tuple[str, str], list[str]]:
        """The pattern in Allen's words."""
        others = {"finishes": "finished by", "finished by": "finishes"}
        return {pair: [others.get(name, name) for name in names] for pair, names in self.pattern.items()}

    def rows(self) -> pa.RecordBatch:
        """The rows ``t``, and a condition for each name in small letters."""
        times = np.arange(TICKS)
        holds = [(times >= start) & (times < end) for start, end in self.situations.values()]
        return pa.record_batch([times, *holds], names=["t", *(name.lower() for name in self.situations)])


def _case(
    name: str,
    pattern: dict[tuple[str, str], list[str]],
    instant: int | None,
    *situations: tuple[int, int],
    bounds: dict[str, tuple[int, int | None]] | None = None,
) -> Golden:
    return Golden(name, pattern, dict(zip("ABCD", situations, strict=False)), instant, bounds or {})


GOLDEN = [
    _case("at the start of D", _FOUR, 8, (1, 3), (4, 15), (5, 8), (8, 12)),
    _case("not while C and D go on", _FOUR, 9, (1, 3), (6, 12), (4, 9), (5, 9)),
    _case("when D ends within C", _FOUR, 9, (1, 3), (6, 12), (4, 10), (5, 9)),
    _case("C overlaps D", _FOUR, None, (1, 3), (6, 12), (4, 9), (5, 10)),
    _case("while B and C go on", _FOUR, 7, (1, 3), (6, 12), (4, 11), (5, 7)),
    _case("when braking starts", _AGGRESSIVE, 12, (1, 7), (4, 15), (12, 18)),
    _case("when speeding ends", _AGGRESSIVE, 15, (1, 7), (4, 15), (12, 18), bounds=_BOUNDS),
    _case("braking is too short", _AGGRESSIVE, None, (1, 7), (4, 15), (12, 14), bounds=_BOUNDS),
    _case("when braking is long enough", _AGGRESSIVE, 15, (1, 7), (4, 14), (12, 18), bounds=_BOUNDS),
    _case(
        "one constraint was certain before",
        {("A", "B"): ["overlaps", "finishes", "contains"], ("B", "C"): ["during"]},
        8,
        (1, 12),
        (3, 8),
        (2, 10),
    ),
    _case("one ends as the other starts", {("A", "B"): ["meets"]}, 5, (2, 5), (5, 9)),
    _case(
        "two end at once",
        {("A", "C"): ["meets", "starts", "during"], ("B", "C"): ["before", "during"]},
        18,
        (17, 18),
        (17, 18),
        (14, 20),
    ),
]
