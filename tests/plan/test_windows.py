"""Windows from the index, in every plan, against a replay by the operator and against windows row by row.

Streams have everything that rows can be in: splits that overlap, leaves of one time, late rows, rows in memory, deleted
ranges, an older version of the schema.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.expr import parse_aggregate
from tidelog.model.errors import GrainError, TimeError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames, GrowingFrames
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.plan import choosing, windows
from tidelog.plan.choosing import NAIVE, OPTIMISED, AskedWindows, Candidate, NotIndexed, RankFrames, candidates
from tidelog.plan.slices import EntrySlices, Slices, Unknown
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.scan import scan

OLD = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int32())])
NEW = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64()), ("x", pa.float64())])
BUILT_IN = ["count(*)", "count(n)", "sum(n)", "min(n)", "max(x)", "avg(x)", "sum(x)", "min(ts)", "avg(n)"]
KEPT = "second_largest(n)"

Row = tuple[int, int, int | None, float | None]
"""Time, number, and the values."""


@dataclass
class Made:
    """A stream, and the rows that it should have, in order."""

    stream: Stream
    rows: list[Row]


def table(some: list[tuple[int, int | None, float | None]], schema: pa.Schema) -> pa.Table:
    return pa.table([[row[index] for row in some] for index in range(len(schema))], schema=schema)


def made(store: Store, seed: int, name: str) -> Made:
    """A stream of a few hundred rows."""
    dice = random.Random(seed)
    wide = dice.choice([90, 400, 4000])
    old = dice.random() < 0.5
    schema = OLD if old else NEW
    stream = store.create_stream(
        name,
        schema,
        "ts",
        leaf_rows=dice.choice([3, 8, 16]),
        fanout=dice.choice([2, 4]),
        split=dice.choice([None, wide // 3]),
        late_rows=dice.choice([10, 1000]),
        user_aggregates=[KEPT],
    )
    rows: list[tuple[int, int | None, float | None]] = []

    def more(count: int, first: int, last: int, *, has_x: bool) -> list[tuple[int, int | None, float | None]]:
        drawn = sorted(dice.randint(first, last) for _ in range(count))
        values: list[int | None] = [None, *range(-50, 50)]
        return [(at, dice.choice(values), dice.choice([None, 0.25, 3.5, -8.0]) if has_x else None) for at in drawn]

    def append(count: int, first: int, last: int, *, has_x: bool) -> None:
        some = more(count, first, last, has_x=has_x)
        stream.append(table(some, NEW if has_x else OLD))
        rows.extend(some)

    append(dice.choice([5, 150]), 0, wide, has_x=not old)
    stream.flush()
    if dice.random() < 0.6:  # a split over the others, and perhaps one in the place of some of them
        loaded = more(60, wide // 4, wide // 2, has_x=not old)
        with BulkWriter(writer_of(stream).context) as writer:
            writer.append(table(loaded, schema).to_batches()[0])
            commit_bulk(writer_of(stream).manifests, writer.finish())
        rows += loaded
    if dice.random() < 0.5:
        first, last = wide // 3, wide // 3 + wide // 20
        anew = more(10, first, last - 1, has_x=not old)
        with BulkWriter(writer_of(stream).context) as writer:
            writer.append(table(anew, schema).to_batches()[0])
            commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=Interval(first, last))
        rows[:] = [row for row in rows if not first <= row[0] < last] + anew
    if old:
        stream.evolve(add={"x": pa.float64()}, widen={"n": pa.int64()})
    for count, first in ((70, wide), (12, wide // 2), (9, wide + wide // 4)):
        append(count, first, wide + wide // 3, has_x=True)
        if dice.random() < 0.5:
            stream.flush()
    if dice.random() < 0.3:
        stream.delete_before(wide // 7)
        rows[:] = [row for row in rows if row[0] >= wide // 7]
    # Which numbers rows of bulk loads get is not told here.
    scanned = [tuple(row.values()) for row in stream.scan(columns=["ts", "_seq", "n", "x"]).read_all().to_pylist()]
    assert sorted(map(repr, ((at, n, x) for at, _, n, x in scanned))) == sorted(map(repr, rows))
    return Made(stream, sorted(scanned, key=lambda row: row[:2]))


@pytest.fixture(scope="module")
def streams() -> Iterator[list[Made]]:
    with Store(MemoryMedium(), maintenance="manual") as store:
        yield [made(store, seed, f"s{seed}") for seed in range(scaled(8))]


@pytest.fixture(autouse=True)
def _small_slides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans from the index also where they cannot be faster; several times with few windows each."""
    monkeypatch.setattr(choosing, "LEAST_LEAVES", 0)
    monkeypatch.setattr(windows, "AT_ONCE", 7)


def aggregated(rows: list[Row], calls: list[str]) -> tuple[Any, ...]:
    n = [row[2] for row in rows if row[2] is not None]
    x = [row[3] for row in rows if row[3] is not None]
    values = {
        "count(*)": len(rows),
        "count(n)": len(n),
        "sum(n)": sum(n) if n else None,
        "min(n)": min(n, default=None),
        "max(x)": max(x, default=None),
        "avg(x)": sum(x) / len(x) if x else None,
        "sum(x)": sum(x) if x else None,
        "min(ts)": rows[0][0] if rows else None,
        "avg(n)": sum(n) / len(n) if n else None,
        KEPT: sorted(n)[-2] if len(n) > 1 else None,
    }
    return tuple(values[call] for call in calls)


def by_time(
    rows: list[Row], size: int, slide: int, origin: int, calls: list[str], *, empty: bool, complete_only: bool
) -> list[tuple[Any, ...]]:
    found = []
    if not rows:
        return found
    first, last = rows[0][0], rows[-1][0]
    starts = range(origin + ((first - size - origin) // slide) * slide, last + 1, slide)
    held = [(start, [row for row in rows if start <= row[0] < start + size]) for start in starts]
    filled = [place for place, (_, inside) in enumerate(held) if inside]
    for place, (start, inside) in enumerate(held):
        is_complete = start >= first and start + size - 1 <= last
        between = bool(filled) and filled[0] <= place <= filled[-1]
        if (inside or (empty and between)) and (is_complete or not complete_only):
            found.append((start, start + size, *aggregated(inside, calls)))
    return found


def by_rank(rows: list[Row], size: int, slide: int, calls: list[str]) -> list[tuple[Any, ...]]:
    chosen = [rows[first : first + size] for first in range(0, len(rows) - size + 1, slide)]
    return [(inside[0][0], inside[-1][0], *aggregated(inside, calls)) for inside in chosen]


def listed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[tuple[Any, ...]]:
    found = pa.Table.from_batches(batches, schema)
    columns = [column.to_pylist() for column in found.columns]
    return [tuple(map(plain, row)) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    return int(value) if type(value).__name__ == "Decimal" else value


def ask(of: Made, frames: Any, calls: list[str], within: Interval = Interval(), **flags: bool) -> AskedWindows:  # noqa: B008
    return AskedWindows(of.stream.snapshot(), of.stream.options, None, within, frames, calls, flags)


def operator(asked: AskedWindows) -> Operator:
    shape = Shape(asked.snapshot.layout.stored, "ts")
    named = {f"a{place}": call for place, call in enumerate(asked.calls)}
    frames = asked.frames
    if isinstance(frames, RankFrames):
        return CountWindows(shape, frames.size, frames.slide, named)
    return TimeWindows(shape, frames, named, **asked.flags)


def check(asked: AskedWindows, expected: list[tuple[Any, ...]], names: set[str]) -> None:
    """All plans give what is expected, and so does the replay."""
    made = operator(asked)
    schema = made.output.schema
    columns = asked.snapshot.layout.stored.names
    ranges = Intervals((asked.interval,))
    assert listed(replay(made, [scan(asked.snapshot, ranges, columns)]), schema) == expected
    if not expected and not any(True for _ in scan(asked.snapshot, ranges, ["ts"])):
        with pytest.raises(NotIndexed, match="there are no events"):
            candidates(asked)
        return
    found = candidates(asked)
    plans = {each.name: each.plan for each in found if each.plan is not None}
    assert plans.keys() == names
    for plan in plans.values():
        assert listed(plan.batches(schema), schema) == expected


SIZES = [(30, 30), (50, 10), (40, 7), (9, 25), (200, 1), (1, 1), (7, 3), (1000, 333)]


@pytest.mark.parametrize("flags", [{}, {"empty": True}, {"complete_only": True}], ids=str)
def test_windows_of_time(streams: list[Made], flags: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for number, each in enumerate(streams):
        dice = random.Random(number)
        monkeypatch.setattr(
            windows, "_MOST_SLICES", dice.choice([1.5, 9])
        )  # whether few windows are not made of slices
        wide = each.rows[-1][0] - each.rows[0][0] if each.rows else 100
        for size, slide in dice.sample(SIZES, 3):
            unit = max(1, wide // 400)
            origin = dice.choice([0, -13, 50])
            size, slide = size * unit, slide * unit
            within = dice.choice(
                [Interval(), Interval(wide // 5, wide // 2), Interval(None, wide), Interval(wide, None)]
            )
            own = [row for row in each.rows if within.contains(row[0])]
            frames: Any = FixedFrames(size, slide, origin)
            if number % 5 == 0:
                frames, origin = FromFirst(size, slide), own[0][0] if own else 0
            full = {"empty": False, "complete_only": False} | flags
            expected = by_time(own, size, slide, origin, BUILT_IN, **full)
            check(ask(each, frames, BUILT_IN, within, **flags), expected, {NAIVE, OPTIMISED})


class Ticks(Slices):
    """Slices with a row for each tick, which note what they are asked for."""

    def __init__(self) -> None:
        self.folds = [parse_aggregate("count(*)", NEW)]
        self.edges: list[int] = []

    def between(self, edges: Any) -> list[Any]:
        self.edges += edges[1 if self.edges else 0 :].tolist()
        states = np.repeat(self.folds[0].start(), len(edges) - 1)
        states["rows"] = states["state"] = np.diff(edges)
        return [states]

    def sample(self, leaves: int, leaf_rows: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    "frames",
    [FixedFrames(1000, 10, 3), FixedFrames(95, 10), FixedFrames(3, 10), FixedFrames(7, 7), GrowingFrames(30, 10)],
)
def test_slices_lie_between_the_starts_and_ends_of_windows(frames: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    own = type(frames).ends
    monkeypatch.setattr(
        type(frames), "ends", lambda self, numbers: (looked_at.append(len(numbers)), own(self, numbers))[1]
    )
    numbers, slices = np.arange(-20, 200), Ticks()
    found = list(windows.slid(frames, (-20, 200), slices))
    starts, ends = frames.starts(numbers), own(frames, numbers)
    assert np.concatenate([each for each, _ in found]).tolist() == numbers.tolist()
    assert [row for _, (states,) in found for row in states["rows"].tolist()] == (ends - starts).tolist()
    assert slices.edges == sorted({*starts.tolist(), *ends.tolist()})
    assert max(looked_at) <= windows.AT_ONCE + 3  # however many windows overlap


def test_few_windows_are_asked_for_by_themselves(streams: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    each = streams[1]
    asked: list[int] = []
    own = EntrySlices.of
    monkeypatch.setattr(EntrySlices, "of", lambda self, low, high: (asked.append(len(low)), own(self, low, high))[1])
    unit = (each.rows[-1][0] - each.rows[0][0]) // 50
    for size, slide, is_made_of_slices in ((4 * unit, unit, True), (9 * unit + 1, 3 * unit, False)):
        question = ask(each, FixedFrames(size, slide), BUILT_IN)
        (plan,) = (found.plan for found in candidates(question) if found.name == OPTIMISED)
        asked.clear()
        expected = by_time(each.rows, size, slide, 0, BUILT_IN, empty=False, complete_only=False)
        schema = operator(question).output.schema
        assert plan is not None
        assert listed(plan.batches(schema), schema) == expected
        assert (sum(asked) != plan.count) == is_made_of_slices


def test_kept_states_of_user_defined_aggregates(streams: list[Made]) -> None:
    calls = [KEPT, "count(*)", "max(x)"]
    for number, each in enumerate(streams):
        wide = each.rows[-1][0]
        for size, slide in ((wide // 10 + 1, wide // 10 + 1), (wide // 3, wide // 7 + 1), (wide // 30 + 2, wide // 9)):
            within = [Interval(), Interval(wide // 4, wide)][number % 2]
            own = [row for row in each.rows if within.contains(row[0])]
            expected = by_time(own, size, slide, 0, calls, empty=False, complete_only=False)
            check(ask(each, FixedFrames(size, slide), calls, within), expected, {OPTIMISED})
        expected = by_rank(each.rows, 20, 8, calls)
        check(ask(each, RankFrames(20, 8), calls), expected, {OPTIMISED})


def test_windows_by_rank(streams: list[Made]) -> None:
    for number, each in enumerate(streams):
        dice = random.Random(number)
        wide = each.rows[-1][0]
        for size, slide in dice.sample([(1, 1), (10, 10), (40, 7), (3, 20), (100, 99), (64, 1), (10_000, 3)], 4):
            within = dice.choice([Interval(), Interval(wide // 5, wide // 2), Interval(wide // 3, None)])
            own = [row for row in each.rows if within.contains(row[0])]
            check(
                ask(each, RankFrames(size, slide), BUILT_IN, within), by_rank(own, size, slide, BUILT_IN), {OPTIMISED}
            )


def test_leaves_of_one_time_are_told_apart_by_rank() -> None:
    """Hosts that report at the same moments: every leaf begins in the middle of one."""
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = store.create_stream("s", NEW, "ts", leaf_rows=8, fanout=4)
        rows: list[Row] = [(place // 50, place, place % 7, place / 4) for place in range(1000)]
        stream.append(table([(at, n, x) for at, _, n, x in rows], NEW))
        late = [(7, 100, 0.5), (7, 101, 0.25)]
        stream.append(table(late, NEW))
        rows = sorted(
            [*rows, *((at, 1000 + place, n, x) for place, (at, n, x) in enumerate(late))], key=lambda r: r[:2]
        )
        each = Made(stream, rows)
        for size, slide in ((50, 50), (64, 16), (13, 13)):
            check(ask(each, RankFrames(size, slide), BUILT_IN), by_rank(rows, size, slide, BUILT_IN), {OPTIMISED})


def test_early_results(streams: list[Made]) -> None:
    """Windows that are told several times: slices begin at every step, and there is a column for the revision."""
    for each in streams:
        step = max(1, each.rows[-1][0] // 60)
        calls = ["count(*)", "sum(n)"]
        expected = []
        for start in range(0, each.rows[-1][0] + 1, 4 * step):
            for revision in range(4):
                inside = [row for row in each.rows if start <= row[0] < start + (revision + 1) * step]
                if inside:
                    expected.append((start, start + (revision + 1) * step, revision, *aggregated(inside, calls)))
        check(ask(each, GrowingFrames(4 * step, step), calls), expected, {NAIVE, OPTIMISED})


def test_the_vectors_of_windows() -> None:
    """Events at 10, 11, 13 and 17 in windows of 4 every 2 from the first event on; complete ones only."""
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", NEW, "ts", leaf_rows=2, fanout=2)
        stream.append(table([(at, at, None) for at in (10, 11, 13, 17)], NEW))
        each = Made(stream, [(at, place, at, None) for place, at in enumerate((10, 11, 13, 17))])
        asked = ask(each, FromFirst(4, 2), ["count(*)", "sum(n)"], complete_only=True)
        expected = [(10, 14, 3, 34), (12, 16, 1, 13), (14, 18, 1, 17)]
        check(asked, expected, {NAIVE, OPTIMISED})


def test_what_entries_do_not_tell() -> None:
    with Store(MemoryMedium()) as store:
        schema = pa.schema([("ts", pa.int64()), ("name", pa.string())])
        stream = store.create_stream("s", schema, "ts", leaf_rows=4)
        stream.append({"ts": list(range(40)), "name": ["a" * 5000 if at > 20 else "b" for at in range(40)]})
        asked = AskedWindows(stream.snapshot(), stream.options, None, Interval(), FixedFrames(10, 10), ["min(name)"])
        plan = next(found.plan for found in candidates(asked) if found.name == OPTIMISED)
        assert plan is not None
        with pytest.raises(Unknown):
            list(plan.batches(operator(asked).output.schema))


def test_coarse_splits() -> None:
    """What cuts no entry is answered, all else refused; there is no replay of what has no rows."""
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = store.create_stream("s", NEW, "ts", leaf_rows=10, fanout=4, split=100, user_aggregates=[KEPT])
        rows: list[Row] = [(at, at, at % 9, at / 4) for at in range(400)]
        stream.append(table([(at, n, x) for at, _, n, x in rows], NEW))
        stream.coarsen(200)
        each = Made(stream, rows)
        for calls in (["count(*)", "sum(n)", "avg(x)"], [KEPT, "max(x)"]):
            expected = by_time(rows, 100, 50, 0, calls, empty=False, complete_only=False)
            asked = ask(each, FixedFrames(100, 50), calls)
            found = candidates(asked)
            assert "replay" not in {way.name for way in found}
            schema = operator(asked).output.schema
            for way in found:
                assert way.plan is not None
                assert listed(way.plan.batches(schema), schema) == expected
            for frames in (FixedFrames(55, 55), RankFrames(55, 55)):
                refused: list[Candidate] = candidates(replace(asked, frames=frames))
                for way in refused:
                    assert way.plan is not None
                    with pytest.raises(GrainError):
                        list(way.plan.batches(schema))
        ranked = ask(each, RankFrames(100, 50), ["count(*)", "sum(n)"])
        (way,) = candidates(ranked)
        assert way.plan is not None
        schema = operator(ranked).output.schema
        assert listed(way.plan.batches(schema), schema) == by_rank(rows, 100, 50, ["count(*)", "sum(n)"])


def test_windows_out_of_the_range_of_the_clock(streams: list[Made]) -> None:
    with pytest.raises(TimeError, match="reach out of the range"):
        candidates(ask(streams[0], FixedFrames(1 << 62, 1 << 62, 1 << 62), ["count(*)"]))
