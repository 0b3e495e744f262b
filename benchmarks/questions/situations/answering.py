"""Races of which everybody has to find the same number of matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from formats import ours
from harness import Bench, Case, Comparison, Figures, Question

Work = Callable[[], int]


def race(
    bench: Bench,
    title: str,
    events: int,
    work: Mapping[str, Work],
    comparisons: Sequence[Comparison],
    *,
    expected: Callable[[int], bool] | None = None,
    unequal: Sequence[str] = (),
    wall: bool = False,
    note: str = "",
) -> None:
    """Race contestants, the first of which is ours, by events a second of CPU, or of the clock.

    All have to find what the first one to be run does, but those that are ``unequal``, which do other work.
    """
    known: list[int] = []

    def case(name: str, own: Work) -> Case:
        def check(result: int) -> None:
            if name in unequal:
                return
            known.append(result)
            if result != known[0] or (expected is not None and not expected(result)):
                raise AssertionError(f"{name} found {result} matches, expected {known[0]}")

        def run(_: Path) -> int:
            return own()

        return Case(name, run, check=check)

    outcomes = bench.race(title, [case(name, own) for name, own in work.items()])
    millions = events / 1e6
    figures = {
        name: Figures.of(outcome, lambda sample: millions / (sample.wall if wall else sample.cpu))
        for name, outcome in outcomes.items()
    }
    mine = figures.pop(ours.NAME)
    unit = "M rows/s" if wall else "M rows/s of CPU"
    told = f"{known[0]} matches" if known else ""
    bench.answer(Question(title, unit, events, mine, figures, comparisons, note="; ".join(filter(None, [told, note]))))
