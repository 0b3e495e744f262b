"""Which plan is taken, and why not another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.times.interval import Interval
from tidelog.operators.window.frames import FixedFrames
from tidelog.plan import calibration, choosing
from tidelog.plan.choosing import AskedWindows, NotIndexed, RankFrames, candidates, fastest
from tidelog.plan.cost import Weights
from tidelog.store.manifest.sequence_set import SeqSet

ROWS = 4000


@pytest.fixture(scope="module")
def stream() -> Iterator[Stream]:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", pa.schema([("ts", pa.int64()), ("n", pa.int64())]), "ts", leaf_rows=16)
        stream.append({"ts": list(range(ROWS)), "n": list(range(ROWS))})
        stream.flush()
        yield stream


def ask(stream: Stream, frames: FixedFrames | RankFrames, *calls: str, numbers: SeqSet | None = None) -> AskedWindows:
    return AskedWindows(stream.snapshot(), stream.options, numbers, Interval(), frames, calls or ["sum(n)"])


def weigh(monkeypatch: pytest.MonkeyPatch, weights: Weights) -> None:
    monkeypatch.setattr(choosing, "weights_of", lambda *_: weights)


@pytest.mark.parametrize("frames", [FixedFrames(400, 100), RankFrames(400, 100)], ids=["time", "rank"])
def test_weights_decide(stream: Stream, monkeypatch: pytest.MonkeyPatch, frames: FixedFrames | RankFrames) -> None:
    weigh(monkeypatch, Weights(replayed_row=1e-9, cut_row=1e-6, entry=1e-6, slice=1e-6))
    assert fastest(candidates(ask(stream, frames))).name == "replay"
    weigh(monkeypatch, Weights(replayed_row=1e-6, cut_row=1e-9, entry=1e-9, slice=1e-9))
    found = candidates(ask(stream, frames))
    assert fastest(found).name == "optimised"
    assert {each.name: each.seconds for each in found}["replay"] == pytest.approx(ROWS * 1e-6)


def test_weights_are_measured_once(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[str, ...], Weights] = {}
    monkeypatch.setattr(calibration, "_known", known)
    for frames in (FixedFrames(400, 100), RankFrames(400, 100)):
        candidates(ask(stream, frames))
    assert len(known) == 2
    for weights in known.values():
        assert weights.replayed_row > 0
        assert weights.slice > 0
        assert min(weights.cut_row, weights.entry) >= 0
    before = dict(known)
    candidates(ask(stream, FixedFrames(800, 50)))
    assert known == before
    candidates(ask(stream, FixedFrames(800, 50), "max(n)"))
    assert len(known) == 3


def test_what_is_not_asked_of_the_index(stream: Stream) -> None:
    frames = FixedFrames(400, 100)
    with pytest.raises(NotIndexed, match="a slide has about 10 events"):
        candidates(ask(stream, FixedFrames(400, 10)))
    with pytest.raises(NotIndexed, match=r"does not keep count.* sum"):
        candidates(ask(stream, frames, "count(*) filter (where n > 1)", "sum(n + 1)"))
    with pytest.raises(NotIndexed, match=r"splits that do not keep second_largest\(n\)"):
        candidates(ask(stream, frames, "second_largest(n)"))
    with pytest.raises(NotIndexed, match="up to a version"):
        candidates(ask(stream, frames, numbers=SeqSet.below(7)))


def test_explain_tells_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidelog.open(str(tmp_path)) as store:
        stream = store.create_stream("s", pa.schema([("ts", pa.int64()), ("n", pa.int64())]), "ts", leaf_rows=16)
        stream.append({"ts": list(range(ROWS)), "n": list(range(ROWS))})
        text = "SELECT window_start, sum(n) FROM s GROUP BY window(ts, 400, 100)"
        weigh(monkeypatch, Weights(replayed_row=1e-6, cut_row=1e-9, entry=1e-9, slice=1e-9))
        told = store.sql(text).explain()
        assert "window(ts, 400, 100): the index, optimised plan: 43 windows" in told
        assert "replay: about 4.00 ms" in told
        assert "took" not in told
        analyzed = store.sql(text).explain(analyze=True)
        assert "estimated to take" in analyzed
        assert "of processors, estimated" in analyzed
        assert ": 43 rows" in analyzed
        counted = store.sql("SELECT window_end, sum(n) FROM s GROUP BY count_window(400, 100)")
        assert "count_window(400, 100): the index, optimised plan: 37 windows" in counted.explain()
        assert counted.fetchall() == [(at + 399, sum(range(at, at + 400))) for at in range(0, ROWS - 399, 100)]
        weigh(monkeypatch, Weights(replayed_row=1e-9, cut_row=1e-6, entry=1e-6, slice=1e-6))
        told = store.sql(text).explain()
        assert "window(ts, 400, 100): replay of the rows in order" in told
        assert "optimised: about" in told
        told = store.sql("SELECT sum(n) FROM s GROUP BY session_window(ts, 5)").explain()
        assert "not from the index, because where sessions end only the events tell" in told
