"""Merging splits changes nothing that anyone can see, and leaves the old or the new, whatever comes in between."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, durable
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model import Schema
from tidelog.model.errors import ConflictError, InputError, ReadOnlyError, StorageError
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.deletions import drop_deleted
from tidelog.store.manifest.manifest import Change
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.split import split_sink
from tidelog.store.split.coarse import CoarseEntries, read_coarse
from tidelog.store.split.merge_policy import AUTOMATIC, THOROUGH
from tidelog.store.split.open_split import OpenSplit
from tidelog.store.upkeep import rewriting, split_inputs
from tidelog.store.upkeep.compaction import compact
from tidelog.store.upkeep.rewriting import Rewriting, rewrite, swap, write_anew

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64()), ("word", pa.string())])


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


def create(medium: RecordingMedium, **options: Any) -> Stream:
    return Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3, **options)


def rows(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch([times, list(range(len(times))), [f"at {time}" for time in times]], schema=SCHEMA)


def load(stream: Stream, times: list[int], overwrite: Interval | None = None) -> None:
    writer = BulkWriter(writer_of(stream).context)
    writer.append(rows(times))
    commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite)


def content(stream: Stream) -> pa.Table:
    return stream.scan(seq=True).read_all().combine_chunks()


def splits(stream: Stream) -> list[Any]:
    return list(writer_of(stream).manifests.load().splits.values())


def test_small_commits_become_one_split(medium: RecordingMedium) -> None:
    stream = create(medium)
    for index in range(40):
        load(stream, list(range(index * 20, index * 20 + 20)))
    before, snapshot = content(stream), stream.snapshot()
    done = stream.compact()
    assert (done.splits_before, done.splits_after, done.is_done) == (40, 1, True)
    assert content(stream).equals(before)
    assert [split.kind for split in splits(stream)] == ["compacted"]
    assert stream.scan(seq=True, as_of=snapshot).read_all().combine_chunks().equals(before)
    assert stream.check() == []
    # All leaves but the last are full: small ones would cost every reader.
    assert stream.stats()["trees"] == [{"rows": 800, "leaves": 50, "height": 5}]


def test_overlapping_splits_are_merged_and_keep_their_numbers(medium: RecordingMedium) -> None:
    dice = np.random.default_rng(1)
    stream = create(medium)
    stream.append(rows(list(range(0, 1000, 3))))
    stream.flush()
    for _ in range(12):
        load(stream, dice.integers(0, 1000, 50).tolist())
    before = content(stream)
    aggregates = ["count(*)", "sum(n)", "min(word)", "max(ts)"]
    expected = [stream.aggregate(start, start + 77, aggregates) for start in range(0, 1000, 50)]
    stream.compact()
    assert content(stream).equals(before)
    assert [stream.aggregate(start, start + 77, aggregates) for start in range(0, 1000, 50)] == expected
    assert len(splits(stream)) == 1
    assert stream.check() == []


def test_splits_of_the_tail_stay_regular_in_their_intervals(medium: RecordingMedium) -> None:
    """The tail goes by them: what is older than the newest of them comes late."""
    stream = create(medium, split=100, late_rows=5)
    stream.append(rows(list(range(400))))
    stream.flush()
    for index in range(3):
        stream.append(rows([10 + index, 20, 30, 120, 130, 140]))
        stream.flush()
    before = content(stream)
    assert any(split.kind == "late" for split in splits(stream))
    stream.compact()
    assert content(stream).equals(before)
    found = splits(stream)
    assert {split.kind for split in found} == {"regular"}
    assert sorted(split.boundary.start for split in found) == [0, 100, 200]
    assert stream.check() == []


def test_large_results_are_cut(medium: RecordingMedium) -> None:
    stream = Store(medium).create_stream("s", SCHEMA, "ts", split_bytes=400_000, leaf_rows=1024)
    dice = np.random.default_rng(2)
    for index in range(4):
        times, noise = np.arange(index, 400_000, 4), dice.integers(0, 1 << 60, 100_000)
        writer = BulkWriter(writer_of(stream).context)
        writer.append(pa.record_batch([times, noise, pa.nulls(100_000, pa.string())], schema=SCHEMA))
        commit_bulk(writer_of(stream).manifests, writer.finish())
    before = content(stream)
    stream.compact()
    found = sorted(splits(stream), key=lambda split: split.time_min)
    assert len(found) > 1
    assert all(one.time_max < other.time_min for one, other in pairwise(found))
    assert content(stream).equals(before)


def test_what_lies_over_a_large_split_is_merged_into_it_alone(medium: RecordingMedium) -> None:
    """The automatic policy: splits of full size that are hardly covered stay as they are."""
    stream = create(medium, split_bytes=256 << 10)
    for index in range(4):
        load(stream, list(range(index * 4000, index * 4000 + 3000)))
    load(stream, [6500, 6501, *range(7500, 11_000, 3)])
    full, before = splits(stream)[:4], content(stream)
    assert all(each.bytes >= 128 << 10 for each in full)
    done = compact(writer_of(stream).context, writer_of(stream).manifests, AUTOMATIC)
    assert done.splits_before == 2
    kept = {each.name for each in splits(stream)}
    assert [each.name in kept for each in full] == [True, True, False, True]
    made = sorted((each.time_min, each.time_max) for each in splits(stream) if each not in full)
    assert made[0] == (6500, 6501)  # as before, over the second one
    assert (made[1][0], made[-1][1]) == (7500, 10_999)
    assert content(stream).equals(before)
    assert stream.check() == []


@pytest.mark.parametrize("edges", [(0,), (5, 7), (10, 10_000), (-(2**70), 3, 2**70)])
def test_results_are_cut_at_edges(medium: RecordingMedium, edges: tuple[int, ...]) -> None:
    stream = create(medium)
    load(stream, [0, 3, 4, 5, 5, 6, 9])
    load(stream, [1, 5, 7, 12])
    before = content(stream)
    names = [each.name for each in splits(stream)]
    rewrite(writer_of(stream).context, writer_of(stream).manifests, names, edges=edges)
    groups: dict[int, list[int]] = {}
    for time in before["ts"].to_pylist():
        groups.setdefault(sum(edge <= time for edge in edges), []).append(time)
    found = sorted((each.time_min, each.time_max) for each in splits(stream))
    assert found == [(group[0], group[-1]) for group in groups.values()]
    assert content(stream).equals(before)


def test_long_rows_are_written_a_few_at_a_time(medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory does not grow with the length of rows: sixteen leaves of them may be gigabytes."""
    monkeypatch.setattr(split_inputs, "_TOGETHER_BYTES", 0)
    monkeypatch.setattr(split_sink, "_GATHERED_BYTES", 30_000)
    stream = Store(medium).create_stream("s", SCHEMA, "ts")
    long = [f"{time:05d}" * 200 for time in range(200)]
    for first in range(0, 200, 10):
        writer = BulkWriter(writer_of(stream).context)
        batch = pa.record_batch([range(first, first + 10), range(10), long[first : first + 10]], schema=SCHEMA)
        writer.append(batch)
        commit_bulk(writer_of(stream).manifests, writer.finish())
    sizes: list[int] = []

    def extend(split: OpenSplit, batch: pa.RecordBatch) -> None:
        sizes.append(batch.nbytes)
        original(split, batch)

    original = OpenSplit.extend
    monkeypatch.setattr(OpenSplit, "extend", extend)
    assert stream.compact().splits_after == 1
    assert sum(sizes) > 200_000
    assert max(sizes) < 45_000
    assert stream.scan().read_all()["word"].to_pylist() == long


def test_deleted_rows_are_left_out_and_told_to_those_who_missed_them(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, list(range(100)))
    load(stream, list(range(50, 150)))
    unread = writer_of(stream).published().visible
    stream.delete_before(80)
    expected = writer_of(stream).published().lost(unread)
    before = content(stream)
    stream.compact()
    assert [split.rows for split in splits(stream)] == [20 + 70]
    assert content(stream).equals(before)
    assert writer_of(stream).published().lost(unread) == expected == SeqSet([(0, 80), (100, 130)])
    assert stream.check() == []


def test_overwritten_rows_are_left_out_and_their_mark_goes(medium: RecordingMedium) -> None:
    stream = create(medium)
    for start in (0, 100, 200):
        load(stream, list(range(start, start + 100)))
    load(stream, [150, 160], Interval(120, 250))
    before = content(stream)
    marks = writer_of(stream).manifests.load().deletions
    assert len(marks) == 1
    names = [split.name for split in splits(stream)]
    rewrite(writer_of(stream).context, writer_of(stream).manifests, names[:2])
    # One of three is left that it concerns; of the new one the index answers at once.
    snapshot = stream.snapshot()
    assert snapshot.deletions(0, 200) == []
    assert snapshot.deletions(0, 300) == list(marks)
    assert content(stream).equals(before)
    stream.compact()
    assert writer_of(stream).manifests.load().deletions == ()
    assert content(stream).equals(before)
    assert writer_of(stream).published().lost(writer_of(stream).published().visible) == SeqSet()


def test_a_mark_made_meanwhile_holds(medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create(medium)
    load(stream, list(range(100)))
    load(stream, list(range(50, 150)))
    real = rewriting.SplitSink.finish

    def overwritten_before(self: Any) -> Any:
        monkeypatch.undo()
        load(stream, [70], Interval(60, 80))
        return real(self)

    monkeypatch.setattr(rewriting.SplitSink, "finish", overwritten_before)
    stream.compact()
    assert stream.aggregate(60, 80, "count(*)") == {"count(*)": 1}
    stream.compact()
    assert stream.aggregate(60, 80, "count(*)") == {"count(*)": 1}
    assert writer_of(stream).manifests.load().deletions == ()
    assert stream.aggregate(None, None, "count(*)") == {"count(*)": 200 - 40 + 1}


def test_who_comes_second_leaves_nothing_behind(medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create(medium, grace=0)
    load(stream, list(range(100)))
    load(stream, list(range(50, 150)))
    before = content(stream)
    names = [split.name for split in splits(stream)]
    real = rewriting.SplitSink.finish

    def overtaken(self: Any) -> Any:
        monkeypatch.undo()
        stream.compact()
        return real(self)

    monkeypatch.setattr(rewriting.SplitSink, "finish", overtaken)
    with pytest.raises(ConflictError):
        rewrite(writer_of(stream).context, writer_of(stream).manifests, names)
    assert content(stream).equals(before)
    files = {name for name in medium.names(f"{writer_of(stream).context.directory}/splits/") if name.endswith(".tide")}
    known = {*writer_of(stream).manifests.load().splits, *writer_of(stream).manifests.load().removed}
    assert files == {writer_of(stream).context.path(name) for name in known}
    with pytest.raises(ConflictError):
        rewrite(writer_of(stream).context, writer_of(stream).manifests, names)


def test_what_another_merged_or_deleted_is_passed_over(
    medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = create(medium)
    for index in range(6):
        load(stream, list(range(index * 10, index * 10 + 15)))
    real = rewriting.SplitSink.finish
    rivals = iter([lambda: stream.delete_before(30), lambda: stream.compact()])

    def overtaken(self: Any) -> Any:
        rival = next(rivals, None)
        if rival is not None:
            rival()
        return real(self)

    monkeypatch.setattr(rewriting.SplitSink, "finish", overtaken)
    compact(writer_of(stream).context, writer_of(stream).manifests, THOROUGH)
    assert len(stream) == 6 * 15 - (15 + 15 + 10)
    assert len(splits(stream)) == 1
    assert stream.check() == []


@pytest.mark.parametrize("kind", ["create", "write", "sync", "link", "sync_names"])
@pytest.mark.parametrize(("code", "lasting"), [(errno.EIO, False), (errno.ENOSPC, False), (errno.ENOSPC, True)])
def test_a_failure_changes_nothing_and_leaves_no_file(
    medium: RecordingMedium, kind: str, code: int, lasting: bool
) -> None:
    """At any operation of a merge, once or for good, as on a disk that is full: it would be fuller with every try."""
    stream = create(medium)
    for index in range(6):
        load(stream, list(range(index, 600, 7)))
    before = content(stream)
    for number in count(1):
        disk = durable(medium)
        stream = Store(disk).stream("s")
        fault = disk.inject(kind, number, errno=code, lasting=lasting)
        with suppress(StorageError):
            stream.compact()
        if not fault.fired:
            break
        fault.kind = "none any more"
        store = Store(disk)
        assert store.orphans() == []
        assert content(store.stream("s")).equals(before)
        store.stream("s").compact()
        assert len(splits(store.stream("s"))) == 1
        assert content(store.stream("s")).equals(before)
    assert number > 1


def test_nothing_is_left_of_splits_that_were_deleted_whole(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, list(range(100)))
    load(stream, list(range(50, 100)))
    names = [split.name for split in splits(stream)]
    seen = writer_of(stream).published().visible
    writer_of(stream).manifests.commit(lambda _: Change(deleted_before=200, deleted_seen=seen))
    done = rewrite(writer_of(stream).context, writer_of(stream).manifests, names)
    assert done.added == ()
    assert drop_deleted(writer_of(stream).manifests).gone == SeqSet([(0, 150)])
    assert len(stream) == 0


def test_the_work_is_bounded(medium: RecordingMedium) -> None:
    stream = create(medium)
    for index in range(20):
        load(stream, list(range(index, 200, 20)))
    size = splits(stream)[0].bytes
    steps = 0
    while not (done := stream.compact(max_bytes=6 * size)).is_done:
        assert 0 < done.bytes_read <= 6 * size
        steps += 1
        assert steps < 20
    assert steps > 1
    with pytest.raises(InputError, match="0 bytes"):
        stream.compact(max_bytes=0)
    calls = iter([True, False])
    assert not compact(
        writer_of(stream).context, writer_of(stream).manifests, THOROUGH, may_go_on=lambda: next(calls)
    ).merges


def test_the_automatic_policy_keeps_splits_few(medium: RecordingMedium) -> None:
    stream = create(medium)
    for index in range(60):
        load(stream, [index * 10 + 5, index * 10])
        compact(writer_of(stream).context, writer_of(stream).manifests, AUTOMATIC)
        assert len(splits(stream)) < 16
    assert content(stream).column("ts").to_pylist() == list(range(0, 600, 5))


def test_rows_in_the_journal_are_not_seen_twice(medium: RecordingMedium) -> None:
    """Late rows become a split while the journal still has them; that split is merged, and then the process dies."""
    stream = create(medium, late_rows=4, journal_bytes=1 << 20)
    stream.append(rows(list(range(100, 200))))
    stream.flush()
    stream.append(rows([10, 20, 30, 40, 50]))
    stream.flush()
    load(stream, [15, 25, 120])
    before = content(stream)
    stream.compact()
    with Store(medium, read_only=True) as other:
        assert content(other.stream("s")).equals(before)
        assert other.check() == []


def test_while_a_tail_writes_and_readers_read(medium: RecordingMedium) -> None:
    stream = create(medium, late_rows=20, split=500)
    is_over = threading.Event()
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            while not is_over.is_set():
                stream.compact()
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            with Store(medium, read_only=True) as other:
                seen = 0
                while not is_over.is_set():
                    found = content(other.stream("s")).column("_seq").to_pylist()
                    assert len(set(found)) == len(found) >= seen
                    seen = len(found)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for work in (merge, read)]
    for thread in threads:
        thread.start()
    dice = np.random.default_rng(3)
    for index in range(60):
        stream.append(rows((index * 50 + dice.integers(-300, 60, 40)).tolist()))
        stream.flush()
        if index % 5 == 0:
            load(stream, (index * 50 + dice.integers(-300, 60, 40)).tolist())
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(stream) == 60 * 40 + 12 * 40
    assert stream.check() == []


def test_columns_that_were_added_meanwhile_are_kept(medium: RecordingMedium) -> None:
    """By somebody who has opened the stream before that."""
    stream = create(medium)
    load(stream, list(range(100)))
    wider = Schema(SCHEMA.append(pa.field("extra", pa.int64())), "ts")
    writer_of(stream).manifests.commit(lambda _: Change(schema=wider))
    with Store(medium) as store:
        newer = store.stream("s")
        with BulkWriter(writer_of(newer).context) as writer:
            arrays = [list(range(50, 150)), [1] * 100, ["a"] * 100, list(range(100))]
            writer.append(pa.record_batch(arrays, schema=wider.arrow))
            commit_bulk(writer_of(newer).manifests, writer.finish())
        before = content(newer)
        assert stream.compact().splits_after == 1
        assert content(newer).equals(before)
        assert newer.aggregate(None, None, ["count(extra)", "sum(extra)"]) == {"count(extra)": 100, "sum(extra)": 4950}
        assert newer.check() == []


def test_reading_stores_do_not_compact(medium: RecordingMedium) -> None:
    create(medium)
    with Store(medium, read_only=True) as store, pytest.raises(ReadOnlyError):
        store.stream("s").compact()


@pytest.mark.parametrize("split", [None, 1000])
def test_times_at_both_ends_of_the_clock(medium: RecordingMedium, split: int | None) -> None:
    """The interval that the last instant is in ends beyond it, and nothing is before the first."""
    first, last = -(2**63), 2**63 - 1
    stream = create(medium, split=split, late_rows=3, late_merge="plain")
    stream.append(rows([first, first, first + 1, -1, 0, 1, last - 1, last, last] * 4))
    stream.flush()
    stream.append(rows([first, 5, last, 7, 8, 9, 10]))  # most of them late, and merged
    stream.flush()
    stream.attach("last(n)", "rebuild")
    load(stream, [first, last])
    before = content(stream)
    stream.compact()
    stream.maintain()
    assert content(stream).equals(before)
    assert len(before) == 45
    assert stream.aggregate(None, None, ["count(*)", "min(ts)", "max(ts)"]) == {
        "count(*)": 45,
        "min(ts)": first,
        "max(ts)": last,
    }
    assert stream.check() == []
    stream.coarsen(last, 10**6)
    assert all(coarse.level == 1 for coarse in coarse_of(stream)), "an entry is longer than the grain"


def coarse_of(stream: Stream) -> list[CoarseEntries]:
    found = [info for info in splits(stream) if info.kind == "coarse"]
    return [read_coarse(writer_of(stream).context.medium, writer_of(stream).context.path(info.name)) for info in found]


def test_the_length_of_the_longest_entry(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, [-(2**62) - 5, *range(40), 2**62])
    stream.coarsen(2**63 - 1)
    [coarse] = coarse_of(stream)
    assert coarse.widest == max(int(high) - int(low) for low, high in zip(coarse.lows, coarse.highs, strict=True)) + 1
    alone = create(RecordingMedium())  # where it lies over others it is cut
    load(alone, [-(2**63), 2**63 - 2])
    alone.coarsen(2**63 - 1)
    [coarse] = coarse_of(alone)
    assert coarse.widest == 2**64 - 1


class TestInParts:
    """A merge whose rows are written by several, each for an interval of time."""

    INTERVALS = (Interval(None, 250), Interval(250, 251), Interval(251, 800), Interval(800, None))

    def test_it_is_the_same_as_at_once(self, medium: RecordingMedium) -> None:
        dice = np.random.default_rng(5)
        stream = create(medium)
        for _ in range(6):
            load(stream, dice.integers(0, 1000, 300).tolist())
        load(stream, [500, 501], overwrite=Interval(490, 510))
        unread = writer_of(stream).published().visible
        stream.delete_before(100)
        lost, before = writer_of(stream).published().lost(unread), content(stream)
        rewriting = Rewriting.of(writer_of(stream).manifests, [split.name for split in splits(stream)])
        written = [write_anew(writer_of(stream).context, rewriting, interval) for interval in self.INTERVALS]
        assert content(stream).equals(before)
        done = swap(writer_of(stream).manifests, rewriting, written)
        assert len(done.added) == 4
        assert all(one.time_max < other.time_min for one, other in pairwise(done.added))
        assert content(stream).equals(before)
        assert writer_of(stream).published().lost(unread) == lost
        assert stream.check() == []

    def test_a_rival_leaves_nothing_of_it(self, medium: RecordingMedium) -> None:
        stream = create(medium)
        load(stream, list(range(0, 1000, 2)))
        load(stream, list(range(1, 1000, 2)))
        rewriting = Rewriting.of(writer_of(stream).manifests, [split.name for split in splits(stream)])
        written = [write_anew(writer_of(stream).context, rewriting, interval) for interval in self.INTERVALS]
        stream.compact()
        before, files = content(stream), set(medium.names("streams/"))
        with pytest.raises(ConflictError, match="not in the manifest any more"):
            swap(writer_of(stream).manifests, rewriting, written)
        assert content(stream).equals(before)
        left = {name for each in written for split in each.splits for name in files if split.name in name}
        assert left
        assert not left & set(medium.names("streams/"))
        assert stream.check() == []
