"""Windows of time, against windows row by row."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, dicts, rows, shape
from operators.window.models import AGGREGATES, fixed, time_windows
from support.profiles import scaled
from tidelog.model.errors import InputError, SchemaError, TimeError
from tidelog.operators.base import Shape
from tidelog.operators.composed import chain
from tidelog.operators.conformance import OperatorConformance, Row, in_order, in_time, rows_of
from tidelog.operators.replaying import replay
from tidelog.operators.rowwise import Filter
from tidelog.operators.window import timed
from tidelog.operators.window.frames import FixedFrames, GrowingFrames
from tidelog.operators.window.timed import FromFirst, TimeWindows

ROUNDS = scaled(1)


def ordered(of: Shape, batch: pa.RecordBatch) -> list[dict[str, object]]:
    return dicts(in_order(of, batch))


def same(found: list[Row], expected: list[Row]) -> None:
    """Integers of SQL that are wider than 64 bits are decimals to Arrow."""
    assert [tuple(row) for row in found] == [tuple(row) for row in expected]


@pytest.mark.parametrize("by", [(), ("k",)], ids=str)
@pytest.mark.parametrize(
    ("size", "slide", "origin"),
    [
        (10, 10, 0),
        (10, 5, 0),
        (10, 3, 0),
        (10, 4, -7),
        (7, 20, 3),
        (1, 1, 0),
        (100, 1, 0),
        (3, 1000, 990),
        (500, 500, 0),
    ],
)
def test_fixed_windows(size: int, slide: int, origin: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(11)
    of = shape()
    for count in (0, 1, *[40] * ROUNDS):
        batch = rows(of, dice, count, jitter=6)
        frames = FixedFrames(size, slide, origin)
        found = OperatorConformance(lambda frames=frames: TimeWindows(of, frames, AGGREGATES, by)).check(
            [batch], dice, lateness=6, rounds=1
        )
        same(found, time_windows(ordered(of, batch), fixed(size, slide, origin), by))


@pytest.mark.parametrize("time", TIMES, ids=str)
def test_every_clock(time: pa.DataType) -> None:
    dice = np.random.default_rng(12)
    for seq in (True, False):
        of = shape(time, seq=seq)
        batch = rows(of, dice, 30)
        few = {name: AGGREGATES[name] for name in ("rows", "known", "total")}
        make = partial(TimeWindows, of, FixedFrames(8, 3), few, ["k"])
        found = OperatorConformance(make).check([batch], dice, rounds=1)
        same(found, [row[:6] for row in time_windows(ordered(of, batch), fixed(8, 3, 0), ["k"])])
        assert make().output.schema.field("window_end").type == time


def test_keys_of_several_columns() -> None:
    dice = np.random.default_rng(17)
    of = shape()
    batch = rows(of, dice, 60)
    for by in (["k", "n"], ["n", "k", "x"], ["x"]):
        make = lambda by=by: TimeWindows(of, FixedFrames(20, 10), {"total": "sum(n)"}, by)  # noqa: E731
        found = OperatorConformance(make).check([batch], dice)
        expected = time_windows(ordered(of, batch), fixed(20, 10, 0), by)
        same(found, [(*row[: len(by) + 2], row[len(by) + 5]) for row in expected])


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("complete_only", [False, True])
@pytest.mark.parametrize(("size", "slide"), [(6, 6), (9, 4), (2, 5), (50, 1)])
def test_windows_without_rows_and_incomplete_ones(size: int, slide: int, empty: bool, complete_only: bool) -> None:
    dice = np.random.default_rng(13)
    of = shape()
    for count in (0, 1, 6, 12):
        batch = rows(of, dice, count, span=150, jitter=3)
        options = {"empty": empty, "complete_only": complete_only}
        frames = FixedFrames(size, slide, 0)
        few = dict(list(AGGREGATES.items())[:4])
        make = partial(TimeWindows, of, frames, few, **options)
        found = OperatorConformance(make).check([batch], dice, lateness=3)
        expected = time_windows(ordered(of, batch), fixed(size, slide, 0), **options)
        same(found, [row[:6] for row in expected])


def test_the_first_row_as_origin() -> None:
    """Appendix B1 of spec/offline-queries.md: stamps are the last instants that windows cover."""
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    batch = pa.RecordBatch.from_arrays([pa.array([10, 11, 13, 17])], schema=of.schema)
    make = lambda: TimeWindows(of, FromFirst(4, 2), {"rows": "count(*)"}, complete_only=True)  # noqa: E731
    found = OperatorConformance(make).check([batch], np.random.default_rng(14), rounds=10)
    assert [(start, end - 1, count) for start, end, count in found] == [(10, 13, 3), (12, 15, 1), (14, 17, 1)]


@pytest.mark.parametrize("by", [(), ("k",)], ids=str)
@pytest.mark.parametrize(("size", "step", "origin"), [(12, 4, 0), (12, 12, 5), (10, 1, -3)])
def test_early_results_are_revised(size: int, step: int, origin: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(18)
    of = shape()
    few = {"rows": "count(*)", "known": "count(x)", "total": "sum(x)"}

    def bounds(first: int, last: int) -> list[tuple[int, int]]:
        return [
            (a, a + part) for a, _ in fixed(size, size, origin)(first, last) for part in range(step, size + 1, step)
        ]

    for count in (0, 1, 40):
        batch = rows(of, dice, count, jitter=6)
        make = partial(TimeWindows, of, GrowingFrames(size, step, origin), few, by)
        found = OperatorConformance(make).check([batch], dice, lateness=6, rounds=1)
        expected = [row[: len(by) + 5] for row in time_windows(ordered(of, batch), bounds, by)]
        place = len(by) + 2
        assert [(*row[:place], *row[place + 1 :]) for row in found] == expected
        assert [row[place] for row in found] == [
            (end - start) // step - 1 for start, end in (r[place - 2 : place] for r in expected)
        ]
    with pytest.raises(TimeError, match="fit in exactly"):
        GrowingFrames(10, 3)


def test_windows_far_apart_take_no_time() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1, 10**17, 10**17 + 1])], schema=of.schema)
    for by in ([], ["ts"]):
        operator = TimeWindows(of, FixedFrames(2, 1), {"rows": "count(*)"}, by)
        found = rows_of(operator.output, operator.push(0, batch) + operator.finish())
        assert len(found) == (6 if not by else 8)


@pytest.mark.parametrize(
    ("size", "slide", "by", "flags"),
    [
        (300, 1, (), {}),
        (300, 1, ("k",), {}),
        (90, 4, ("k",), {"complete_only": True}),
        (3, 1, (), {"empty": True}),
    ],
    ids=str,
)
def test_many_windows_come_out_some_at_a_time(
    size: int, slide: int, by: tuple[str, ...], flags: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 40
    monkeypatch.setattr(timed, "_MOST", most)
    dice = np.random.default_rng(19)
    of = shape()
    batch = rows(of, dice, 40, span=200, jitter=6)
    make = partial(TimeWindows, of, FixedFrames(size, slide), AGGREGATES, by, **flags)  # type: ignore[arg-type]
    kept = lambda: chain(make(), Filter(make().output, "window_end % 7 <> 0"))  # noqa: E731
    found = OperatorConformance(make).check([batch], dice, lateness=6, rounds=1)
    same(found, time_windows(ordered(of, batch), fixed(size, slide, 0), by, **flags))
    for each in (make, kept):
        batches = list(replay(each(), [[in_order(of, batch)]]))
        assert len(batches) > 1
        assert max(part.num_rows for part in batches) <= 2 * most
        of_both = [row for row in found if each is make or row[len(by) + 1] % 7]
        assert rows_of(each().output, batches) == of_both


def test_the_first_of_any_number_of_windows_come_at_once() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    batch = pa.RecordBatch.from_arrays([pa.array([0, 10**15])], schema=of.schema)
    for operator in (
        TimeWindows(of, FixedFrames(1, 1), {"rows": "count(*)"}, empty=True),
        TimeWindows(of, FixedFrames(10**15, 1), {"rows": "count(*)"}),
    ):
        found = replay(operator, [[batch]])
        first = next(found)
        assert first["rows"].to_pylist()[0] == 1
        assert 1 < first.num_rows < 1_000_000
        found.close()


def test_what_comes_out_comes_once_the_watermark_has_passed() -> None:
    of = shape()
    batch = rows(of, np.random.default_rng(15), 1)
    operator = TimeWindows(of, FixedFrames(10, 10), {"rows": "count(*)"})
    time = int(of.times(batch)[0])
    end = (time // 10 + 1) * 10
    assert operator.push(0, batch) == []
    assert operator.next_deadline() == end
    assert operator.advance(end - 1) == []
    assert len(operator.advance(end)) == 1
    assert operator.next_deadline() is None
    assert operator.finish() == []


def test_a_snapshot_writes_closed_slices_once() -> None:
    of = shape()
    operator = TimeWindows(of, FixedFrames(1000, 1), {"total": "sum(x)"})
    batch = rows(of, np.random.default_rng(16), 50)
    names: set[str] = set()
    for first in range(0, 50, 10):
        operator.push(0, batch.slice(first, 10))
        state = operator.snapshot()
        fresh = {name: content for name, content in state.chunks.items() if name not in names}
        names |= set(state.chunks)
        assert sum(name.startswith("slices/") for name in fresh) == 2  # words and states of one block
        assert len(str(state.core)) < 400


def test_what_cannot_be() -> None:
    of = shape()
    with pytest.raises(TimeError, match="at least one tick"):
        TimeWindows(of, FixedFrames(0, 1), {})
    with pytest.raises(InputError, match="gapfill"):
        TimeWindows(of, FixedFrames(1, 1), {}, ["k"], empty=True)
    with pytest.raises(SchemaError, match="does not tell the type"):
        TimeWindows(of, FixedFrames(1, 1), {"m": "moments(x)"})
    with pytest.raises(SchemaError, match="called 'k'"):
        TimeWindows(of, FixedFrames(1, 1), {"k": "count(*)"}, ["k"])
    with pytest.raises(SchemaError, match="no column 'kk' for a key"):
        TimeWindows(of, FixedFrames(1, 1), {}, ["kk"])
    far = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    operator = TimeWindows(far, FixedFrames(10, 10), {"rows": "count(*)"})
    with pytest.raises(TimeError, match="out of the range of the clock"):
        operator.push(0, pa.RecordBatch.from_arrays([pa.array([2**63 - 2])], schema=far.schema))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400))
def test_any_windows(seed: int) -> None:
    dice = np.random.default_rng(seed)
    of = shape(seq=bool(dice.integers(2)))
    size, slide = (int(each) for each in dice.integers(1, 40, 2))
    origin, lateness = int(dice.integers(-50, 50)), int(dice.integers(0, 20))
    by = [(), ("k",), ("n", "k")][int(dice.integers(3))]
    batch = rows(of, dice, int(dice.integers(0, 120)), span=int(dice.integers(1, 200)), jitter=2 * lateness)
    make = partial(TimeWindows, of, FixedFrames(size, slide, origin), AGGREGATES, by)
    found = OperatorConformance(make).check([batch], dice, lateness=lateness, rounds=2)
    kept = batch.filter(pa.array(in_time(of, batch, lateness), pa.bool_()))
    same(found, time_windows(ordered(of, kept), fixed(size, slide, origin), by))
