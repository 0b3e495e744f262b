"""The thread that maintains the streams of a store, waited for by what it leaves, never by time."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import tidelog
from support.waiting import until
from tidelog.engine import maintainer as module
from tidelog.engine.store import Store, manifests_of
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import InputError, StorageError
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.upkeep import rewriting
from tidelog.threads import Task, start

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Maintainer.__init__, "__kwdefaults__", {"every": 0.01})


def load(stream: Stream, first: int) -> None:
    writer = BulkWriter(writer_of(stream).context)
    writer.append(pa.record_batch([list(range(first, first + 10)), list(range(10))], schema=SCHEMA))
    commit_bulk(writer_of(stream).manifests, writer.finish())


Threads: TypeAlias = Callable[[], int]
"""How many threads of maintenance the test has started that have not ended; those of others do not count."""


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    begun: list[Task[Any]] = []

    def starting(job: Callable[[], Any]) -> Task[Any]:
        begun.append(start(job))
        return begun[-1]

    monkeypatch.setattr(module, "start", starting)
    return lambda: sum(not each.is_done for each in begun)


def test_splits_are_merged_while_a_stream_is_written(tmp_path: Path, threads: Threads) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        assert threads() == 0
        stream.append({"ts": [1000], "n": [1]})
        until(lambda: threads() == 1)
        for index in range(20):
            load(stream, index * 10)
        until(lambda: len(writer_of(stream).manifests.load().splits) < 8)
        until(lambda: stream.stats()["maintenance"]["merges"] > 0)
        assert len(stream) == 201
        assert stream.check() == []
    assert threads() == 0


def test_retention_is_enforced_while_a_stream_is_written(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts", retention=100)
        stream.append({"ts": [0, 1000], "n": [1, 2]})
        stream.flush()
        until(lambda: len(stream) == 1)


def test_only_when_it_is_asked_for(tmp_path: Path, threads: Threads) -> None:
    with tidelog.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        stream.append({"ts": [1000], "n": [1]})
        assert threads() == 0
    with pytest.raises(InputError, match="found maintenance 'sometimes'; expected one of 'auto', 'manual'"):
        tidelog.open(tmp_path, maintenance="sometimes")  # type: ignore[arg-type]


def test_failures_are_told_and_reach_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is tired")

    monkeypatch.setattr("tidelog.store.upkeep.maintenance.choose_merge", fail)
    with caplog.at_level(logging.WARNING, "tidelog.maintenance"), tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", SCHEMA, "ts")
        stream.append({"ts": [1000], "n": [1]})
        until(lambda: stream.stats()["maintenance"]["failures"] == 1)
        assert stream.stats()["maintenance"]["last_failure"] == "StorageError: the disk is tired"
        stream.append({"ts": [1001], "n": [1]})
        stream.flush()
        assert len(stream) == 2
    assert "maintenance of stream 's' failed" in caplog.text


def test_closing_gives_up_a_merge_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()
    real = rewriting.SplitSink.append

    def slow(self: Any, batch: pa.RecordBatch) -> None:
        began.set()
        go_on.wait(240)
        real(self, batch)

    monkeypatch.setattr(rewriting.SplitSink, "append", slow)
    store = tidelog.open(tmp_path)
    stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=8)
    stream.append({"ts": [1000], "n": [1]})
    for index in range(8):
        load(stream, index * 10)
    assert began.wait(240)
    closing = threading.Thread(target=store.close)
    closing.start()
    until(lambda: store._maintainer is not None and store._maintainer._over.is_set)
    go_on.set()
    closing.join()
    with Store.open(tmp_path, read_only=True) as found:
        assert len(manifests_of(found, "s").load().splits) == 8
        assert found.orphans() == []
        assert len(found.stream("s")) == 81


def test_a_store_that_is_forgotten_is_not_kept_alive(tmp_path: Path, threads: Threads) -> None:
    stream = tidelog.open(tmp_path).create_stream("s", SCHEMA, "ts")
    stream.append({"ts": [1000], "n": [1]})
    stream.close()
    del stream

    def is_gone() -> bool:
        gc.collect()  # again and again: the thread may be at work on the store just now, and hold on to it
        return threads() == 0

    until(is_gone)


def test_a_program_that_closes_nothing_ends_in_peace(tmp_path: Path) -> None:
    script = """
import sys, tidelog, pyarrow as pa
from tidelog.engine import maintainer
maintainer.Maintainer.__init__.__kwdefaults__["every"] = 0.001
schema = pa.schema([pa.field("ts", pa.int64(), nullable=False)])
stream = tidelog.open(sys.argv[1]).create_stream("s", schema, "ts", split=10, leaf_rows=8)
for first in range(0, 400, 5):
    stream.append({"ts": range(first, first + 5)})
    stream.flush()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    with Store.open(tmp_path) as store:
        assert len(store.stream("s")) == 400
        assert store.check() == []
