"""Row patterns over the times that the index leaves, against the replay of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.model.times.intervals import Intervals
from tidelog.operators.rowpattern.compiling import compile_query
from tidelog.operators.rowpattern.evaluate import Piece, evaluate, evaluate_pieces
from tidelog.operators.rowpattern.syntax import (
    Aggregate,
    Alternation,
    Anchor,
    Concatenation,
    Expression,
    MatchNumber,
    Measure,
    Navigation,
    OrderKey,
    Pattern,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    Variable,
)
from tidelog.plan.patterns import PatternPlan, plan_pattern
from tidelog.plan.reading import EVER, Reading
from tidelog.plan.stretches import NotPruned
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot

TIME = pa.timestamp("us")
SCHEMA = pa.schema([pa.field("ts", TIME, nullable=False), ("k", pa.string()), ("n", pa.int32()), ("x", pa.float64())])
SECOND = 1_000_000
ROWS = 60_000
A, B, C, D = (Variable(name) for name in "ABCD")


def table(dice: np.random.Generator, clusters: int) -> pa.Table:
    """Rows whose ``n`` is 0 to 3 but for some clusters, where it is also 10 to 13; some come late."""
    times = np.arange(ROWS) // 3 * SECOND  # three of each time
    n = dice.integers(0, 4, ROWS)
    for start in dice.integers(0, ROWS - 80, clusters).tolist():
        places = start + dice.integers(0, 60, 30)
        n[places] = dice.integers(10, 14, 30)
    late = dice.random(ROWS) < 0.01
    times[late] -= dice.integers(0, 3000, late.sum()) * SECOND
    return pa.table(
        [
            pa.array(times + 10**15).cast(pa.timestamp("us")),
            pa.array(dice.choice(["a", "b", "c"], ROWS)),
            pa.array(n, pa.int32(), mask=dice.random(ROWS) < 0.05),
            pa.array(np.where(dice.random(ROWS) < 0.001, np.nan, dice.integers(-99, 99, ROWS) / 4)),
        ],
        schema=SCHEMA,
    )


@pytest.fixture(scope="module", params=[9, 25])
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    store = tidelog.open(tmp_path_factory.mktemp("patterns") / "events")
    stream = store.create_stream("s", schema=SCHEMA, time="ts", split="1h", lateness="10m")
    data = table(np.random.default_rng(request.param), request.param)
    for first in range(0, ROWS, 7_000):
        stream.append(data.slice(first, 7_000))
        stream.flush()
    yield stream.snapshot()
    store.close()


def own(column: str, variable: str, physical: int = 0) -> Navigation:
    return Navigation(f'"{column}"', frozenset({variable}), physical=physical)


def is_n(variable: str, value: int) -> Expression:
    return Expression(f'"#0" = {value}', (own("n", variable),), (pa.int32(),))


def defined(**values: int) -> dict[str, Expression]:
    return {name: is_n(name, value) for name, value in values.items()}


MEASURES = (
    Measure("number", Expression('"#0"', (MatchNumber(),), (pa.int64(),)), pa.int64()),
    Measure(
        "first",
        Expression('"#0"', (Navigation('"ts"', is_last=False),), (TIME,)),
        TIME,
    ),
    Measure(
        "last",
        Expression('"#0"', (Navigation('"ts"', is_final=True),), (TIME,)),
        TIME,
    ),
    Measure("rows", Expression('"#0"', (Aggregate("count(*)", is_final=True),), (pa.int64(),)), pa.int64()),
)


def query(pattern: Pattern, defines: dict[str, Expression], **more: object) -> RowPattern:
    given: dict[str, object] = {"within": 40 * SECOND, "order": (OrderKey("ts"),), "measures": MEASURES, **more}
    return RowPattern(SCHEMA, pattern, defines, **given)


def planned(snapshot: Snapshot, of: RowPattern) -> PatternPlan:
    return plan_pattern(compile_query(of), snapshot, None)


def replayed(snapshot: Snapshot, of: RowPattern, times: Intervals = EVER) -> list[str]:
    rows = pa.Table.from_batches(scan(snapshot, times, SCHEMA.names), SCHEMA)
    if of.partition:
        rows = rows.take(pa.compute.sort_indices(rows, sort_keys=[(name, "ascending") for name in of.partition]))
    return rows_of(of, list(evaluate(of, rows.combine_chunks().to_batches())))


def rows_of(of: RowPattern, batches: list[pa.RecordBatch]) -> list[str]:
    found: list[dict[str, object]] = pa.Table.from_batches(batches, of.output).to_pylist()
    return sorted(map(repr, found)) if of.partition else list(map(repr, found))  # in which NaN is equal to itself


TRUE_STAR = Quantified(D, 0, None)
RELUCTANT = Quantified(D, 0, None, is_greedy=False)
RISING = Expression(
    '"#0" > "#1" AND "#2" = 12',
    (own("x", "B"), own("x", "B", -1), own("n", "B")),
    (pa.float64(), pa.float64(), pa.int32()),
)
FALLING = Expression(
    '"#0" = 11 AND ("#1" < 0 OR "#2" < 0)',
    (own("n", "A"), own("x", "A"), own("x", "A", 2)),
    (pa.int32(), pa.float64(), pa.float64()),
)
SAME = Expression(
    '"#0" = 13 AND "#1" = "#2"',
    (own("n", "C"), own("k", "C"), Navigation('"k"', frozenset({"A"}))),
    (pa.int32(), pa.string(), pa.string()),
)
NOT_KNOWN = Expression('"#0" IS NULL', (own("n", "B"),), (pa.int32(),))

QUERIES: dict[str, RowPattern] = {
    "one behind the other": query(Concatenation((A, B)), defined(A=10, B=11)),
    "anything between": query(Concatenation((A, RELUCTANT, B, RELUCTANT, C)), defined(A=10, B=11, C=12)),
    "greedy": query(Concatenation((A, TRUE_STAR, B)), defined(A=10, B=11)),
    "anything first": query(Concatenation((Quantified(D, 0, 5), A, B)), defined(A=10, B=11)),
    "anything last": query(Concatenation((A, Quantified(D, 2, 7))), defined(A=10)),
    "overlapping": query(Concatenation((A, RELUCTANT, B)), defined(A=10, B=11), skip=Skip.TO_NEXT_ROW),
    "alternatives": query(Concatenation((Alternation((A, B)), RELUCTANT, C)), defined(A=10, B=11, C=12)),
    "repeated": query(Concatenation((Quantified(A, 2, 3), RELUCTANT, B)), defined(A=10, B=12)),
    "all rows": query(Concatenation((A, RELUCTANT, B)), defined(A=10, B=11), rows=Rows.SHOW_EMPTY),
    "neighbours": query(Concatenation((A, RELUCTANT, B)), {"A": FALLING, "B": RISING}),
    "references": query(Concatenation((A, RELUCTANT, C)), {**defined(A=10), "C": SAME}),
    "nulls": query(Concatenation((A, B)), {**defined(A=10), "B": NOT_KNOWN}),
    "skip till next": query(Concatenation((A, B, C)), defined(A=10, B=11, C=12), strategy=Strategy.SKIP_TILL_NEXT),
    "skip till any": query(
        Concatenation((A, B)),
        defined(A=10, B=11),
        strategy=Strategy.SKIP_TILL_ANY,
        is_all_matches=True,
        within=4 * SECOND,
    ),
    "partitions": query(Concatenation((A, RELUCTANT, B)), defined(A=10, B=11), partition=("k",), measures=MEASURES[1:]),
    "short": query(Concatenation((A, B)), defined(A=10, B=11), within=0),
    "never": query(Concatenation((A, B)), defined(A=10, B=99)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_pieces_give_what_everything_does(snapshot: Snapshot, name: str) -> None:
    of = QUERIES[name]
    plan = planned(snapshot, of)
    readings: list[Reading] = []
    found = rows_of(of, list(plan.batches(readings.append)))
    assert found == replayed(snapshot, of)
    assert found == replayed(snapshot, of, plan.read_times()), "rows of these times, one behind the other"
    assert sum(each.rows for each in readings) < 0.8 * ROWS
    assert bool(found) == (name != "never"), "a test of no matches tells nothing"


def test_pieces_have_nothing_to_do_with_each_other() -> None:
    """Rows on both sides of a gap are no neighbours, though they come one behind the other."""
    marked = {1: (True, False), 3: (True, True), 5: (True, False), 6: (False, True), 7: (False, True)}
    schema = pa.schema([("ts", pa.int64()), ("a", pa.bool_()), ("b", pa.bool_())])

    def piece(*positions: int) -> Piece:
        columns = zip(*((each, *marked.get(each, (False, False))) for each in positions), strict=True)
        return Piece(None, [pa.record_batch([list(each) for each in columns], schema=schema)], None)

    first = Measure("first", Expression('"#0"', (Navigation('"ts"', is_last=False),), (pa.int64(),)), pa.int64())
    last = Measure("last", Expression('"#0"', (Navigation('"ts"'),), (pa.int64(),)), pa.int64())
    defines = {name: Expression('"#0"', (own(name.lower(), name),), (pa.bool_(),)) for name in "AB"}
    skip = Skip.TO_NEXT_ROW
    of = RowPattern(
        schema, Concatenation((A, D, B)), defines, (first, last), (), (OrderKey("ts"),), skip=skip, within=6
    )
    found = evaluate_pieces(compile_query(of), [piece(1, 2, 3), piece(5, 6, 7)])
    assert [tuple(row.values()) for batch in found for row in batch.to_pylist()] == [(1, 3), (5, 7)]


REFUSED: dict[str, tuple[Callable[[], RowPattern], str]] = {
    "no window": (lambda: query(A, defined(A=10), within=None), "no WITHIN"),
    "empty": (lambda: query(Quantified(A, 0, None), defined(A=10)), "no rows"),
    "anchored": (lambda: query(Concatenation((A, Anchor(False))), defined(A=10)), "an anchor"),
    "unmatched": (lambda: query(A, defined(A=10), rows=Rows.WITH_UNMATCHED), "unmatched"),
    "timeouts": (lambda: query(A, defined(A=10), with_timeouts=True), "partial matches"),
    "descending": (lambda: query(A, defined(A=10), order=(OrderKey("ts", True),)), "not that of time"),
    "numbered": (
        lambda: query(
            A, {"A": Expression('"#0" = 10 AND "#1" < 3', (own("n", "A"), MatchNumber()), (pa.int32(), pa.int64()))}
        ),
        "asks for MATCH_NUMBER",
    ),
    "numbered partitions": (lambda: query(A, defined(A=10), partition=("k",)), "are numbered"),
    "neighbours of partitions": (
        lambda: query(A, {"A": FALLING}, partition=("k",), measures=()),
        "leaves the match",
    ),
    "nothing known": (lambda: query(Concatenation((D, Quantified(A, 0, None))), defined(A=10)), "confined"),
    "everywhere": (lambda: query(Concatenation((A, RELUCTANT, B)), defined(A=1, B=2)), "near enough"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_is_replayed_where_pieces_would_be_wrong(snapshot: Snapshot, name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(NotPruned, match=reason):
        planned(snapshot, make())


def test_no_events(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("s", schema=SCHEMA, time="ts")
        of = QUERIES["greedy"]
        plan = planned(stream.snapshot(), of)
        assert rows_of(of, list(plan.batches(lambda reading: None))) == []
