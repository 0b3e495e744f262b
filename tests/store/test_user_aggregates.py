"""User-defined aggregates of streams against brute force over their rows, whatever the splits keep."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.media.crash import Crash, RecordingMedium, kills, power_losses
from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.aggregates import Incremental, register, unregister
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.index import states
from tidelog.model.errors import GrainError, InputError, LockedError, NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.parts import split_trees
from tidelog.store.upkeep.rebuilding import rebuild

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.float64()), ("n", pa.int32())])
SMALL = {"leaf_rows": 4, "fanout": 3, "late_rows": 12}
Row = tuple[int, float | None, int | None]


class Peak(Incremental):
    """The largest value of ``n`` and how often it is there: what a user may write."""

    name = "peak"
    id = "test_user_aggregates:peak"
    state = np.dtype([("value", "<i8"), ("times", "<i8")])

    def init(self, columns: Sequence[Any], cuts: Any) -> Any:
        (values,) = columns
        ones = np.ones(len(values), np.int64)
        return self._peaks(values.astype(np.int64), ones, cuts)

    def merge(self, states: Any, cuts: Any) -> Any:
        return self._peaks(states["value"], states["times"], cuts)

    def _peaks(self, values: Any, times: Any, cuts: Any) -> Any:
        found = np.empty(len(cuts) - 1, self.state)
        found["value"] = np.maximum.reduceat(values, cuts[:-1])
        is_peak = values == np.repeat(found["value"], np.diff(cuts))
        found["times"] = np.add.reduceat(np.where(is_peak, times, 0), cuts[:-1])
        return found

    def eval(self, state: Any) -> Any:
        return int(state["value"]), int(state["times"])


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(Peak)
    yield
    unregister(Peak)


@contextmanager
def without_code() -> Iterator[None]:
    unregister(Peak)
    try:
        yield
    finally:
        register(Peak)


def _second(values: list[Any], last: bool) -> Any:
    ordered = sorted(values)
    return None if len(ordered) < 2 else ordered[-2] if last else ordered[1]


def _numbers(rows: list[Row]) -> list[int]:
    return [row[2] for row in rows if row[2] is not None]


def _floats(rows: list[Row]) -> list[float]:
    return [row[1] for row in rows if row[1] is not None]


def _box(rows: list[Row]) -> Any:
    places = [(row[1], row[2]) for row in rows if row[1] is not None and row[2] is not None]
    if not places:
        return None
    xs, ys = [x for x, _ in places], [y for _, y in places]
    return {"min_x": min(xs), "min_y": min(ys), "max_x": max(xs), "max_y": max(ys)}


EXPECTED: dict[str, Callable[[list[Row]], Any]] = {
    "second_largest(x)": lambda rows: _second(_floats(rows), True),
    "second_smallest(n)": lambda rows: _second(_numbers(rows), False),
    "last(n)": lambda rows: rows[-1][2] if rows else None,
    "first(x)": lambda rows: rows[0][1] if rows else None,
    "stddev(x)": lambda rows: statistics.stdev(_floats(rows)) if len(_floats(rows)) > 1 else None,
    "bounding_box(x, n)": _box,
    "peak(n)": lambda rows: (
        (max(_numbers(rows)), _numbers(rows).count(max(_numbers(rows)))) if _numbers(rows) else None
    ),
    "count(*)": len,
    "max(n)": lambda rows: max(_numbers(rows), default=None),
}
TEXTS = list(EXPECTED)
OWN = [text for text in TEXTS if text not in ("count(*)", "max(n)")]


def rows_of(stream: Stream, start: int | None = None, end: int | None = None, where: str | None = None) -> list[Row]:
    found = stream.scan(start, end, where=where).read_all()
    return list(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def table(rows: list[Row]) -> pa.Table:
    arrays = [pa.array([row[index] for row in rows], SCHEMA.types[index]) for index in range(3)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def compare(stream: Stream, start: int | None, end: int | None, texts: Sequence[str] = TEXTS) -> None:
    rows = rows_of(stream, start, end)
    found = stream.aggregate(start, end, list(texts))
    for text in texts:
        expected = EXPECTED[text](rows)
        if isinstance(expected, float) and text.startswith("stddev"):
            assert found[text] == pytest.approx(expected, rel=1e-9, abs=1e-9), (text, start, end)
        else:
            assert found[text] == expected, (text, start, end)


def some_rows(count: int, seed: int = 0) -> list[Row]:
    dice = np.random.default_rng(seed)
    return [
        (
            index if dice.random() < 0.8 else int(dice.integers(0, count)),
            None if dice.random() < 0.1 else float(dice.integers(-50, 50)) / 4,
            None if dice.random() < 0.2 else int(dice.integers(-9, 9)),
        )
        for index in range(count)
    ]


def ordered(count: int) -> list[Row]:
    return sorted(some_rows(count), key=lambda row: row[0])


RANGES = [(None, None), (0, 1), (10, 11), (13, 77), (None, 100), (99, None), (50, 50), (10_000, None)]


@pytest.mark.parametrize("options", [{}, {"split": 37}, {"split": 37, "late_rows": 1}])
def test_every_aggregate_of_every_range(options: dict[str, Any]) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL | options, user_aggregates=OWN)
        for first in range(0, 300, 60):
            stream.append(table(some_rows(300)[first : first + 60]))
            for start, end in RANGES:
                compare(stream, start, end)
        stream.flush()
        assert stream.check() == []
        explained = stream.explain(13, 250, OWN)
        assert explained.count("from the index") == len(OWN)
    with Store(medium, read_only=True) as store:
        for start, end in RANGES:
            compare(store.stream("s"), start, end)


@pytest.mark.parametrize("type", [pa.int16(), pa.uint64(), pa.float32(), pa.float64()])
def test_functions_of_sql_find_the_states_of_all_numbers(type: pa.DataType) -> None:
    functions = ["stddev", "variance", "stddev_pop", "var_pop"]
    values = [None if index % 7 == 3 else index * index % 101 for index in range(100)]
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", type)])
    with Store(MemoryMedium()) as store:
        texts = [f"{function}(x)" for function in functions]
        stream = store.create_stream("s", schema, "ts", **SMALL, split=30, user_aggregates=texts)
        stream.append(pa.table([list(range(100)), pa.array(values, type)], schema=schema))
        for start, end in [(0, 100), (13, 77), (5, 6), (3, 4)]:
            found = list(stream.aggregate(start, end, texts).values())
            some = [value for value in values[start:end] if value is not None]
            expected: list[Any] = [None] * 4
            if len(some) > 1:
                expected[:2] = [statistics.stdev(some), statistics.variance(some)]
            if some:
                expected[2:] = [statistics.pstdev(some), statistics.pvariance(some)]
            assert found == [each if each is None else pytest.approx(each) for each in expected]
        assert stream.explain(13, 77, texts).count("from the index\n") == 4
        assert "from events" in stream.explain(13, 77, ["stddev(x + 1)"])


def test_conditions_and_moments_go_by_events() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=OWN)
        stream.append(table(some_rows(100)))
        chosen = rows_of(stream, where="n > 0")
        found = stream.aggregate(None, None, OWN, where="n > 0")
        assert found["peak(n)"] == EXPECTED["peak(n)"](chosen)
        assert found["second_largest(x)"] == EXPECTED["second_largest(x)"](chosen)
        filtered = stream.aggregate(None, None, ["peak(n) FILTER (WHERE n < 3)"])
        assert list(filtered.values()) == [EXPECTED["peak(n)"](rows_of(stream, where="n < 3"))]
        old = stream.aggregate(None, None, ["last(n)"], as_of=10)
        rows = [row for row in stream.scan(seq=True).read_all().to_pylist() if row["_seq"] < 10]
        assert old["last(n)"] == rows[-1]["n"]
        assert "peak(n): from events" in stream.explain(None, None, ["peak(n)"], where="n > 0")
        many = stream.aggregate_all([(0, 50), (20, 90), (None, None)], ["peak(n)", "count(*)"])
        assert [each["peak(n)"] for each in many] == [
            EXPECTED["peak(n)"](rows_of(stream, *each)) for each in [(0, 50), (20, 90), (None, None)]
        ]


def test_a_range_visits_few_nodes_and_no_more_than_two_leaves() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=4, user_aggregates=["peak(n)"])
        stream.append(table(ordered(2000)))
        line = stream.explain(100, 1900, ["peak(n)"]).splitlines()[-1]
        nodes, leaves = int(line.split()[1]), int(line.split()[-2])
        assert leaves <= 2
        assert nodes <= 2 * math.ceil(math.log(500, 4))


def test_splits_that_are_whole_are_answered_by_the_manifest() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=OWN)
        stream.append(table(ordered(400)))
    with Store(medium) as store:
        stream = store.stream("s")
        compare(stream, 0, 380, ["peak(n)", "last(n)"])
        blocks = stream.stats()["blocks_read"]
        assert stream.aggregate(20, 360, ["peak(n)"])["peak(n)"] is not None
        assert stream.stats()["blocks_read"] == blocks


@pytest.mark.parametrize("change", [{}, {"add": {"more": pa.int8()}}, {"widen": {"n": pa.int64()}}])
def test_of_whole_splits_one_is_opened_whatever_became_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    medium = MemoryMedium()
    kept = ["last(n)", "second_largest(x)", "bounding_box(x, n)"]
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=kept)
        stream.append(table(ordered(400)))
        rows = rows_of(stream, 20, 360)
        if change:
            stream.evolve(**change)
    opened: list[str] = []
    real = split_trees.closed_tree

    def watched(context: Any, info: Any) -> Any:
        opened.append(info.name)
        return real(context, info)

    monkeypatch.setattr(split_trees, "closed_tree", watched)
    with Store(medium, read_only=True) as store:
        found = store.stream("s").aggregate(20, 360, kept)
        assert found == {text: EXPECTED[text](rows) for text in kept}
        assert len(opened) <= 1  # which tells what others like it keep


def test_hundreds_of_splits_are_merged_in_groups() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=2, user_aggregates=OWN)
        for first in range(0, 400, 100):
            stream.append(table(ordered(400)[first : first + 100]))
            stream.flush()
        assert len(stream.stats()["splits"]) > 128
        stream.append(table(some_rows(40)))
        for start, end in [*RANGES, (2, 398), (128, 256), (127, 385), (130, 140)]:
            compare(stream, start, end)
    with Store(medium) as store:
        stream = store.stream("s")
        stream.attach("largest(n)")  # what splits keep is no longer what new ones will
        for start, end in [*RANGES, (2, 398), (127, 385)]:
            compare(stream, start, end)
    with Store(medium, read_only=True) as store:
        compare(store.stream("s"), 3, 390)
        assert store.stream("s").explain(3, 390, ["peak(n)"]).startswith("peak(n): from the index\n")


def test_ranges_between_the_rows_of_a_loaded_split_are_empty() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["last(n)", "first(x)"])
        stream.append(table([(-5, 1.0, 1)]))  # so that the loaded rows have other numbers than in their file
        stream.flush()
        writer = BulkWriter(writer_of(stream).context)
        for batch in table([(0, 2.0, 2), (100, 3.0, None)]).to_batches():
            writer.append(batch)
        commit_bulk(writer_of(stream).manifests, writer.finish())
        for start, end in [(10, 20), (0, 100), (1, 101), (None, None)]:
            compare(stream, start, end)


def test_readers_find_the_states_of_an_open_split_once() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=4, fanout=16, user_aggregates=["peak(n)"])
        stream.append(table(ordered(300)))
    with Store(medium, read_only=True) as store:
        stream = store.stream("s")
        compare(stream, 5, 290, ["peak(n)"])
        leaves = [int(stream.explain(5, 290, ["peak(n)"]).split()[-2]) for _ in range(2)]
        assert leaves[0] <= 2
        compare(stream, None, None, ["peak(n)"])


# Without the code. ------------------------------------------------------------------------------------


def test_a_store_opens_without_the_code_and_says_what_it_cannot_answer(caplog: pytest.LogCaptureFixture) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=OWN)
        stream.append(table(some_rows(100)))
    others = [text for text in TEXTS if text != "peak(n)"]
    with without_code(), Store(medium) as store:
        stream = store.stream("s")
        compare(stream, 5, 80, others)
        with pytest.raises(
            NotFoundError, match=r"test_user_aggregates:peak is not here; import 'test_user_aggregates'"
        ):
            stream.aggregate(None, None, ["peak(n)"])
        # The open split is gone on with, too.
        stream.append(table([(100 + index, 1.0, index) for index in range(100)]))
        compare(stream, 5, 180, others)
        stream.flush()
        assert stream.check() == []
        assert "new splits will be without the aggregate peak(n)" in caplog.text
    with Store(medium) as store:
        stream = store.stream("s")
        for start, end in RANGES:
            compare(stream, start, end)
        stream.append(table([(300 + index, 1.0, index) for index in range(30)]))
        compare(stream, None, None)
        stream.attach("peak(n)", mode="rebuild")
        compare(stream, None, None)
        assert stream.explain(None, None, ["peak(n)"]).startswith("peak(n): from the index")
        assert stream.check() == []


def test_an_aggregate_that_fails_costs_no_events(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["peak(n)", "last(n)"])
        with monkeypatch.context() as patch:
            patch.setattr(Peak, "merge", lambda self, states, cuts: 1 / 0)
            stream.append(table(ordered(100)))
            stream.flush()
        assert len(stream) == 100
        assert "peak(n) is not kept up to date: division by zero" in caplog.text
        compare(stream, 3, 90)


def test_other_code_under_the_same_id_is_noticed() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["peak(n)"])
        stream.append(table(ordered(100)))

    class Wide(Peak):
        id = Peak.id
        state = np.dtype([("value", "<i8"), ("times", "<i8"), ("more", "<i8")])

    register(Wide)
    with Store(medium) as store:
        stream = store.stream("s")
        assert stream.aggregate(0, 50, ["peak(n)"])["peak(n)"] == EXPECTED["peak(n)"](rows_of(stream, 0, 50))
        assert "from events" in stream.explain(0, 50, ["peak(n)"])


def test_code_that_cannot_be_made_any_more_keeps_nobody_from_the_events(caplog: pytest.LogCaptureFixture) -> None:
    class Scaled(Peak):
        name = "scaled"
        id = "test_user_aggregates:scaled"
        parameters: ClassVar = {"scale": 1}

        def __init__(self, types: Sequence[pa.DataType], scale: int = 1) -> None:
            super().__init__(types)

    class Unscaled(Scaled):
        id = Scaled.id
        parameters: ClassVar = {}

        def __init__(self, types: Sequence[pa.DataType]) -> None:
            super().__init__(types)

    medium = MemoryMedium()
    register(Scaled)
    try:
        with Store(medium) as store:
            stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["scaled(n, 2)"])
            stream.append(table(ordered(40)))
        register(Unscaled)
        with Store(medium) as store:
            stream = store.stream("s")
            stream.append(table([(100, 1.0, 50)]))
            stream.flush()
            assert len(stream) == 41
            assert "fails for scaled(n, 2): TypeError" in caplog.text
            assert stream.aggregate(None, None, "scaled(n)")["scaled(n)"] == (50, 1)
            stream.detach("scaled(n, 2)")
    finally:
        unregister(Scaled)


def test_code_that_is_registered_again_is_what_open_streams_go_on_with() -> None:
    class Other(Peak):
        id = Peak.id

        def eval(self, state: Any) -> Any:
            return "other"

    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["peak(n)"])
        stream.append(table(ordered(40)))
        compare(stream, 0, 30, ["peak(n)"])
        register(Other)
        assert stream.aggregate(0, 30, ["peak(n)"])["peak(n)"] == "other"
        with without_code(), pytest.raises(NotFoundError, match="import 'test_user_aggregates'"):
            stream.aggregate(0, 30, ["peak(n)"])
        compare(stream, 0, 30, ["peak(n)"])


@pytest.mark.parametrize("function", ["init", "merge", "eval"])
def test_errors_of_code_tell_whose_they_are(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL)
        stream.append(table(ordered(100)))
        stream.flush()
        monkeypatch.setattr(Peak, function, lambda self, *_: {}["nothing"])
        with pytest.raises(KeyError) as caught:
            stream.aggregate(0, 50, "peak(n)")
        assert caught.value.__notes__ == ["raised by the code of the aggregate peak(n) (test_user_aggregates:peak)"]


def test_an_aggregate_may_take_no_column() -> None:
    class Rows(Incremental):
        name = "all_rows"
        id = "test_user_aggregates:all_rows"
        arity = 0
        state = np.dtype("<i8")

        def init(self, columns: Sequence[Any], cuts: Any) -> Any:
            return np.diff(cuts)

        def merge(self, states: Any, cuts: Any) -> Any:
            return np.add.reduceat(states, cuts[:-1])

        def eval(self, state: Any) -> Any:
            return int(state)

    register(Rows)
    try:
        with Store(MemoryMedium()) as store:
            stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20)
            stream.append(table(ordered(100)))
            stream.flush()
            assert stream.aggregate(3, 90, "all_rows()")["all_rows()"] == len(rows_of(stream, 3, 90))
            stream.attach("all_rows()", mode="new_split")
            stream.append(table(some_rows(100)))
            commit_bulk(writer_of(stream).manifests, [], overwrite=Interval(5, 9))
            for start, end in RANGES:
                assert (stream.aggregate(start, end, "all_rows()")["all_rows()"] or 0) == len(
                    rows_of(stream, start, end)
                )
            stream.flush()
            assert stream.check() == []
    finally:
        unregister(Rows)


# Attaching. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_split", "new_split", "rebuild"])
def test_attached_aggregates_are_right_in_every_state(mode: Any) -> None:
    medium = MemoryMedium()
    rows = ordered(200)
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50)
        stream.append(table(rows[:120]))
        stream.flush()
        stream.attach(["peak(n)", "second_largest(x)"], mode=mode)
        stream.attach("last(n)", mode=mode)
        compare(stream, 3, 110)
        stream.append(table(rows[120:]))
        stream.append(table(some_rows(30)))
        for start, end in RANGES:
            compare(stream, start, end)
        explained = stream.explain(0, 110, ["peak(n)"])
        if mode == "rebuild":
            assert explained.startswith("peak(n): from the index\n")
            assert list(rebuild(writer_of(stream).context, writer_of(stream).manifests)) == []
        else:
            assert explained.startswith("peak(n): from the index, and the events of ") or "from events" in explained
        stream.flush()
        assert stream.check() == []
    with Store(medium) as store:
        stream = store.stream("s")
        assert [each.name for each in stream.options.user_aggregates] == ["peak(n)", "second_largest(x)", "last(n)"]
        for start, end in RANGES:
            compare(stream, start, end)
        stream.attach("peak(n)", mode="rebuild")
        assert stream.explain(None, None, ["peak(n)"]).startswith("peak(n): from the index\n")
        assert stream.check() == []


def test_a_new_split_is_made_at_once_and_the_next_one_is_not() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL)
        stream.append(table(ordered(40)))
        stream.attach("peak(n)")
        assert stream.stats()["splits"] == []
        stream.attach("last(n)", mode="new_split")
        assert [split["rows"] for split in stream.stats()["splits"]] == [40]
        stream.attach("last(n)", mode="new_split")
        assert len(stream.stats()["splits"]) == 1


def test_another_writer_keeps_what_was_attached_from_its_next_split_on() -> None:
    medium = MemoryMedium()
    with Store(medium) as store, Store(medium) as other:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20)
        stream.append(table([(index, 1.0, index) for index in range(30)]))
        stream.flush()
        other.stream("s").attach("peak(n)")
        stream.append(table([(index, 1.0, index) for index in range(30, 100)]))
        stream.flush()
        compare(stream, None, None)
        compare(other.stream("s"), None, None)
        assert "events of 2 of " in other.stream("s").explain(None, None, ["peak(n)"])


def test_who_cannot_have_the_tail_attaches_nothing_and_who_does_not_write_gives_it_back() -> None:
    medium = MemoryMedium()
    with Store(medium) as store, Store(medium) as other:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20)
        stream.append(table(ordered(30)))
        stream.flush()
        for mode in ("new_split", "rebuild"):
            with pytest.raises(
                LockedError, match="the splits of stream 's' cannot change while another process writes"
            ):
                other.stream("s").attach("peak(n)", mode=mode)  # type: ignore[arg-type]
        assert writer_of(stream).manifests.load().options.user_aggregates == ()
    with Store(medium) as store, Store(medium) as other:
        assert len(other.stream("s").attach("peak(n)", mode="rebuild")) == 2
        store.stream("s").append(table([(40, 1.0, 1)]))
        compare(store.stream("s"), None, None)


def test_columns_are_those_of_the_newest_schema() -> None:
    medium = MemoryMedium()
    with Store(medium) as store, Store(medium) as other:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL)
        behind = other.stream("s")
        stream.evolve(rename={"n": "m"})
        with pytest.raises(InputError, match="there is no column 'n'"):
            behind.attach("peak(n)")
        behind.attach("peak(m)")
        assert [each.name for each in writer_of(stream).manifests.load().options.user_aggregates] == ["peak(m)"]


def test_what_cannot_be_attached_is_refused() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        with pytest.raises(InputError, match="there is no column 'z'"):
            stream.attach("peak(z)")
        with pytest.raises(InputError, match="expected one of 'next_split'"):
            stream.attach("peak(n)", mode="later")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="largest takes columns of numbers"):
            store.create_stream(
                "t", pa.schema([*SCHEMA, ("word", pa.string())]), "ts", user_aggregates=["largest(word)"]
            )
        with pytest.raises(InputError, match="twice"):
            store.create_stream("t", SCHEMA, "ts", user_aggregates=["peak(n)", "peak(n)"])
        assert stream.options.user_aggregates == ()


def test_states_that_are_too_wide_together_are_refused_and_keep_no_store_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["peak(n)", "last(n)"])
        stream.append(table(ordered(40)))
        with monkeypatch.context() as patch:
            patch.setattr(states, "LARGEST", 10)
            with pytest.raises(InputError, match="have 13 words together; 10 are possible"):
                stream.attach("first(x)")
            with pytest.raises(InputError, match="have 13 words together"):
                store.create_stream("t", SCHEMA, "ts", user_aggregates=["peak(n)", "last(n)", "first(x)"])
        assert stream.stats()["user_aggregates"] == ["peak(n)", "last(n)"]
        stream.attach("first(x)", mode="new_split")
    monkeypatch.setattr(states, "LARGEST", 10)  # as by a release that kept more
    with Store(medium) as store:
        stream = store.stream("s")
        assert "without the aggregate first(x)" in caplog.text
        stream.append(table([(100, 1.0, 5)]))
        compare(stream, None, None, ["peak(n)", "count(*)"])


@pytest.mark.parametrize("found", [3, None, {"peak(n)": 1}])
def test_what_is_no_list_of_aggregates_is_refused(found: Any) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        for change in (stream.attach, stream.detach):
            with pytest.raises(InputError, match="expected a call such as"):
                change(found)


def test_what_is_widened_is_rebuilt_and_what_is_renamed_need_not_be() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=["peak(n)", "last(n)"])
        stream.append(table(ordered(100)))
        stream.flush()
        stream.evolve(rename={"x": "y"}, add={"z": pa.int8()})
        assert stream.attach([], mode="rebuild") == []
        stream.evolve(widen={"n": pa.int64()}, rename={"n": "m"}, loosen=[])
        rows = stream.scan(7, 90).read_all()["m"].drop_null().to_pylist()
        expected = (max(rows), rows.count(max(rows)))
        assert stream.aggregate(7, 90, ["peak(m)"])["peak(m)"] == expected
        assert len(stream.attach([], mode="rebuild")) == 5
        assert stream.explain(7, 90, ["peak(m)", "last(m)"]).count("from the index\n") == 2
        assert stream.aggregate(7, 90, ["peak(m)"])["peak(m)"] == expected
        assert stream.attach([], mode="rebuild") == []
        assert stream.check() == []


def test_states_are_not_given_up_where_their_code_is_missing() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=["peak(n)", "last(n)"])
        stream.append(table(ordered(100)))
    with without_code(), Store(medium) as store:
        assert store.stream("s").attach("last(n)", mode="rebuild") == []
        assert len(store.stream("s").attach("first(n)", mode="rebuild")) == 5  # these have to be written anew
    with Store(medium) as store:
        stream = store.stream("s")
        compare(stream, 3, 90)
        assert len(stream.attach([], mode="rebuild")) == 5
        compare(stream, 3, 90)
        assert stream.explain(3, 90, ["peak(n)"]).startswith("peak(n): from the index\n")


def test_what_is_detached_is_kept_no_longer_and_can_be_asked_for() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, user_aggregates=["peak(n)", "last(n)", "first(x)"])
        stream.append(table(ordered(60)))
        stream.flush()
        stream.detach("last(n)")
        stream.attach([], mode="new_split")
        with without_code():
            stream.detach(["peak(n)"])
        with pytest.raises(NotFoundError, match="keeps no last"):
            stream.detach("last(n)")
        stream.append(table([(100 + index, 1.0, index) for index in range(60)]))
        stream.flush()
        compare(stream, None, None)
        assert stream.stats()["user_aggregates"] == ["first(x)"]
        assert "events of 1 of 2 trees" in stream.explain(None, None, ["peak(n)"])
        assert stream.check() == []


def test_stats_tell_what_states_cost() -> None:
    with Store(MemoryMedium()) as store:
        plain = store.create_stream("a", SCHEMA, "ts", fanout=8).stats()["node_bytes"]
        wide = store.create_stream("b", SCHEMA, "ts", fanout=8, user_aggregates=["peak(n)"]).stats()["node_bytes"]
        assert wide == plain + 8 * 8 * 3


# CoarseEntries and evolved. ---------------------------------------------------------------------------------


def test_events_give_what_is_still_lacking_before_they_are_coarsened() -> None:
    medium = MemoryMedium()
    rows = [(index, float(index % 13), index % 5) for index in range(100)]
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=40, user_aggregates=["peak(n)"])
        stream.append(table(rows[:10]))
    with without_code(), Store(medium) as store:
        store.stream("s").append(table(rows[10:50]))  # whose states are unknown
    with Store(medium) as store:
        stream = store.stream("s")
        stream.append(table(rows[50:]))
        stream.attach(["last(n)", "bounding_box(x, n)"])
        stream.flush()
        assert stream.coarsen(80).rows >= 40
        found = stream.aggregate(None, None, ["peak(n)", "last(n)", "bounding_box(x, n)"])
        assert found == {text: EXPECTED[text](rows) for text in found}
        assert stream.check() == []


def test_states_without_code_survive_the_events_they_are_of() -> None:
    medium = MemoryMedium()
    rows = [(index, float(index % 13), index % 5) for index in range(100)]
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=40, user_aggregates=["peak(n)"])
        stream.append(table(rows))
    with without_code(), Store(medium) as store:
        stream = store.stream("s")
        stream.attach("last(n)")  # which the splits lack, but to write them anew would cost what they have
        assert stream.coarsen(80).rows == 80
    with Store(medium) as store:
        assert store.stream("s").aggregate(None, None, ["peak(n)"])["peak(n)"] == EXPECTED["peak(n)"](rows)


@pytest.mark.parametrize("is_coarse", [False, True])
def test_ready_made_states_hold_for_wider_integers(is_coarse: bool) -> None:
    kept = ["largest(n)", "second_smallest(n)", "last(n)", "stddev(n)", "bounding_box(x, n)", "sum_of_squares(n)"]
    rows = ordered(100)
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=[*kept, "peak(n)"])
        stream.append(table(rows))
        stream.flush()
        ranges = [(None, None), (0, 60)] if is_coarse else [*RANGES, (7, 55)]
        if is_coarse:
            stream.coarsen(60)
        before = [stream.aggregate(*each, kept) for each in ranges]
        stream.evolve(widen={"n": pa.int64()}, rename={"x": "y"})
        asked = [text.replace("(x", "(y") for text in kept]
        after = [stream.aggregate(*each, asked) for each in ranges]
        assert [list(each.values()) for each in after] == [list(each.values()) for each in before]
        assert stream.explain(*ranges[-1], asked).count("from the index\n") == len(asked)
        numbers = _numbers(rows)
        assert after[0]["largest(n)"] == max(numbers)
        assert after[0]["sum_of_squares(n)"] == sum(number * number for number in numbers)
        if is_coarse:  # an aggregate that does not say so is not taken for such a one
            with pytest.raises(GrainError):
                stream.aggregate(None, None, ["peak(n)"])


def test_states_of_integers_are_none_of_floats() -> None:
    rows = ordered(100)
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=["largest(n)", "last(n)"])
        stream.append(table(rows))
        stream.flush()
        stream.evolve(widen={"n": pa.float64()})
        assert "from events" in stream.explain(3, 90, ["largest(n)"])
        found = stream.aggregate(None, None, ["largest(n)", "last(n)"])
        assert found == {"largest(n)": float(max(_numbers(rows))), "last(n)": EXPECTED["last(n)"](rows)}
        assert len(stream.attach([], mode="rebuild")) == 5
        assert stream.explain(3, 90, ["largest(n)"]).startswith("largest(n): from the index\n")
        assert stream.aggregate(None, None, ["largest(n)", "last(n)"]) == found


# Crashes. ---------------------------------------------------------------------------------------------


def test_crashes_while_splits_are_rebuilt_leave_the_stream_right() -> None:
    medium = RecordingMedium()
    rows = ordered(60)
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=20, user_aggregates=["last(n)"])
        stream.append(table(rows))
        stream.flush()
        medium.mark("flushed")
        stream.attach("peak(n)", mode="rebuild")
        medium.mark("rebuilt")
    crashes: list[Crash] = [crash for crash in [*kills(medium), *power_losses(medium)] if "flushed" in crash.marks]
    assert crashes
    for crash in crashes[:: max(1, len(crashes) // scaled(40))]:
        with Store(crash.medium()) as store:
            stream = store.stream("s")
            assert sorted(rows_of(stream), key=str) == sorted(rows, key=str), crash
            compare(stream, 3, 55, ["peak(n)", "last(n)"])
            stream.attach("peak(n)", mode="rebuild")
            assert stream.explain(None, None, ["peak(n)"]).startswith("peak(n): from the index\n"), crash
            compare(stream, 3, 55, ["peak(n)", "last(n)"])
            assert store.check() == [], crash


# Anything in any order. -------------------------------------------------------------------------------

values = st.tuples(
    st.integers(-60, 60), st.one_of(st.none(), st.integers(-8, 8).map(float)), st.one_of(st.none(), st.integers(-3, 3))
)
bounds = st.one_of(st.none(), st.integers(-70, 70))


class Machine(RuleBasedStateMachine):
    """A stream whose aggregates come and go, while rows do too."""

    @initialize(split=st.sampled_from([None, 25]), late=st.sampled_from([1, 1000]))
    def create(self, split: int | None, late: int) -> None:
        self.medium = MemoryMedium()
        self.store = Store(self.medium)
        options = {"leaf_rows": 3, "fanout": 2, "late_rows": late, "split": split}
        self.stream = self.store.create_stream("s", SCHEMA, "ts", **options, user_aggregates=["last(n)"])

    @rule(rows=st.lists(values, min_size=1, max_size=30), ordered=st.booleans())
    def append(self, rows: list[Row], ordered: bool) -> None:
        self.stream.append(table(sorted(rows, key=lambda row: row[0]) if ordered else rows))

    @rule(rows=st.lists(values, min_size=1, max_size=20))
    def load(self, rows: list[Row]) -> None:
        writer = BulkWriter(writer_of(self.stream).context)
        for batch in table(rows).to_batches():
            writer.append(batch)
        commit_bulk(writer_of(self.stream).manifests, writer.finish())

    @rule()
    def flush(self) -> None:
        self.stream.flush()

    @rule(time=st.integers(-60, 0))
    def delete_before(self, time: int) -> None:
        self.stream.delete_before(time)

    @rule(start=st.integers(-60, 60), length=st.integers(1, 30))
    def overwrite(self, start: int, length: int) -> None:
        self.stream.flush()
        commit_bulk(writer_of(self.stream).manifests, [], overwrite=Interval(start, start + length))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.medium)
        self.stream = self.store.stream("s")

    @rule(text=st.sampled_from(OWN), mode=st.sampled_from(["next_split", "new_split", "rebuild"]))
    def attach(self, text: str, mode: Any) -> None:
        self.stream.attach(text, mode=mode)

    @precondition(lambda self: hasattr(self, "stream"))
    @rule(rows=st.lists(values, min_size=1, max_size=20))
    def append_without_code(self, rows: list[Row]) -> None:
        self.store.close()
        with without_code(), Store(self.medium) as store:
            store.stream("s").append(table(rows))
        self.store = Store(self.medium)
        self.stream = self.store.stream("s")

    @rule(start=bounds, end=bounds)
    def ask(self, start: int | None, end: int | None) -> None:
        compare(self.stream, start, end)

    @invariant()
    def everything(self) -> None:
        if hasattr(self, "stream"):
            compare(self.stream, None, None, ["peak(n)", "last(n)", "second_largest(x)"])

    def teardown(self) -> None:
        if hasattr(self, "store"):
            try:
                assert self.store.check() == []
            finally:
                self.store.close()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=scaled(10), stateful_step_count=12)
