"""What is written of slices by key: only what has changed, and never much more than there is."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from operators.window.models import AGGREGATES, count_windows, fixed, sessions, time_windows
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Operator, Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.state import State
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.slices import log as slice_log
from tidelog.operators.window.slices.log import SliceLog
from tidelog.operators.window.slices.slices import FIRST_ROW, KEY, PLACE, UNWRITTEN, WRITTEN, Slices
from tidelog.operators.window.timed import TimeWindows

SECOND = 1_000_000
NARROW = Shape(pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.float64())]), "ts")
CALLS = {"rows": "count(*)", "total": "sum(x)", "high": "max(x)"}


def _slices(known: dict[tuple[int, int], tuple[int, int]]) -> Slices:
    """Slices by key and place, with a value and the chunk that they are in."""
    words = np.zeros((WRITTEN + 1, len(known)), np.int64)
    for at, ((key, place), (value, chunk)) in enumerate(known.items()):
        words[[KEY, PLACE, FIRST_ROW, WRITTEN], at] = key, place, value, chunk
    return Slices(words, [])


def test_what_is_written_is_what_there_is() -> None:
    dice = np.random.default_rng(60)
    log = SliceLog(())
    known: dict[tuple[int, int], tuple[int, int]] = {}
    place = 0
    for step in range(300):
        for _ in range(int(dice.integers(0, 60))):
            key = int(dice.integers(0, 500)), place - int(dice.integers(0, 3))
            known[key] = step, UNWRITTEN
        if step % 7 == 6:
            place += 1
            known = {key: value for key, value in known.items() if key[1] >= place - 2}
        slices = _slices(known)
        state = log.snapshot(slices)
        chunks = slices.words[WRITTEN].tolist()
        assert UNWRITTEN not in chunks
        known = {key: (value, chunk) for (key, (value, _)), chunk in zip(known.items(), chunks, strict=True)}
        again = SliceLog(())
        found = again.restore(State(json.loads(json.dumps(state.core)), state.chunks))
        at = found.words
        kept = dict(zip(zip(at[KEY].tolist(), at[PLACE].tolist(), strict=True), at[FIRST_ROW].tolist(), strict=True))
        assert {key: value for key, value in kept.items() if key[1] >= place - 2} == {
            key: value for key, (value, _) in known.items()
        }
        images = sum(len(Slices.unpacked(content, ())) for content in state.chunks.values())
        assert images <= 8 * len(known) + 1024
        assert len(state.chunks) <= 257
        if step % 5 == 0:
            log = again


@pytest.mark.parametrize("kind", ["time", "gaps", "count", "session"])
def test_windows_whose_slices_are_written_again_and_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FEW", "_IMAGES", "_CHUNKS"):
        monkeypatch.setattr(slice_log, name, 1)
    dice = np.random.default_rng(61)
    of = shape()
    batch = rows(of, dice, 150, span=150)
    ordered = dicts(in_order(of, batch))
    by = ("k",)
    makes: dict[str, tuple[Callable[[], Operator], object]] = {
        "time": (
            partial(TimeWindows, of, FixedFrames(20, 7), AGGREGATES, by),
            time_windows(ordered, fixed(20, 7, 0), by),
        ),
        "gaps": (
            partial(TimeWindows, of, FixedFrames(3, 9), AGGREGATES, by),
            time_windows(ordered, fixed(3, 9, 0), by),
        ),
        "count": (partial(CountWindows, of, 6, 4, AGGREGATES, by), count_windows(ordered, 6, 4, by)),
        "session": (partial(SessionWindows, of, 5, AGGREGATES, by), sessions(ordered, 5, by)),
    }
    make, expected = makes[kind]
    assert OperatorConformance(make).check([batch], dice, rounds=6) == expected


BY = ["k"]
KEYED: dict[str, Callable[[], Operator]] = {
    "tumbling": lambda: TimeWindows(NARROW, FixedFrames(3600 * SECOND, 3600 * SECOND), CALLS, BY),
    "hopping": lambda: TimeWindows(NARROW, FixedFrames(10 * SECOND, SECOND // 2), CALLS, BY),
    "count": lambda: CountWindows(NARROW, 1000, 100, CALLS, BY),
    "count by one": lambda: CountWindows(NARROW, 10, 1, CALLS, BY),
    "session": lambda: SessionWindows(NARROW, 60 * SECOND, CALLS, BY),
}


@pytest.mark.parametrize("kind", KEYED)
def test_a_snapshot_writes_at_most_four_times_what_came(kind: str) -> None:
    """Even of rows of 24 bytes, most of which are the first of their keys for a long time."""
    dice = np.random.default_rng(62)
    arrivals = Arrivals(KEYED[kind]())
    known: set[str] = set()
    count = 2000
    for step in range(15):
        columns = [
            pa.array(np.sort(dice.integers(0, SECOND, count)) + step * SECOND).cast(NARROW.time_type),
            pa.array(dice.integers(0, 20_000, count)),
            pa.array(dice.random(count)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=NARROW.schema)
        arrivals.push(0, batch)
        state = arrivals.snapshot()
        written = sum(len(content) for name, content in state.chunks.items() if name not in known)
        assert written + len(json.dumps(state.core)) <= 4 * batch.nbytes
        known = set(state.chunks)


@pytest.mark.parametrize("kind", ["hopping", "count by one", "session"])
def test_silent_keys_are_not_written_again(kind: str) -> None:
    dice = np.random.default_rng(63)
    operator = KEYED[kind]()
    known: set[str] = set()
    for step in range(40):
        count = 100 if step else 100_000
        columns = [
            pa.array(np.sort(dice.integers(0, SECOND // 10, count)) + step * SECOND // 10).cast(NARROW.time_type),
            pa.array(dice.choice(100_000, count, replace=False)),
            pa.array(dice.random(count)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=NARROW.schema)
        operator.push(0, batch)
        state = operator.snapshot()
        written = sum(len(content) for name, content in state.chunks.items() if name not in known)
        assert written + len(json.dumps(state.core)) <= 4 * batch.nbytes
        known = set(state.chunks)


def test_a_silent_key_keeps_nothing_of_others() -> None:
    operator = CountWindows(NARROW, 10, 1, CALLS, BY)
    sizes = []
    for step in range(12):
        columns = [pa.array(np.full(1000, step)).cast(NARROW.time_type), np.arange(1000) % 5, np.ones(1000)]
        keys = columns[1] if step else np.where(np.arange(1000) == 0, -1, columns[1])
        arrays = [columns[0], pa.array(keys), pa.array(columns[2])]
        operator.push(0, pa.RecordBatch.from_arrays(arrays, schema=NARROW.schema))
        sizes.append(sum(len(content) for content in operator.snapshot().chunks.values()))
    assert sizes[-1] < 2 * sizes[1]
