"""Streams as users see them: what can be appended, asked, refused."""

from __future__ import annotations

import datetime as dt
import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.descriptors import open_below
from support.media.memory import MemoryMedium
from support.waiting import until
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import ClosedError, InputError, NotFoundError, ReadOnlyError, TidelogError, TimeError

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.float64()), ("word", pa.string())])
SMALL: dict[str, Any] = {"leaf_rows": 8, "fanout": 3}


def created(schema: pa.Schema = SCHEMA, **options: Any) -> tuple[Store, Stream]:
    store = Store(MemoryMedium())
    return store, store.create_stream("s", schema, "ts", **{**SMALL, **options})


def table(times: list[int]) -> pa.Table:
    return pa.table([times, [time / 2 for time in times], [f"w{time % 3}" for time in times]], schema=SCHEMA)


def test_an_empty_stream() -> None:
    store, stream = created()
    for _ in range(2):
        assert len(stream) == 0
        assert stream.scan().read_all() == pa.table([[], [], []], schema=SCHEMA)
        assert stream.scan(where="x > 1", columns=["word"], seq=True).read_all().num_rows == 0
        assert stream.aggregate(None, None, ["count(*)", "sum(x)", "min(word)"]) == {
            "count(*)": 0,
            "sum(x)": None,
            "min(word)": None,
        }
        assert stream.rank(5) == 0
        with pytest.raises(NotFoundError, match="the stream has 0"):
            stream.nth(0)
        assert stream.stats()["rows"] == 0
        assert stream.check() == []
        stream.append(table([]))  # nothing, but it opens the tail
        stream.flush()
    store.close()


@pytest.mark.parametrize("is_batch", [False, True])
def test_long_events_do_not_wait_for_many_others(is_batch: bool) -> None:
    """Thousands of them would take gigabytes, and more than the two that texts of a batch can have."""
    store, stream = created(leaf_rows=4)
    words = [f"{index}" * (300_000 + index) for index in range(40)]
    waiting = 0
    for index, word in enumerate(words):
        event = {"ts": index, "x": 0.5, "word": word}
        stream.append(pa.RecordBatch.from_pylist([event], schema=SCHEMA) if is_batch else event)
        tail = writer_of(stream)._tail
        assert tail is not None
        waiting = max(waiting, len(writer_of(stream)._rows), tail._rows._waiting.rows)
    assert 1 < waiting < 20
    assert stream.scan(columns=["word"]).read_all()["word"].to_pylist() == words
    store.close()


def test_one_row() -> None:
    store, stream = created()
    stream.append({"ts": 7, "x": 1.5, "word": None})
    for _ in range(2):
        assert stream.scan(seq=True).read_all().to_pylist() == [{"ts": 7, "x": 1.5, "word": None, "_seq": 0}]
        assert stream.nth(0) == stream.nth(-1) == {"ts": 7, "x": 1.5, "word": None}
        assert (stream.rank(7), stream.rank(8)) == (0, 1)
        assert stream.aggregate(7, 8, "count(word)") == {"count(word)": 0}
        stream.flush()
    assert stream.check() == []
    store.close()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_units_and_zones(unit: str, zone: str | None) -> None:
    store, stream = created(pa.schema([pa.field("ts", pa.timestamp(unit, zone), nullable=False)]), split="1h")
    zoned = {} if zone is None else {"tzinfo": dt.UTC}
    hours = [dt.datetime(1969, 12, 31, 20, **zoned) + dt.timedelta(hours=index) for index in range(9)]
    stream.append([{"ts": hour} for hour in reversed(hours)])
    stream.flush()
    assert stream.scan().read_all().column("ts").to_pylist() == hours
    assert stream.scan(hours[3], hours[5]).read_all().column("ts").to_pylist() == hours[3:5]
    assert stream.scan(hours[3].isoformat(), None).read_all().num_rows == 6
    assert stream.rank(hours[4]) == 4
    assert stream.nth(-2)["ts"] == hours[-2]
    assert stream.aggregate(None, None, ["min(ts)", "max(ts)"]) == {"min(ts)": hours[0], "max(ts)": hours[-1]}
    assert stream.check() == []
    store.close()


def test_only_times() -> None:
    store, stream = created(pa.schema([("ts", pa.int64())]), split=10)
    times = [-25, -3, 0, 0, 5, 12, -25, 7]
    for time in times:
        stream.append({"ts": time})
    stream.flush()
    assert stream.scan().read_all().column("ts").to_pylist() == sorted(times)
    assert stream.scan(columns=[], seq=True).read_all().column("_seq").to_pylist() == [0, 6, 1, 2, 3, 4, 7, 5]
    assert stream.aggregate(-3, 6, ["sum(ts)", "count(*)"]) == {"sum(ts)": 2, "count(*)": 4}
    store.close()


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda s: s.scan(columns=["wrod"]), NotFoundError, "did you mean 'word'"),
        (lambda s: s.scan(columns="word"), InputError, r"expected a list of names such as \['word'\]"),
        (lambda s: s.scan(columns=["x", "x"]), InputError, "asked for twice"),
        (lambda s: s.scan(where="wrod = 'a'"), TidelogError, "wrod"),
        (lambda s: s.scan(where="x +"), TidelogError, "."),
        (lambda s: s.scan(where="count(*) > 1"), TidelogError, "."),
        (lambda s: s.scan(start="yesterday"), TimeError, "yesterday"),
        (lambda s: s.scan(as_of=-1), InputError, "from 0"),
        (lambda s: s.scan(as_of=True), InputError, "from 0"),
        (lambda s: s.scan(as_of="now"), InputError, "from 0"),
        (lambda s: s.aggregate(None, None, "sum(wrod)"), TidelogError, "wrod"),
        (lambda s: s.aggregate(None, None, "x"), TidelogError, "."),
        (lambda s: s.aggregate(None, None, ["sum(word)"]), TidelogError, "."),
        (lambda s: s.nth(10**6), NotFoundError, "no event 1000000"),
        (lambda s: s.delete_before(None), InputError, "drop the stream"),
        (lambda s: s.append(3), InputError, "."),
        (lambda s: s.append({"ts": [1, 2], "x": [1.0]}), InputError, "."),
    ],
)
def test_what_cannot_be_asked(ask: Any, error: type[Exception], message: str) -> None:
    store, stream = created()
    stream.append(table([1, 2, 3]))
    with pytest.raises(error, match=message):
        ask(stream)
    assert len(stream) == 3
    store.close()


def test_columns_come_in_the_order_asked_for() -> None:
    store, stream = created()
    stream.append(table([2, 1]))
    found = stream.scan(columns=["word", "_seq", "ts"]).read_all()
    assert found.to_pylist() == [{"word": "w1", "_seq": 1, "ts": 1}, {"word": "w2", "_seq": 0, "ts": 2}]
    assert found.schema.names == ["word", "_seq", "ts"]
    assert stream.scan(columns=["word"], where="x = 1.0").read_all().to_pylist() == [{"word": "w2"}]
    store.close()


def test_closed_and_read_only() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL)
        stream.append(table([1]))
    for ask in (stream.scan, stream.flush, stream.snapshot, stream.stats, stream.check, lambda: len(stream)):
        with pytest.raises(ClosedError, match="open it again"):
            ask()
    with pytest.raises(ClosedError):
        stream.append(table([1]))
    stream.close()
    with Store(medium, read_only=True) as store:
        stream = store.stream("s")
        for refused in (
            lambda: stream.append(table([1])),
            lambda: stream.append({"ts": 1}),
            lambda: stream.delete_before(5),
            lambda: stream.last_number("p"),
        ):
            with pytest.raises(ReadOnlyError, match="without read_only"):
                refused()
        stream.flush()
        assert len(stream) == 1
        assert stream.check() == []


def test_memory_of_the_caller_may_change_afterwards() -> None:
    store, stream = created()
    times, x = np.arange(100), np.arange(100) / 4
    stream.append({"ts": times, "x": x})
    times[:], x[:] = -1, -1
    found = stream.scan().read_all()
    assert found.column("ts").to_pylist() == list(range(100))
    assert found.column("x").to_pylist() == [index / 4 for index in range(100)]
    store.close()


def test_a_reader_that_fails_keeps_what_came_before() -> None:
    store, stream = created()

    def batches() -> Any:
        yield table([1, 2]).to_batches()[0]
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        stream.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert len(stream) == 2
    with pytest.raises(OSError, match="the source is gone"):
        stream.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()), producer="p", number=1)
    assert (len(stream), stream.last_number("p")) == (2, None)
    stream.append(table([3]))
    assert len(stream) == 3
    store.close()


def test_several_threads_append_and_read() -> None:
    store, stream = created(split=100, late_rows=20, journal_bytes=4000)
    threads, appends = 4, 25
    failures: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for index in range(appends):
                if index % 3:
                    stream.append({"ts": index * 10, "x": float(me), "word": str(index)})
                else:
                    times = [index * 10, index * 10 - 50]
                    stream.append(pa.table([times, [float(me)] * 2, [str(index)] * 2], schema=SCHEMA))
                if index % 5 == 0:
                    stream.flush()
                found = stream.scan(where=f"x = {me}").read_all()
                assert found.num_rows == index + 1 + index // 3 + 1
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    found = stream.scan(seq=True).read_all()
    assert sorted(found.column("_seq").to_pylist()) == list(range(found.num_rows))
    assert found.num_rows == threads * (appends + 9)
    assert store.check() == []
    store.close()


def test_abandoned_scans_free_their_files(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50)
        stream.append(table(list(range(1000))))
    for _ in range(3):
        with Store.open(tmp_path, read_only=True) as store:
            stream = store.stream("s")
            readers = [stream.scan(where="x > 3") for _ in range(5)]
            assert all(reader.read_next_batch().num_rows for reader in readers)
            del readers, stream
        del store
    until(lambda: gc.collect() >= 0 and open_below(tmp_path) == [])  # threads may be reading ahead just now


def test_snapshots_stay_as_they_are() -> None:
    store, stream = created(split=50)
    stream.append(table(list(range(0, 200, 2))))
    snapshot = stream.snapshot()
    stream.append(table(list(range(1, 200, 2))))
    stream.flush()
    assert stream.scan(as_of=snapshot).read_all().num_rows == 100
    assert stream.aggregate(0, 100, "count(*)", as_of=snapshot) == {"count(*)": 50}
    assert stream.nth(1, as_of=snapshot)["ts"] == 2
    assert stream.rank(10, as_of=snapshot) == 5
    assert stream.scan(as_of=100).read_all().num_rows == 100
    assert stream.aggregate(0, 100, "count(*)", as_of=100) == {"count(*)": 50}
    assert len(stream) == 200
    store.close()


def test_deleted_events_are_gone_and_stay_away() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50, late_rows=5)
        stream.append(table(list(range(200))))
        stream.delete_before(120)
        assert len(stream) == 80
        stream.delete_before(60)  # never moves back
        stream.append(table(list(range(100, 140))))
        assert len(stream) == 100
        assert stream.nth(0)["ts"] == 120
        assert stream.rank(121) == 2
        assert stream.aggregate(None, None, ["min(ts)", "count(*)"]) == {"min(ts)": 120, "count(*)": 100}
        assert len(stream.stats()["splits"]) <= 4
    with Store(medium) as store:
        stream = store.stream("s")
        stream.append(table([5, 150]))
        assert len(stream) == 101
        assert store.check() == []


@pytest.mark.parametrize("durability", ["flush", "batch", "none"])
def test_durability(durability: str) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, durability=durability)
        stream.append(table(list(range(20))))
        stream.append({"ts": 20})
        with Store(medium, read_only=True) as other:
            assert len(other.stream("s")) == (21 if durability == "batch" else 0)
            stream.flush()
            assert len(other.stream("s")) == 21
    with Store(medium, read_only=True) as store:
        assert len(store.stream("s")) == 21
