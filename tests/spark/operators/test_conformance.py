"""Every operator gives on Spark, over batches and streams, the rows that it gives everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from tidelog.operators.base import Needs, Operator
from tidelog.operators.composed import Composed, chain
from tidelog.operators.conformance import Case, Dice, OperatorConformance, Runtime, check_all
from tidelog.operators.join.asof import AsOfJoin, Direction
from tidelog.operators.join.partners import RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.rowpattern.operator import RowPatternOperator
from tidelog.operators.rowpattern.syntax import (
    Aggregate,
    Concatenation,
    Expression,
    MatchNumber,
    Measure,
    Navigation,
    OrderKey,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    Variable,
)
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.relations import BEFORE, DURING, FINISHES, OVERLAPPED_BY, OVERLAPS
from tidelog.operators.situations.syntax import Aggregate as Aggregated
from tidelog.operators.situations.syntax import (
    Constraint,
    Definition,
    Derivation,
    Mode,
    Returned,
    Situations,
    default_returned,
)
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, GrowingFrames, Period
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.spark.operators.conformance import SparkBatch, SparkStreaming

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF = shape()
NUMBERLESS = shape(seq=False)
DAYS = shape(pa.timestamp("s"), seq=False)
CALLS = {"rows": "count(*)", "sum": "sum(n)", "low": "min(x)", "mean": "avg(x)"}
HIGH, LOW = Definition("H", "n > -3", least=1), Definition("L", "x < 1")
PLACES = {"first": "first(n)", "last": "last(k)"}

OPERATORS: list[Callable[[], Operator]] = [
    lambda: Filter(OF, "n > 0 AND x IS NOT NULL"),
    lambda: Projection(OF, {"ts": "ts", "twice": "n * 2", "key": "upper(k)"}),
    lambda: Reorder(NUMBERLESS),
    lambda: Union([OF, OF, OF]),
    lambda: Union([NUMBERLESS, NUMBERLESS]),
    lambda: TimeWindows(OF, FixedFrames(10, 10), CALLS | PLACES, ["k"]),
    lambda: TimeWindows(OF, FixedFrames(12, 5, 3), CALLS | PLACES, ["k", "n"]),
    lambda: TimeWindows(OF, FixedFrames(12, 5, 3), CALLS | PLACES),
    lambda: TimeWindows(OF, FixedFrames(3, 7), CALLS),
    lambda: TimeWindows(NUMBERLESS, FixedFrames(9, 4), CALLS, ["x"]),
    lambda: TimeWindows(OF, FixedFrames(10, 10), CALLS, empty=True),
    lambda: TimeWindows(OF, FixedFrames(10, 5), CALLS, ["k"], complete_only=True),
    lambda: TimeWindows(OF, FromFirst(10, 4), CALLS, ["k"]),
    lambda: TimeWindows(OF, GrowingFrames(12, 4), CALLS, ["k"]),
    lambda: TimeWindows(OF, GrowingFrames(12, 3), CALLS),
    lambda: TimeWindows(
        DAYS, CalendarFrames(DAYS.clock, Period(days=1), Period(days=1), "Europe/Berlin"), CALLS, ["k"]
    ),
    lambda: CountWindows(OF, 7, 3, CALLS | PLACES, ["k"]),
    lambda: CountWindows(NUMBERLESS, 5, 5, CALLS),
    lambda: SessionWindows(OF, 2, CALLS | PLACES, ["k"]),
    lambda: SessionWindows(OF, 1, CALLS),
    lambda: AsOfJoin(OF, OF, {"k": "k"}),
    lambda: AsOfJoin(OF, NUMBERLESS, {"k": "k"}, direction=Direction.NEAREST, tolerance=4, outer=True),
    lambda: AsOfJoin(OF, OF, direction=Direction.FORWARD, strict=True, tolerance=6),
    lambda: AsOfJoin(OF, OF, direction=Direction.BACKWARD, outer=True),
    lambda: WindowJoin(OF, OF, (TimeWindow(6), TimeWindow(4, 2)), {"k": "k"}),
    lambda: WindowJoin(OF, OF, (TimeWindow(6), TimeWindow(4)), where="n > n_right"),
    lambda: WindowJoin(OF, OF, (RowWindow(4), TimeWindow(8)), {"k": "k"}),
    lambda: RowPatternOperator(OF, _falls(("k",), 9)),
    lambda: RowPatternOperator(NUMBERLESS, _falls((), 4, skip=Skip.TO_NEXT_ROW)),
    lambda: RowPatternOperator(OF, _falls(("k",), None, rows=Rows.WITH_UNMATCHED)),
    lambda: RowPatternOperator(OF, _falls(("k",), 12, strategy=Strategy.SKIP_TILL_NEXT)),
    lambda: RowPatternOperator(OF, _falls(("k",), 3, with_timeouts=True)),
    lambda: chain(Filter(OF, "n > -3"), _windows()),
    lambda: Composed(Union([_windows().output] * 2), [_windows(), _windows()]),
]
"""Each in its own way of being divided: by rows, keys, time, or not at all."""

SITUATIONS: list[Callable[[], Operator]] = [
    lambda: SituationsOperator(OF, _overlapping(("k",), Mode.COMPLETED)),
    lambda: SituationsOperator(NUMBERLESS, _overlapping((), Mode.EARLY)),
    lambda: SituationsOperator(OF, _overlapping((), Mode.COMPLETED)),
    lambda: SituationsOperator(OF, _overlapping(("k",), Mode.EARLY)),
    lambda: DeriveOperator(OF, Derivation((HIGH, LOW), (("rows", "count(*)"), ("last", "last(n)")), ("k",))),
    lambda: DeriveOperator(NUMBERLESS, Derivation((HIGH, LOW))),
]


def _overlapping(partition: tuple[str, ...], mode: Mode) -> Situations:
    """Some relations of two situations that are often on at once."""
    aggregates = (Aggregated("H", "sum(n)"), Aggregated("L", "count(*)"))
    returned = tuple(Returned(f"value{at}", '"#0"', (each,)) for at, each in enumerate(aggregates))
    constraint = Constraint("H", OVERLAPS | DURING | FINISHES | OVERLAPPED_BY | BEFORE, "L")
    return Situations((HIGH, LOW), (constraint,), 12, (*default_returned((HIGH, LOW)), *returned), partition, mode)


def _falls(partition: tuple[str, ...], within: int | None, **more: Any) -> RowPattern:
    """Rows whose ``n`` falls, once or several times, and rises then."""

    def against_last(sign: str) -> Expression:
        last = Navigation("n", frozenset({"A", "B"}))
        return Expression(f'"#0" {sign} "#1"', (Navigation("n"), last), (pa.int64(), pa.int64()))

    number = Expression('"#0"', (MatchNumber(),), (pa.int64(),))
    total = Expression('"#0"', (Aggregate("count(n)", frozenset({"B"})),), (pa.int64(),))
    falling = Expression('"#0" < "#1"', (Navigation("n"), Navigation("n", frozenset({"A"}))), (pa.int64(), pa.int64()))
    return RowPattern(
        NUMBERLESS.schema,
        Concatenation((Variable("A"), Quantified(Variable("B"), 1, 3), Variable("C"))),
        {"B": falling, "C": against_last(">")},
        (Measure("number", number, pa.int64()), Measure("falls", total, pa.int64())),
        partition,
        (OrderKey("ts"),),
        within=within,
        **more,
    )


def _windows() -> Operator:
    renamed = Projection(OF, {"ts": "ts", "g": "k", "x": "x"})
    windows = TimeWindows(renamed.output, FixedFrames(10, 5), {"n": "count(*)", "top": "max(x)"}, ["g"])
    return chain(renamed, windows, Filter(windows.output, "n > 1"))


def cases(dice: Dice, count: int, operators: Sequence[Callable[[], Operator]] = OPERATORS) -> list[Case]:
    """Random rows for each operator, so many times: none and one, ties, nulls, late ones."""
    found = []
    for _ in range(count):
        for make in operators:
            inputs = make().inputs
            lateness = [int(dice.choice([0, 3, 8])) for _ in inputs]
            sizes = [int(dice.choice([0, 1, 30, 80])) for _ in inputs]
            batches = [
                rows(of, dice, size, span=int(dice.choice([20, 90])), jitter=int(dice.choice([0, 5, 15])))
                for of, size in zip(inputs, sizes, strict=True)
            ]
            found.append(Case(make, batches, lateness))
    return found


def runtime(kind: str, session: SparkSession, folder: Path) -> Runtime:
    return SparkBatch(session) if kind == "batch" else SparkStreaming(session, folder)


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_every_operator_gives_the_same_rows(kind: str, session: SparkSession, tmp_path: Path) -> None:
    dice = np.random.default_rng(20)
    every = [*cases(dice, 3), *cases(np.random.default_rng(21), 4, SITUATIONS)]
    given = check_all(every, runtime(kind, session, tmp_path), dice)
    assert sum(map(len, given)) > 1000  # else nothing was compared


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_of_many_rows_too(kind: str, session: SparkSession, tmp_path: Path) -> None:
    dice = np.random.default_rng()
    check_all(cases(dice, 40), runtime(kind, session, tmp_path), dice)


def test_one_operator_is_checked_by_the_class_for_all(session: SparkSession) -> None:
    dice = np.random.default_rng(21)
    check = OperatorConformance(lambda: SessionWindows(OF, 2, CALLS, ["k"]), [SparkBatch(session)])
    assert check.check([rows(OF, dice, 50, jitter=4)], dice, lateness=2, rounds=1)


def _overconfident() -> Operator:
    """Counts all rows, and says that those of different keys know nothing of each other."""
    operator = TimeWindows(OF, FixedFrames(10, 10), CALLS)
    operator.needs = Needs(keys=(("k",),))
    return operator


def test_a_wrong_operator_is_found(session: SparkSession) -> None:
    dice = np.random.default_rng(22)
    with pytest.raises(AssertionError, match=r"Spark batch: found .* rows, expected"):
        check_all([Case(_overconfident, [rows(OF, dice, 50)], [0])], SparkBatch(session), dice)
