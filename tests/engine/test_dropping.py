"""Streams that are dropped, or removed, while somebody writes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.stream import writer_of
from tidelog.model.errors import LockedError, NotFoundError, StorageError, TidelogError
from tidelog.store.catalogue import Catalogue

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.float64())])

_WRITER = """
import sys, tidelog
store = tidelog.open(sys.argv[1])
stream = store.stream("s")
stream.append({"ts": 1, "x": 1.0})
stream.flush()
print("ready", flush=True)
for line in sys.stdin:
    try:
        stream.append({"ts": 2, "x": 2.0})
        getattr(stream, line.strip())()
        print("returned", flush=True)
    except tidelog.TidelogError as error:
        print(type(error).__name__, flush=True)
"""


@contextmanager
def writer(directory: Path) -> Iterator[Callable[[str], str]]:
    """Another process that writes the stream; gives what tells it to append and call something, and how that ended."""
    command = [sys.executable, "-c", _WRITER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, said = process.stdin, process.stdout

        def act(what: str) -> str:
            given.write(f"{what}\n")
            given.flush()
            return said.readline().strip()

        try:
            assert said.readline().strip() == "ready"
            yield act
        finally:
            process.kill()


def create(directory: Path) -> None:
    with tidelog.open(directory) as store:
        store.create_stream("s", SCHEMA, "ts")


def test_what_another_process_writes_is_not_dropped(tmp_path: Path) -> None:
    create(tmp_path)
    with writer(tmp_path) as act, tidelog.open(tmp_path) as store:
        stream = store.stream("s")
        with pytest.raises(LockedError, match=r"'s' cannot be dropped while it is written .* close it there first"):
            store.drop_stream("s")
        assert len(stream) == 1  # a refused drop leaves who reads it alone
        assert act("flush") == "returned"
        assert len(store.stream("s")) == 2
        assert act("close") == "returned"
        store.drop_stream("s")
        assert store.streams() == []


def test_what_another_store_of_the_process_writes_is_not_dropped(tmp_path: Path) -> None:
    create(tmp_path)
    with tidelog.open(tmp_path) as other, tidelog.open(tmp_path) as store:
        other.stream("s").append({"ts": 1, "x": 1.0})
        with pytest.raises(LockedError):
            store.drop_stream("s")
        other.drop_stream("s")  # which writes it itself
        assert store.streams() == []


def test_who_opened_a_stream_before_it_was_dropped_cannot_begin_to_write_it(tmp_path: Path) -> None:
    create(tmp_path)
    with tidelog.open(tmp_path) as other, tidelog.open(tmp_path) as store:
        stream = other.stream("s")
        store.drop_stream("s")
        for data in ({"ts": 1, "x": 1.0}, {"ts": [1, 2], "x": [1.0, 2.0]}):
            with pytest.raises(NotFoundError, match="'s' was dropped"):
                stream.append(data)
        again = store.create_stream("s", SCHEMA, "ts")
        with pytest.raises(NotFoundError):
            stream.append({"ts": 1, "x": 1.0})
        again.append({"ts": 1, "x": 1.0})
        assert len(again) == 1


def test_a_drop_between_the_look_and_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    with tidelog.open(tmp_path) as other, tidelog.open(tmp_path) as store:
        stream = other.stream("s")
        adopt = writer_of(stream)._adopt_newest

        def drop_first() -> None:
            monkeypatch.undo()
            store.drop_stream("s")
            adopt()

        monkeypatch.setattr(writer_of(stream), "_adopt_newest", drop_first)
        with pytest.raises(NotFoundError, match="'s' was dropped"):
            stream.append({"ts": 1, "x": 1.0})
        assert not writer_of(stream).is_written


@pytest.mark.parametrize("what", ["flush", "close"])
@pytest.mark.parametrize("removed", ["streams", "."])
def test_a_writer_whose_directory_is_gone_says_so(tmp_path: Path, what: str, removed: str) -> None:
    directory = tmp_path / "store"
    create(directory)
    with writer(directory) as act:
        assert act("flush") == "returned"
        shutil.rmtree(directory / removed)
        assert act(what) == "StorageError"
        assert act("flush") != "returned"


@pytest.mark.parametrize("durability", ["flush", "batch"])
@pytest.mark.parametrize("rows", [0, 1, 5, 40_000])
def test_all_ways_to_flush_notice(tmp_path: Path, durability: str, rows: int) -> None:
    store = tidelog.open(tmp_path, maintenance="manual")
    stream = store.create_stream("s", SCHEMA, "ts", durability=durability)
    stream.append({"ts": 1, "x": 1.0})
    stream.flush()
    shutil.rmtree(tmp_path / "streams")

    def write() -> None:
        if rows == 1:
            stream.append({"ts": 2, "x": 1.0})
        elif rows:
            stream.append({"ts": range(rows), "x": [1.0] * rows})
        if rows:
            stream.flush()
        else:
            stream.close()

    with pytest.raises(TidelogError):
        write()
    with pytest.raises(TidelogError):
        stream.flush()


def test_a_writer_that_the_catalogue_has_forgotten_says_so_when_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path)
    with tidelog.open(tmp_path) as store, tidelog.open(tmp_path) as other:
        stream = store.stream("s")
        stream.append({"ts": 1, "x": 1.0})
        with monkeypatch.context() as patch:  # as a catalogue put back from an old copy does it
            patch.setattr(Catalogue, "_unwritten", lambda *_: nullcontext())
            other.drop_stream("s")
        with pytest.raises(NotFoundError, match="'s' was dropped"):
            stream.close()


def test_dropping_needs_no_room_for_what_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        stream.append({"ts": 1, "x": 1.0})
        tail = writer_of(stream)._tail
        assert tail is not None

        def fail() -> None:
            raise StorageError("no space left on device")

        monkeypatch.setattr(tail, "_flush", fail)
        store.drop_stream("s")
        assert store.streams() == []
        assert store.check() == []


@pytest.mark.parametrize("arguments", [{"number": 1}, {"producer": "p"}])
@pytest.mark.parametrize("data", [{"ts": 1, "x": 1.0}, {"ts": [1], "x": [1.0]}, [{"ts": 1, "x": 1.0}]])
@pytest.mark.parametrize("too_late", ["accept", "reject"])
def test_a_number_needs_a_producer_and_a_producer_a_number(
    tmp_path: Path, arguments: dict[str, object], data: object, too_late: str
) -> None:
    limit = {} if too_late == "accept" else {"lateness": 10, "too_late": too_late}
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts", **limit)
        with pytest.raises(tidelog.InputError, match="found one of producer and number"):
            stream.append(data, **arguments)  # type: ignore[arg-type]  # one without the other is what is tried
        assert len(stream) == 0
