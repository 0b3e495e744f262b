"""Situations over what the index leaves to be read, against the replay of everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.profiles import scaled
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.interval import Interval
from tidelog.operators.base import Shape
from tidelog.operators.replaying import replay
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.relations import (
    ANY,
    BEFORE,
    CONTAINS,
    DURING,
    FINISHED_BY,
    FINISHES,
    NAMES,
    OVERLAPPED_BY,
    OVERLAPS,
)
from tidelog.operators.situations.syntax import (
    Aggregate,
    Constraint,
    Definition,
    Derivation,
    Mode,
    Returned,
    Situations,
    default_returned,
)
from tidelog.plan.reading import EVER, Reading
from tidelog.plan.replaying import stored_shape
from tidelog.plan.situations import Part, Query, SituationPlan, plan_situations
from tidelog.plan.stretches import NotPruned
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot

SCHEMA = pa.schema(
    [pa.field("ts", pa.int64(), nullable=False), ("k", pa.string()), ("n", pa.int32()), ("x", pa.float64())]
)
ROWS = 12_000
CONDITIONS = (
    "n >= 10",
    "x > 5",
    "n IS NULL",
    "x > 5 OR n = 12",
    "isnan(x)",
    "NOT (n < 10)",
    "n = 11 AND x < 0",
    "x < 50",
)
CALLS = (
    "count(*)",
    "count(n)",
    "max(n)",
    "min(x)",
    "max(x)",
    "sum(n)",
    "avg(n)",
    "sum(x)",
    "avg(x)",
    "first(n)",
    "last(k)",
    "last(n + ts)",
    "min(k)",
    "max(n) FILTER (WHERE x > 0)",
    "second_largest(n)",
    "second_largest(n) FILTER (WHERE x > 0)",
    "sum_of_squares(n)",
    "smallest(n)",
)
"""Values of x are whole numbers, the sums of which are exact."""
ALLEN = list(NAMES.values())


def table(dice: np.random.Generator, rows: int = ROWS) -> pa.Table:
    """Quiet rows, and some clusters in which everything happens; some are late, some have the same time."""
    times = np.cumsum(dice.choice([0, 0, 1, 2, 9], rows))
    n, x = dice.integers(0, 4, rows), np.where(dice.random(rows) < 0.5, -1.0, 1.0)
    nulls = np.zeros(rows, np.bool_)
    for start in dice.integers(0, rows - 200, 6).tolist():
        own = slice(start, start + int(dice.integers(20, 200)))
        n[own] = dice.integers(8, 14, len(n[own])) // dice.integers(1, 4)
        x[own] = dice.choice([-3, 1, 6, 60, np.nan], len(x[own]))
        nulls[own] = dice.random(len(n[own])) < 0.2
    for start in dice.integers(0, rows - 2_000, 2).tolist():  # long, and the same all the time
        x[start : start + 2_000] = 7
    late = dice.random(rows) < 0.01
    times[late] -= dice.integers(0, 400, late.sum())
    return pa.table(
        [times, dice.choice(["a", "b", "c"], rows), pa.array(n.astype(np.int32), mask=nulls), x], schema=SCHEMA
    )


@pytest.fixture(scope="module", params=[3, 4])
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    dice = np.random.default_rng(request.param)
    with tidelog.open(tmp_path_factory.mktemp("situations") / "events") as store:
        kept = ["second_largest(n)"]
        stream = store.create_stream("s", SCHEMA, "ts", split=5_000, lateness=150, leaf_rows=32, user_aggregates=kept)
        data = table(dice)
        for first in range(0, ROWS, 3_000):
            if first == 6_000:
                stream.attach("sum_of_squares(n)")  # which splits before do not keep
            stream.append(data.slice(first, 3_000))
            stream.flush()
        times = np.sort(data["ts"].to_numpy())
        stream.delete_before(int(times[ROWS // 20]))  # inside of a split, and of a leaf
        yield stream.snapshot()


def random_query(dice: np.random.Generator) -> Query:
    count = int(dice.integers(2, 4))
    chosen = dice.choice(CONDITIONS, count, replace=False)
    definitions = []
    for number, condition in enumerate(chosen.tolist()):
        least = int(dice.integers(1, 6)) if dice.random() < 0.3 else 0
        most = least + int(dice.integers(1, 30)) if dice.random() < 0.2 else None
        definitions.append(Definition("ABC"[number], condition, least, most))
    partition = ("k",) if dice.random() < 0.3 else ()
    if dice.random() < 0.3:
        chosen = dice.choice(CALLS, int(dice.integers(1, 6)), replace=False) if dice.random() < 0.6 else []
        return Derivation(tuple(definitions), tuple((f"c{at}", call) for at, call in enumerate(chosen)), partition)
    constraints = tuple(
        Constraint("ABC"[at], int(np.bitwise_or.reduce(dice.choice(ALLEN, int(dice.integers(2, 9))))), "ABC"[at + 1])
        for at in range(count - 1)
    )
    returned = default_returned(tuple(definitions))
    if dice.random() < 0.5:
        chosen = dice.choice(CALLS, int(dice.integers(1, 4)), replace=False).tolist()
        returned += tuple(
            Returned(f"c{at}", '"#0"', (Aggregate(str(dice.choice(["A", "B"])), call),))
            for at, call in enumerate(chosen)
        )
    mode = Mode.EARLY if dice.random() < 0.4 else Mode.COMPLETED
    return Situations(tuple(definitions), constraints, int(dice.choice([3, 20, 60, 300])), returned, partition, mode)


def operator_of(query: Query, shape: Shape) -> SituationsOperator | DeriveOperator:
    return SituationsOperator(shape, query) if isinstance(query, Situations) else DeriveOperator(shape, query)


def rows_of(query: Query, batches: list[pa.RecordBatch]) -> list[str]:
    found = [repr(row) for batch in batches for row in batch.to_pylist()]
    return sorted(found) if query.partition else found


def replayed(snapshot: Snapshot, query: Query) -> list[str]:
    shape = stored_shape(snapshot)
    rows = scan(snapshot, EVER, shape.schema.names)
    return rows_of(query, list(replay(operator_of(query, shape), [rows])))


def planned(snapshot: Snapshot, query: Query) -> SituationPlan:
    return plan_situations(query, stored_shape(snapshot), snapshot, None)


def test_what_is_left_out_changes_nothing(snapshot: Snapshot) -> None:
    dice = np.random.default_rng(21)
    pruned, with_rows, parts = 0, 0, set()
    for _ in range(scaled(40)):
        query = random_query(dice)
        try:
            plan = planned(snapshot, query)
        except NotPruned:
            continue
        readings: list[Reading] = []
        found = rows_of(query, list(plan.batches(readings.append)))
        assert found == replayed(snapshot, query), query
        pruned += readings[0].rows < 0.9 * ROWS
        with_rows += bool(found)
        parts |= {each.part for each in plan.steps}
        times = plan.read_times()
        if times is not None:
            rows = scan(snapshot, times, stored_shape(snapshot).schema.names)
            assert found == rows_of(query, list(replay(operator_of(query, stored_shape(snapshot)), [rows]))), query
    assert pruned > scaled(20)
    assert with_rows >= scaled(12)
    assert parts == set(Part)


def test_what_users_define_is_taken_from_trees_that_keep_it(snapshot: Snapshot) -> None:
    """Some splits keep both aggregates, some one; some rows are late, or deleted."""
    query = Derivation((Definition("A", "x > 5"),), (("a", "second_largest(n)"), ("b", "sum_of_squares(n)")))
    plan = planned(snapshot, query)
    assert any(each.part is Part.SUMMED for each in plan.steps)
    assert rows_of(query, list(plan.batches(lambda reading: None))) == replayed(snapshot, query)


def switched(store: tidelog.Store, minutes: int = 600, kept: Sequence[str] = ()) -> Snapshot:
    """A row for each second: a pump that runs most of the time, and pressure that is high a thousandth of it."""
    rows = minutes * 60
    times = np.arange(rows) * 1_000
    pressure = np.full(rows, 2.0)
    pressure[14_050 : 14_050 + rows // 1_000] = 9.0
    is_on = (np.arange(rows) // 7_000) % 2 == 0
    stream = store.create_stream(
        "pump",
        time="ts",
        data=pa.table({"ts": times, "on": is_on, "p": pressure}),
        leaf_rows=64,
        user_aggregates=kept,
    )
    stream.flush()
    return stream.snapshot()


HIGH, ON = Definition("H", "p > 5"), Definition("R", '"on"')


def read_leaves(snapshot: Snapshot, query: Query) -> tuple[int, int]:
    """Leaves that are read by what the index leaves, and for everything; what comes out is the same."""
    shape = stored_shape(snapshot)
    whole = ReadCounters()
    readings: list[Reading] = []
    found = rows_of(query, list(planned(snapshot, query).batches(readings.append)))
    rows = scan(snapshot, EVER, shape.schema.names, None, None, whole)
    assert found == rows_of(query, list(replay(operator_of(query, shape), [rows])))
    assert found
    (pieces,) = readings
    return pieces.counters.leaves, whole.leaves


@pytest.mark.parametrize("call", ["max(p) FILTER (WHERE ts % 2 = 0)", "second_largest(p)", "median(p)"])
def test_aggregates_that_entries_do_not_know_stand_beside_others(tmp_path: Path, call: str) -> None:
    """Rows of one situation are read, while those of the other, which goes on where the first cannot, are not."""
    with tidelog.open(tmp_path / "events") as store:
        snapshot = switched(store)
        returned = (
            Returned("top", '"#0"', (Aggregate("H", call),)),
            Returned("rows", '"#0"', (Aggregate("R", "count(*)"),)),
        )
        constraint = (Constraint("H", DURING | OVERLAPS, "R"),)
        some, every = read_leaves(snapshot, Situations((HIGH, ON), constraint, 20_000_000, returned, ()))
        assert some * 2 <= every


@pytest.mark.parametrize("partition", [(), ("on",)])
def test_nothing_is_read_where_no_condition_can_hold(tmp_path: Path, partition: tuple[str, ...]) -> None:
    with tidelog.open(tmp_path / "events") as store:
        snapshot = switched(store, 2)
        plan = planned(snapshot, Derivation((Definition("H", "p > 90"),), (("rows", "count(*)"),), partition))
        readings: list[Reading] = []
        assert list(plan.batches(readings.append)) == []
        assert sum(each.rows for each in readings) <= 1


def test_little_is_read_where_little_matters(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        snapshot = switched(store)
        returned = (*default_returned((HIGH,)), Returned("top", '"#0"', (Aggregate("H", "max(p)"),)))
        constraint = (Constraint("H", DURING | OVERLAPS, "R"),)
        early = Situations((HIGH, ON), constraint, 300_000, returned, (), Mode.EARLY)
        some, every = read_leaves(snapshot, early)
        assert some * 10 <= every
        long = Definition("R", '"on"', least=200_000)  # known at a row at which no condition changes
        inside = (Constraint("H", DURING | FINISHES | OVERLAPPED_BY, "R"),)
        for query in (
            Situations((HIGH, long), inside, 300_000, returned, (), Mode.EARLY),
            Situations((HIGH, ON), constraint, 20_000_000, returned),
            Derivation((HIGH, ON)),
            Derivation((HIGH,), (("top", "max(p)"),)),
            Derivation((HIGH,), (), ("on",)),
        ):
            some, every = read_leaves(snapshot, query)
            assert some * 10 <= every, query


def test_aggregates_of_what_does_not_change_are_taken_from_the_index(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        snapshot = switched(store, kept=["second_largest(p)", "sum_of_squares(p)"])
        calls = ("count(*)", "sum(p)", "avg(p)", "min(p)", "max(p)", "first(ts)", "last(ts)")
        calls += ("second_largest(p)", "sum_of_squares(p)")
        derived = Derivation((HIGH, ON), tuple((f"c{at}", call) for at, call in enumerate(calls)))
        matched = Situations(
            (HIGH, ON),
            (Constraint("H", DURING | OVERLAPS, "R"),),
            20_000_000,
            tuple(Returned(f"c{at}", '"#0"', (Aggregate("R", call),)) for at, call in enumerate(calls)),
        )
        for query in (derived, matched):
            some, every = read_leaves(snapshot, query)
            assert some * 10 <= every, query
        some, every = read_leaves(snapshot, Derivation((ON,), (("top", "max(p) FILTER (WHERE p > 0)"),)))
        assert some * 3 > every  # entries do not keep it: rows of half of the time are read


def test_an_early_match_is_about_all_rows_of_its_instant(tmp_path: Path) -> None:
    """Also where they are the first of many that are alike, of which the others are not read."""
    at = np.arange(40_000) // 4
    data = pa.table({"ts": at, "a": (at >= 2_000) & (at < 8_000), "b": (at >= 4_992) & (at < 6_000)})
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("s", time="ts", data=data, leaf_rows=64)
        stream.flush()
        both = Definition("A", "a"), Definition("B", "b")
        returned = tuple(
            Returned(f"{name}{at}", '"#0"', (Aggregate(name, call),))
            for name in "AB"
            for at, call in enumerate(("count(*)", "last(ts)"))
        )
        constraint = (Constraint("A", CONTAINS | OVERLAPS | FINISHED_BY, "B"),)
        query = Situations(both, constraint, 9_000, returned, (), Mode.EARLY)
        plan = planned(stream.snapshot(), query)
        assert any(each.part is Part.SUMMED for each in plan.steps)
        (found,) = [row for batch in plan.batches(lambda reading: None) for row in batch.to_pylist()]
        assert [found[name] for name in ("A0", "A1", "B0", "B1")] == [11_972, 4_992, 4, 4_992]


def test_planning_looks_at_each_stretch_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at all of them for each, as soon as there are many stretches in which nothing changes."""
    looked = []
    intersect = Interval.intersect

    def counted(one: Interval, other: Interval) -> Interval:
        looked.append(one)
        return intersect(one, other)

    monkeypatch.setattr(Interval, "intersect", counted)
    rows = np.arange(60_000)
    with tidelog.open(tmp_path / "events") as store:
        data = pa.table({"ts": rows, "on": (rows // 100) % 2 == 0, "n": rows % 7})
        stream = store.create_stream("s", time="ts", data=data, leaf_rows=8)
        stream.flush()
        query = Derivation((ON,), (("c", "count(*)"), ("s", "sum(n)")))
        plan = planned(stream.snapshot(), query)
        found = rows_of(query, list(plan.batches(lambda reading: None)))
        assert found == replayed(stream.snapshot(), query)
    summed = sum(each.part is Part.SUMMED for each in plan.steps)
    assert summed > 100
    assert len(looked) < 20 * len(plan.steps)


def test_with_keys_little_is_read_where_little_matters(tmp_path: Path) -> None:
    rows = 60_000
    at = np.arange(rows)
    low = 30_000  # before, some keys are hot, and are for ever; then a thousandth of the time matters
    heat = np.where((at >= low) & (at < low + rows // 1_000), 9.0, 2.0)
    heat[(at < low) & (at % 20 == 3)] = 9.0
    data = pa.table({"ts": at * 100, "k": at % 20, "heat": heat, "on": (at // 300) % 2 == 0})
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("s", time="ts", data=data, leaf_rows=64)
        stream.flush()
        snapshot = stream.snapshot()
        both = Definition("H", "heat > 5 AND ts >= 2900000"), ON
        for mode, within in ((Mode.EARLY, 20_000), (Mode.COMPLETED, 60_000)):
            returned = (*default_returned(both), Returned("top", '"#0"', (Aggregate("R", "max(heat)"),)))
            query = Situations(both, (Constraint("H", ANY & ~BEFORE, "R"),), within, returned, ("k",), mode)
            plan, readings, whole = planned(snapshot, query), list[Reading](), ReadCounters()
            found = rows_of(query, list(plan.batches(readings.append)))
            assert found == replayed(snapshot, query)
            assert found
            list(scan(snapshot, EVER, ["ts"], None, None, whole))
            assert (plan.counters.leaves + readings[0].counters.leaves) * 10 <= whole.leaves, mode
            assert plan.read_times() is not None


def test_a_key_that_was_silent_has_begun_before(tmp_path: Path) -> None:
    """What holds in the last row of a key, however long ago, goes on."""
    at = np.arange(8_000)
    keys = np.where((at == 10) | (at >= 7_000), "quiet", "other")
    a = (at == 10) | ((at >= 7_000) & (at < 7_010))
    b = (at >= 7_004) & (at < 7_020)
    with tidelog.open(tmp_path / "events") as store:
        data = pa.table({"ts": at, "k": keys, "a": a, "b": b})
        stream = store.create_stream("s", time="ts", data=data, leaf_rows=32)
        stream.flush()
        both = Definition("A", "a"), Definition("B", "b")
        for within, count in ((50, 0), (7_500, 1)):
            query = Situations(
                both, (Constraint("A", OVERLAPS, "B"),), within, default_returned(both), ("k",), Mode.COMPLETED
            )
            found = rows_of(query, list(planned(stream.snapshot(), query).batches(lambda reading: None)))
            assert found == replayed(stream.snapshot(), query)
            assert len(found) == count


def test_nothing_is_read_where_a_situation_cannot_be(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "events") as store:
        snapshot = switched(store)
        never = Definition("N", "p > 20")
        always = Definition("A", "p < 20")
        for other in (never, always):
            for partition in ((), ("on",)):
                query = Situations((HIGH, other), (Constraint("H", ANY & ~BEFORE, other.name),), 10**6, (), partition)
                plan = planned(snapshot, query)
                assert plan.steps == ()
                assert list(plan.batches(lambda reading: None)) == replayed(snapshot, query) == []
        empty = store.create_stream("none", SCHEMA, "ts").snapshot()
        assert list(planned(empty, Derivation((Definition("A", "n > 5"),))).batches(lambda reading: None)) == []


def test_the_last_row_of_the_window_is_read(tmp_path: Path) -> None:
    rows = np.arange(80)
    data = pa.table({"ts": rows * 10, "a": rows == 7, "b": (rows >= 10) & (rows < 16)})
    with tidelog.open(tmp_path / "events") as store:
        stream = store.create_stream("s", time="ts", data=data, leaf_rows=8)
        stream.flush()
        both = Definition("A", "a"), Definition("B", "b")
        for within in (89, 90):
            query = Situations(both, (Constraint("A", BEFORE, "B"),), within, default_returned(both))
            found = rows_of(query, list(planned(stream.snapshot(), query).batches(lambda reading: None)))
            assert found == replayed(stream.snapshot(), query)
            assert len(found) == (within == 90)


REFUSED: dict[str, tuple[Query, str]] = {
    "not known": (Derivation((Definition("A", "n + x > 5 AND k || 'a' > 'b'"),)), "least and the greatest"),
    "everywhere": (Derivation((Definition("A", "n % 2 = 1"), Definition("B", "n = 2"))), "may be part"),
    "long": (
        Situations((Definition("A", "n > 5"), Definition("B", "n = 2")), (Constraint("A", BEFORE, "B"),), 1 << 62, ()),
        "as long as time",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_is_read_where_little_is_known(snapshot: Snapshot, name: str) -> None:
    query, reason = REFUSED[name]
    with pytest.raises(NotPruned, match=reason):
        planned(snapshot, query)
