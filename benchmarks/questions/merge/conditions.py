"""What do disorder, lag and the number of stables do to a merge?"""

from __future__ import annotations

from harness import Bench, Case, Comparison, Figures, Question
from questions.merge.copies import Copies, batches, counted, revised
from tidelog.operators.merge.batches.counting.engine import Counted
from tidelog.operators.merge.batches.engine import BatchMerge, Keyed, Rows
from tidelog.operators.merge.codes import ADJUST, KIND

DISORDERS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
OUTPUT = "adjusts by disorder"
LAGS = (0, 1, 2, 4, 8)
STABLES = (0.0001, 0.001, 0.01)
WITHOUT = "one input without a merge"
NO_LAG, FEWEST = "no lag", "0.01% stables"


def ask_output(bench: Bench, events: int) -> None:
    """How many adjusts come out, against how many one of the inputs has, as disorder grows."""
    found, given = [], []
    for disorder in DISORDERS:
        copies = counted(Copies(events, 3, disorder))
        found.append(sum(int((out[KIND] == ADJUST).sum()) for out in _merged(Keyed(), copies)))
        given.append(int((copies[0][KIND] == ADJUST).sum()))
    curves = ", ".join(
        f"{disorder:.0%}: {one:,} of {other:,}" for disorder, one, other in zip(DISORDERS, found, given, strict=True)
    )
    bench.answer(
        Question(
            OUTPUT,
            "adjusts, half of the events late",
            events,
            Figures((float(found[-1]),)),
            {WITHOUT: Figures((float(given[-1]),))},
            [Comparison(WITHOUT, (WITHOUT,))],
            higher_is_better=False,
            note=f"3 inputs, by disorder: {curves}",
        )
    )


def lag_title(lag: int) -> str:
    """The name of the question about two inputs that are so many batches behind."""
    return f"lag of {lag} batches"


def ask_lags(bench: Bench, events: int) -> None:
    """How fast three inputs are merged as two of them lag: what is late is dropped at once."""
    copies = revised(Copies(events, 3, 0.2))
    elements = sum(copy.shape[1] for copy in copies)
    cases = [Case(lag_title(lag), lambda _, lag=lag: _merged(Keyed(), copies, [0, lag, lag])) for lag in LAGS]  # type: ignore[misc]
    outcomes = bench.race("lag", cases)
    figures = {name: Figures.of(each, lambda sample: elements / sample.wall / 1e6) for name, each in outcomes.items()}
    none = figures.pop(lag_title(0))
    for name, ours in figures.items():
        bench.answer(
            Question(name, "million elements/s", elements, ours, {NO_LAG: none}, [Comparison(NO_LAG, (NO_LAG,))])
        )


def stables_title(algorithm: str, rate: float) -> str:
    """The name of the question about an algorithm and so many stables."""
    return f"{algorithm}, {rate:.2%} stables"


def ask_stables(bench: Bench, events: int) -> None:
    """How fast R3 and R4 are, and what they remember, as stables become more frequent."""
    copies = {rate: revised(Copies(events, 3, 0.2, stables=rate)) for rate in STABLES}
    elements = sum(copy.shape[1] for copy in copies[STABLES[0]])
    for algorithm, make in {"R3": Keyed, "R4": Counted}.items():
        cases = [Case(f"{rate:.2%} stables", lambda _, rate=rate: _merged(make(), copies[rate])) for rate in STABLES]  # type: ignore[misc,operator]  # noqa: B023
        outcomes = bench.race(algorithm, cases)
        figures = {
            name: Figures.of(each, lambda sample: elements / sample.wall / 1e6) for name, each in outcomes.items()
        }
        most = {rate: _most(make(), copies[rate]) for rate in STABLES}
        few = figures[FEWEST]
        for rate in STABLES[1:]:
            bench.answer(
                Question(
                    stables_title(algorithm, rate),
                    "million elements/s",
                    elements,
                    figures[f"{rate:.2%} stables"],
                    {FEWEST: few},
                    [Comparison(FEWEST, (FEWEST,))],
                    note=f"remembers {most[rate]:,} events at the most, with {FEWEST} {most[STABLES[0]]:,}",
                )
            )


def _merged(merge: BatchMerge, copies: list[Rows], lags: list[int] | None = None) -> list[Rows]:
    for number in range(len(copies)):
        merge.attach(str(number))
    return [merge.push(str(number), rows) for number, rows in batches(copies, lags)]


def _most(merge: BatchMerge, copies: list[Rows]) -> int:
    for number in range(len(copies)):
        merge.attach(str(number))
    most = 0
    for number, rows in batches(copies):
        merge.push(str(number), rows)
        most = max(most, merge.size)
    return most
