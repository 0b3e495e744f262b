"""Stores as users see them: streams by name, sweeping, checking, closing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from support.media.recording import RecordingMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.model.errors import (
    ClosedError,
    ExistsError,
    InputError,
    NotFoundError,
    ReadOnlyError,
    SchemaError,
    StorageError,
)

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.float64())])
SMALL: dict[str, Any] = {"leaf_rows": 8, "fanout": 3}


def test_a_store_is_created_on_first_use_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events"
    with pytest.raises(NotFoundError):
        tidelog.open(path, read_only=True)
    with tidelog.open(path) as store:
        store.create_stream("trades", SCHEMA, "ts").append({"ts": 1, "x": 2.5})
    with tidelog.open(str(path), read_only=True) as store:
        assert store.streams() == ["trades"]
        assert store.stream("trades").scan().read_all().to_pylist() == [{"ts": 1, "x": 2.5}]
        assert store.check() == []


def test_a_store_tells_where_it_is(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert repr(store) == f"<store {str(tmp_path)!r}>"
        with Store.open(tmp_path, read_only=True) as other:
            assert repr(other) == f"<store {str(tmp_path)!r}, read only>"
    assert repr(store) == f"<store {str(tmp_path)!r}, closed>"


def test_streams_by_name() -> None:
    with Store(MemoryMedium()) as store:
        for name in ("b", "a"):
            store.create_stream(name, SCHEMA, "ts")
        assert store.streams() == ["a", "b"]
        assert "a" in store
        assert "c" not in store
        assert 5 not in store
        assert store.stream("a") is store.stream("a")
        with pytest.raises(ExistsError):
            store.create_stream("a", SCHEMA, "ts")
        with pytest.raises(NotFoundError):
            store.stream("c")
        with pytest.raises(NotFoundError):
            store.drop_stream("c")


def test_many_streams_are_created_together() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        store.create_stream("b", pa.schema([("at", pa.int64())]), "at")
        with pytest.raises(ExistsError):
            store.create_streams(["a", "b", "c"], SCHEMA, "ts")
        with pytest.raises(InputError, match=r"names is the text 'abc'; expected a list of names such as \['abc'\]"):
            store.create_streams("abc", SCHEMA, "ts")
        assert store.streams() == ["b"]
        assert store.create_streams(["a", "b", "c"], SCHEMA, "ts", exist_ok=True, **SMALL) == ["a", "c"]
        for name in ("a", "c"):
            assert store.stream(name).options.leaf_rows == SMALL["leaf_rows"]
            store.stream(name).append({"ts": 1, "x": 2.0})
        assert store.stream("b").schema.names == ("at",)
    with Store(medium, read_only=True) as store:
        assert [store.stream(name).scan().read_all().num_rows for name in store.streams()] == [1, 0, 1]
        with pytest.raises(ReadOnlyError):
            store.create_streams(["d"], SCHEMA, "ts")


def test_what_cannot_be_created_leaves_nothing() -> None:
    with Store(MemoryMedium()) as store:
        with pytest.raises(SchemaError, match="no time column was named"):
            store.create_stream("s", SCHEMA)
        with pytest.raises((SchemaError, NotFoundError)):
            store.create_stream("s", SCHEMA, "nope")
        with pytest.raises(SchemaError):
            store.create_stream("s", pa.schema([("ts", pa.int64()), ("_seq", pa.int64())]), "ts")
        with pytest.raises(InputError, match="did you mean 'split'"):
            store.create_stream("s", SCHEMA, "ts", splt="1d")
        with pytest.raises(tidelog.TidelogError):
            store.create_stream("", SCHEMA, "ts")
        assert store.streams() == []


def test_renaming_goes_unnoticed_by_those_at_work() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("old", SCHEMA, "ts", **SMALL)
        stream.append({"ts": 1, "x": None})
        store.rename_stream("old", "new")
        stream.append({"ts": 2, "x": None})
        assert store.stream("new") is stream
        assert stream.name == "new"
        with pytest.raises(NotFoundError):
            store.stream("old")
    with Store(medium, read_only=True) as store:
        assert len(store.stream("new")) == 2


def test_a_dropped_stream_is_gone_and_its_name_free() -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL)
        stream.append(pa.table({"ts": range(100), "x": [0.5] * 100}))
        reader = stream.scan()
        store.drop_stream("s")
        assert store.streams() == []
        with pytest.raises(ClosedError):
            stream.append({"ts": 1, "x": None})
        assert reader.read_all().num_rows == 100
        again = store.create_stream("s", SCHEMA, "ts", **SMALL)
        assert len(again) == 0
        assert store.check() == []


def test_flush_and_stats_of_all_streams() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        for name in ("a", "b"):
            store.create_stream(name, SCHEMA, "ts", **SMALL).append({"ts": 3, "x": 1.0})
        store.flush()
        with Store(medium, read_only=True) as other:
            assert {name: values["rows"] for name, values in other.stats().items()} == {"a": 1, "b": 1}
        assert {name: values["rows_in_memory"] for name, values in store.stats().items()} == {"a": 1, "b": 1}


@pytest.mark.parametrize("act", ["flush", "close"])
def test_streams_wait_for_the_disk_together(act: str) -> None:
    medium = RecordingMedium()
    store = Store(medium)
    store.create_streams(list("abcd"), SCHEMA, "ts", **SMALL)
    for name in "abc":
        store.stream(name).append({"ts": 1, "x": 0.5})
    assert writer_of(store.stream("d")).is_written is False
    together = threading.Barrier(3, timeout=60)

    waited: set[int] = set()

    def first_syncs(kind: str, path: str) -> None:
        if kind == "sync" and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            together.wait()

    medium.before = first_syncs
    getattr(store, act)()
    assert len(waited) == 3
    medium.before = None
    store.close()
    with Store(medium, read_only=True) as store:
        assert [len(store.stream(name)) for name in store.streams()] == [1, 1, 1, 0]


def test_closed_and_read_only() -> None:
    medium = MemoryMedium()
    store = Store(medium)
    store.create_stream("s", SCHEMA, "ts")
    store.close()
    store.close()
    for ask in (store.streams, store.flush, store.check, store.stats, store.orphans, lambda: store.stream("s")):
        with pytest.raises(ClosedError, match="open it again"):
            ask()
    with Store(medium, read_only=True) as store:
        for ask in (
            lambda: store.create_stream("t", SCHEMA, "ts"),
            lambda: store.drop_stream("s"),
            lambda: store.rename_stream("s", "t"),
            store.sweep,
            store.remove_orphans,
        ):
            with pytest.raises(ReadOnlyError, match="without read_only"):
                ask()
        assert store.orphans() == []


def test_reading_writes_nothing() -> None:
    medium = RecordingMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50)
        stream.append(pa.table({"ts": range(130), "x": [0.5] * 130}))
    done = len(medium.log)
    with Store(medium, read_only=True) as store:
        stream = store.stream("s")
        assert len(stream) == 130
        assert stream.scan(where="x > 0").read_all().num_rows == 130
        assert store.check() == []
        assert store.stats()["s"]["rows"] == 130
    assert len(medium.log) == done


def test_sweeping_spares_what_is_in_use() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50, grace=0)
        stream.append(pa.table({"ts": range(240), "x": [0.5] * 240}))
        stream.flush()
        assert store.orphans() == []
        stream.delete_before(100)
        reader = stream.scan()
        gone = store.sweep()
        assert len([name for name in gone if name.endswith(".tide")]) == 2
        assert reader.read_all().num_rows == 140
        assert store.remove_orphans("0s") == store.orphans() == []
        assert store.check() == []
    with Store(medium) as store:
        assert len(store.stream("s")) == 140
        assert store.check() == []


def test_snapshots_that_outlive_their_files_are_told_what_to_do() -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50, grace=0)
        stream.append(pa.table({"ts": range(240), "x": [0.5] * 240}))
        stream.flush()
    with Store(medium) as store:
        stream = store.stream("s")
        snapshot = stream.snapshot()
        stream.delete_before(100)
        store.sweep()
        with pytest.raises(NotFoundError, match=r"its grace period, 0 seconds: take a new snapshot"):
            stream.scan(as_of=snapshot).read_all()
        assert stream.scan().read_all().num_rows == 140


def test_closing_closes_all_streams_even_if_one_fails() -> None:
    medium = RecordingMedium()
    store = Store(medium)
    for name in ("a", "b"):
        store.create_stream(name, SCHEMA, "ts", **SMALL).append({"ts": 3, "x": 1.0})
    medium.inject("sync")
    with pytest.raises(StorageError):
        store.close()
    with Store(medium) as store:
        rows = {name: len(store.stream(name)) for name in store.streams()}
        assert rows["b"] == 1
        for name in rows:
            store.stream(name).append({"ts": 4, "x": None})


def test_checking_finds_damage(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **SMALL, split=50)
        stream.append(pa.table({"ts": range(130), "x": [index / 3 for index in range(130)]}))
    splits = sorted(tmp_path.glob("streams/*/splits/*.tide"))
    assert len(splits) == 3
    content = bytearray(splits[0].read_bytes())
    content[len(content) // 2] ^= 0xFF
    splits[0].write_bytes(content)
    with tidelog.open(tmp_path, read_only=True) as store:
        assert store.check()
    splits[0].unlink()
    with tidelog.open(tmp_path, read_only=True) as store:
        assert store.check()
