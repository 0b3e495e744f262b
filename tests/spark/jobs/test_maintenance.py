"""Compaction and rebuilding by tasks of Spark: nothing that anyone can see changes, whatever comes in between."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.spark.tasks_here import TasksHere
from tidelog import spark as tl
from tidelog.engine.store import Store, manifests_of
from tidelog.engine.stream import writer_of
from tidelog.model.errors import InputError, NotFoundError, StorageError
from tidelog.spark.jobs import compacting, rebuilding, running
from tidelog.spark.jobs.running import Place, Progress
from tidelog.store.bulk import BulkWriter, commit_bulk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.engine.stream import Stream

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int64()), ("noise", pa.int64())])
CALLS = ["count(*)", "sum(v)", "min(ts)", "max(noise)"]


def load(stream: Stream, times: Any, seed: int = 0) -> None:
    noise = np.random.default_rng(seed).integers(0, 1 << 60, len(times))
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(pa.record_batch([pa.array(times), pa.array(times) , noise], schema=SCHEMA))  # fmt: skip
        commit_bulk(writer_of(stream).manifests, writer.finish())


def content(path: Path) -> pa.Table:
    with tidelog.open(path, read_only=True) as store:
        return store.stream("s").scan(seq=True).read_all().combine_chunks()


def splits(path: Path) -> list[Any]:
    with tidelog.open(path, read_only=True) as store:
        assert store.check() == []
        return sorted(manifests_of(store, "s").load().splits.values(), key=lambda split: split.time_min)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What runs tasks in this process, and cannot tell how many at once: that takes expressions of Spark."""
    monkeypatch.setattr(running, "_tasks_at_once", lambda _: 2)
    return TasksHere()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Forty small splits in four regular intervals, two in each of which overlap the others."""
    with Store.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "ts", split=1000, leaf_rows=64, fanout=4)
        for index in range(40):
            first = index * 100
            load(stream, np.arange(first, first + 100, 2), index)
        stream.append({"ts": [10_000], "v": [1], "noise": [2]})
    return tmp_path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Four splits of all times, each of about the full size, which one merge in several tasks makes regular."""
    with Store.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "ts", split_bytes=200_000, leaf_rows=1024)
        for index in range(4):
            load(stream, np.arange(index, 80_000, 4), index)
    return tmp_path


def test_small_splits_become_regular_ones(session: SparkSession, small: Path) -> None:
    before = content(small)
    seen: list[Progress] = []
    done = tl.compact(session, small, "s", progress=seen.append)
    assert (done.merges, done.splits_before, done.splits_after, done.conflicts, done.is_done) == (4, 40, 4, 0, True)
    assert [(split.time_min, split.boundary.start) for split in splits(small)] == [
        (at, at) for at in range(0, 4000, 1000)
    ]
    assert content(small).equals(before)
    assert (seen[-1].steps_done, seen[-1].steps_planned, seen[-1].bytes_done) == (4, 4, done.bytes_read)
    assert [one.bytes_done <= other.bytes_done for one, other in pairwise(seen)] == [True] * 3
    again = tl.compact(session, small, "s")
    assert (again.merges, again.is_done) == (0, True)


def test_a_range_is_compacted_alone(here: Any, small: Path) -> None:
    done = tl.compact(here, small, "s", range=(1000, 3000))
    assert (done.merges, done.splits_after) == (2, 2)
    assert len(splits(small)) == 22


def test_no_more_is_read_than_allowed(here: Any, small: Path) -> None:
    each = sum(split.bytes for split in splits(small)) // 4
    done = tl.compact(here, small, "s", max_bytes=each * 2 + each // 2)
    assert not done.is_done
    assert 0 < done.bytes_read <= each * 2 + each // 2
    assert tl.compact(here, small, "s").is_done
    assert len(splits(small)) == 4


def test_a_large_merge_is_made_by_several_tasks(session: SparkSession, large: Path) -> None:
    before = content(large)
    (merge,) = compacting._plan_merges(Place(str(large), "s"), None, None)
    assert len(merge.intervals) >= 3
    done = tl.compact(session, large, "s")
    assert (done.merges, done.splits_before) == (1, 4)
    found = splits(large)
    assert len(found) == done.splits_after >= 3
    assert all(one.time_max < other.time_min for one, other in pairwise(found))
    assert min(split.bytes for split in found) > 100_000
    assert content(large).equals(before)


def test_what_a_driver_left_that_died_before_the_commit_can_be_removed(here: Any, large: Path) -> None:
    before = content(large)
    place = Place(str(large), "s")
    (merge,) = compacting._plan_merges(place, None, None)
    rewriting = compacting._begin(place, merge)
    assert rewriting is not None
    written = [compacting._write_interval(place, rewriting, interval) for interval in merge.intervals]
    left = {split.name for each in written for split in each.splits}
    with Store.open(large) as store:
        assert {path.rpartition("/")[2] for path in store.orphans()} >= left
    assert content(large).equals(before)
    assert tl.compact(here, large, "s").is_done
    with Store.open(large) as store:
        store.remove_orphans(0)
        assert store.orphans() == []
    assert content(large).equals(before)
    assert splits(large)


@pytest.mark.parametrize("sample", ["small", "large"])
def test_a_rival_is_left_to_it(
    here: Any, request: pytest.FixtureRequest, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is merged by another process between plan and work."""
    path: Path = request.getfixturevalue(sample)
    before = content(path)
    plan, rounds = compacting._plan_merges, []

    def overtaken(*arguments: Any) -> Any:
        planned = plan(*arguments)
        if not rounds:
            with Store.open(path, maintenance="manual") as store:
                store.stream("s").compact()
        rounds.append(len(planned))
        return planned

    monkeypatch.setattr(compacting, "_plan_merges", overtaken)
    done = tl.compact(here, path, "s")
    assert (done.merges, done.conflicts, done.is_done) == (0, rounds[0], True)
    assert content(path).equals(before)
    with Store.open(path) as store:
        assert store.orphans() == []
    assert splits(path)


def test_a_conflict_in_the_last_moment_leaves_no_files(here: Any, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = compacting._swap

    def overtaken(*arguments: Any) -> Any:
        with Store.open(large, maintenance="manual") as store:
            store.stream("s").compact()
        return swap(*arguments)

    monkeypatch.setattr(compacting, "_swap", overtaken)
    before = content(large)
    done = tl.compact(here, large, "s")
    assert (done.merges, done.conflicts, done.is_done) == (0, 1, True)
    assert content(large).equals(before)
    with Store.open(large) as store:
        assert store.orphans() == []


def test_a_failing_task_fails_it_and_leaves_no_files(here: Any, large: Path) -> None:
    (name,) = [split.name for split in splits(large) if split.seq_min == 0]
    (file,) = large.glob(f"streams/*/splits/{name}")
    file.write_bytes(b"?" * 100)
    with pytest.raises(StorageError):
        tl.compact(here, large, "s")
    with Store.open(large) as store:
        assert store.orphans() == []


def test_a_writer_and_a_reader_go_on(session: SparkSession, small: Path) -> None:
    before = content(small)
    over = threading.Event()
    appended: list[int] = []
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with Store.open(small, maintenance="manual") as store:
                stream = store.stream("s")
                while not over.is_set():
                    time = 20_000 + len(appended)
                    stream.append({"ts": [time], "v": [time], "noise": [0]})
                    stream.flush()
                    appended.append(time)
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            with Store.open(small, read_only=True) as store:
                stream = store.stream("s")
                while not over.is_set():
                    snapshot = stream.snapshot()
                    scanned = stream.scan(0, 20_000, as_of=snapshot, seq=True).read_all().combine_chunks()
                    assert scanned.equals(before)
                    assert stream.aggregate(0, 20_000, "count(*)", as_of=snapshot)["count(*)"] == before.num_rows
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        done = tl.compact(session, small, "s")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert (done.splits_before, done.is_done) == (40, True)
    found = content(small)
    assert found.slice(0, before.num_rows).equals(before)
    assert found["ts"].to_pylist()[before.num_rows :] == appended


def test_old_splits_get_aggregates(here: Any, small: Path) -> None:
    before = content(small)
    seen: list[Progress] = []
    done = tl.rebuild(here, small, "s", "second_largest(v)", range=(0, 1000), progress=seen.append)
    assert (done.splits, done.conflicts, done.is_done) == (10, 0, False)
    assert (seen[-1].steps_done, seen[-1].steps_planned, seen[-1].bytes_done) == (10, 10, done.bytes_read)
    done = tl.rebuild(here, small, "s")
    assert (done.splits, done.is_done) == (30, True)
    assert tl.rebuild(here, small, "s").splits == 0
    assert content(small).equals(before)
    with tidelog.open(small, read_only=True) as store:
        stream = store.stream("s")
        assert "from the index" in stream.explain(100, 3777, "second_largest(v)")
        assert stream.aggregate(100, 3777, "second_largest(v)")["second_largest(v)"] == 3774
    assert splits(small)


def test_rebuilding_passes_over_splits_that_left(here: Any, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, calls = rebuilding._plan_rebuilding, []

    def overtaken(*arguments: Any) -> Any:
        planned = plan(*arguments)
        if not calls:
            with Store.open(small, maintenance="manual") as store:
                store.stream("s").delete_before(1000)
        calls.append(None)
        return planned

    monkeypatch.setattr(rebuilding, "_plan_rebuilding", overtaken)
    done = tl.rebuild(here, small, "s", "second_largest(v)")
    assert (done.splits, done.conflicts, done.is_done) == (30, 10, True)


def test_tasks_need_the_code_of_aggregates(session: SparkSession, small: Path) -> None:
    from support.spark import aggregates

    try:
        with pytest.raises(NotFoundError, match="name the modules that register it"):
            tl.rebuild(session, small, "s", "evens(v)", range=(0, 200))
        done = tl.rebuild(session, small, "s", range=(0, 200), imports=[aggregates.__name__])
        assert done.splits == 2
        answers = tl.aggregate(
            session,
            small,
            "s",
            [(0, 100)],
            "evens(v)",
            types={"evens(v)": pa.int64()},
            imports=[aggregates.__name__],
        )
        assert answers.first()["evens(v)"] == 50
    finally:
        aggregates.forget()


def test_what_cannot_be_done_is_refused(here: Any, small: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no stream 't'"):
        tl.compact(here, small, "t")
    with pytest.raises(NotFoundError):
        tl.rebuild(here, tmp_path / "nowhere", "s")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(InputError, match="found 0 \\(int\\) for max_bytes"):
        tl.compact(here, small, "s", max_bytes=0)
    with pytest.raises(InputError, match="found 0 \\(int\\) for at_once"):
        tl.compact(here, small, "s", at_once=0)
