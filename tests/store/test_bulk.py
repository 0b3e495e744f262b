"""Splits written beside the tail: any order of rows, all or nothing, once, and what they overwrite."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import distinct, power_losses, random_power_losses
from support.media.memory import MemoryMedium
from support.media.recording import RecordingMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import ClosedError, ConflictError, InputError, NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.storage.media.medium import Medium
from tidelog.store.bulk import BulkWriter, commit_bulk, remove_files
from tidelog.store.check import check_split
from tidelog.store.manifest.ledger import SPLITS
from tidelog.store.manifest.manifest import SplitInfo
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.split.context import StreamContext
from tidelog.store.tail.log import TailLog
from tidelog.store.tail.numbers import RESERVED
from tidelog.store.tail.tail import Tail

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])
SMALL: dict[str, Any] = {"leaf_rows": 4, "fanout": 3, "late_rows": 9, "journal_bytes": 2000, "grace": 0}


def created(medium: Medium | None = None, **options: Any) -> Stream:
    return Store(medium or MemoryMedium()).create_stream("s", SCHEMA, "ts", **{**SMALL, **options})


def batch(times: list[int], first: int = 0) -> pa.RecordBatch:
    return pa.record_batch([times, list(range(first, first + len(times)))], schema=SCHEMA)


def written(stream: Stream, *parts: list[int], first: int = 0, **options: Any) -> list[SplitInfo]:
    writer = BulkWriter(writer_of(stream).context, **options)
    for times in parts:
        writer.append(batch(times, first))
        first += len(times)
    return writer.finish()


def load(stream: Stream, times: list[int], first: int = 0, **options: Any) -> bool:
    return commit_bulk(writer_of(stream).manifests, written(stream, times, first=first), **options)


def rows(stream: Stream, **options: Any) -> list[tuple[int, int]]:
    found = stream.scan(**options).read_all()
    return list(zip(found["ts"].to_pylist(), found["n"].to_pylist(), strict=True))


def numbers(stream: Stream) -> list[int]:
    return sorted(stream.scan(columns=["_seq"]).read_all()["_seq"].to_pylist())


def files(stream: Stream) -> list[str]:
    return [
        name
        for name in writer_of(stream).context.medium.names(f"{writer_of(stream).context.directory}/splits/")
        if name.endswith(".tide")
    ]


class TestWriting:
    @settings(max_examples=scaled(60))
    @given(
        st.lists(st.lists(st.integers(-40, 40), max_size=30), max_size=8),
        st.sampled_from([1, 400, 3000, 1 << 20]),
        st.sampled_from([1, 5000, 1 << 20]),
    )
    def test_any_order_gives_the_same_rows(self, parts: list[list[int]], memory: int, split_bytes: int) -> None:
        stream = created(split_bytes=split_bytes)
        infos = written(stream, *parts, memory=memory)
        assert rows(stream) == []
        infos = pickle.loads(pickle.dumps(SPLITS.from_dict(json.loads(json.dumps(SPLITS.to_dict(infos))))))
        assert commit_bulk(writer_of(stream).manifests, infos)
        times = [time for part in parts for time in part]
        assert rows(stream) == sorted((time, n) for n, time in enumerate(times))
        assert numbers(stream) == list(range(len(times)))
        assert sum(info.rows for info in infos) == len(times)
        assert stream.check() == []

    def test_rows_in_order_make_one_split_of_whole_leaves(self) -> None:
        stream = created()
        infos = written(stream, *([time, time, time + 1] for time in range(0, 600, 2)), memory=2000)
        assert [(info.rows, info.seq_min, info.seq_max, info.kind) for info in infos] == [(900, 0, 899, "loaded")]
        commit_bulk(writer_of(stream).manifests, infos)
        assert stream.stats()["trees"][0]["leaves"] == 225

    def test_large_batches_in_order_are_written_as_they_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = created()
        monkeypatch.setattr("tidelog.store.rows.memory.MemoryRows.add", None)
        infos = written(stream, list(range(4000)), list(range(4000, 9000)), memory=1000)
        assert [info.rows for info in infos] == [9000]

    def test_rows_a_little_late_are_put_in_their_place(self) -> None:
        stream = created()
        times = [time - (time * 7) % 20 for time in range(3000)]
        infos = written(stream, *([time] for time in times), memory=16_000)
        assert len(infos) == 1
        commit_bulk(writer_of(stream).manifests, infos)
        assert rows(stream) == sorted((time, n) for n, time in enumerate(times))

    def test_single_rows_far_too_late_are_kept_for_one_split_more(self) -> None:
        stream = created()
        times = [time if time % 100 else time - 5000 for time in range(6000)]
        infos = written(stream, *(times[first : first + 50] for first in range(0, 6000, 50)), memory=20_000)
        assert [info.rows for info in infos][1:] == [59 - 1] or len(infos) == 2

    def test_the_newest_first_makes_splits_that_do_not_overlap(self) -> None:
        stream = created()
        infos = written(stream, *([time] for time in range(3000, 0, -1)), memory=40_000)
        spans = sorted((info.time_min, info.time_max) for info in infos)
        assert all(one[1] < two[0] for one, two in pairwise(spans))
        assert 2 < len(spans) < 20

    def test_memory_is_bounded(self) -> None:
        stream = created(leaf_rows=64)
        writer = BulkWriter(writer_of(stream).context, memory=30_000)
        most = 0
        for index in range(400):
            writer.append(batch([(index * 7919 + k * 104729) % 10_007 for k in range(50)]))
            most = max(most, writer._fresh.bytes + writer._late.bytes)
        assert most < 15_000
        assert sum(info.rows for info in writer.finish()) == 20_000

    def test_splits_end_at_their_size(self) -> None:
        stream = created(split_bytes=1, leaf_rows=64)
        infos = written(stream, *(list(range(first, first + 100)) for first in range(0, 20_000, 100)))
        assert len(infos) > 5
        assert all(info.rows % 64 == 0 for info in infos[:-1])
        assert numbers(stream) == []
        commit_bulk(writer_of(stream).manifests, infos)
        assert [n for _, n in rows(stream)] == list(range(20_000))
        assert numbers(stream) == list(range(20_000))

    def test_without_rows_there_are_no_splits(self) -> None:
        stream = created()
        assert written(stream) == written(stream, [], []) == []
        assert files(stream) == []

    def test_an_abandoned_writer_leaves_nothing(self) -> None:
        stream = created(split_bytes=5000)
        writer = BulkWriter(writer_of(stream).context, memory=500)
        for index in range(60):
            writer.append(batch([900 - index, index * 5, index]))
        assert len(files(stream)) > 2
        writer.abandon()
        writer.abandon()
        assert writer_of(stream).context.medium.names(f"{writer_of(stream).context.directory}/splits/") == []
        with pytest.raises(ClosedError):
            writer.append(batch([1]))
        with pytest.raises(ClosedError):
            writer.finish()

    def test_as_a_context_it_leaves_nothing_unless_finished(self) -> None:
        stream = created()
        with BulkWriter(writer_of(stream).context) as writer:
            writer.append(batch(list(range(100))))
            assert writer.rows == 100
            assert len(files(stream)) == 1
        assert files(stream) == []

    def test_finished_splits_can_be_abandoned(self) -> None:
        stream = created()
        with BulkWriter(writer_of(stream).context) as writer:
            writer.append(batch([1, 2]))
            writer.finish()
        assert len(files(stream)) == 1
        writer.abandon()
        assert files(stream) == []

    def test_other_rows_are_refused(self) -> None:
        stream = created()
        writer = BulkWriter(writer_of(stream).context)
        with pytest.raises(InputError, match="expected those of the stream"):
            writer.append(pa.record_batch({"x": [1]}))
        with pytest.raises(InputError, match="expected some"):
            BulkWriter(writer_of(stream).context, memory=0)

    def test_a_context_of_a_stream_that_is_not_open(self) -> None:
        stream = created()
        context = StreamContext.of(writer_of(stream).manifests)
        assert (context.layout, context.directory, context.options) == (
            writer_of(stream).context.layout,
            writer_of(stream).context.directory,
            writer_of(stream).context.options,
        )


class TestCommitting:
    def test_all_become_visible_at_once(self) -> None:
        medium = RecordingMedium()
        stream = created(medium)
        other = Store(medium, read_only=True).stream("s")
        infos = written(stream, [5, 1, 9]) + written(stream, [2, 7], first=3) + written(stream, [3], first=5)
        seen: set[int] = set()
        medium.before = lambda kind, name: seen.add(len(rows(other))) if kind != "open" else None
        assert commit_bulk(writer_of(stream).manifests, infos)
        medium.before = None
        assert seen <= {0, 6}
        assert rows(other) == [(1, 1), (2, 3), (3, 5), (5, 0), (7, 4), (9, 2)]
        assert numbers(other) == list(range(6))

    def test_what_was_committed_survives_any_crash(self) -> None:
        """Splits wait for the disk only when they are closed; before that, a crash may leave anything of them."""
        medium = RecordingMedium()
        stream = created(medium)
        begin = len(medium.log)
        infos = written(stream, [5, 1, 9, 6, 7, 8, 2], memory=200) + written(stream, [4], first=7)
        positions = [len(medium.log)]
        assert commit_bulk(writer_of(stream).manifests, infos)
        medium.mark("committed")
        positions = [*range(begin, positions[0], 5), *range(positions[0], len(medium.log) + 1)]
        expected = rows(stream)
        outcomes = set()
        for crash in distinct([*power_losses(medium, positions), *random_power_losses(medium, 1, 7, positions)]):
            with Store(crash.medium()) as store:
                found = rows(store.stream("s"))
                assert found in ([], expected), crash
                assert found or "committed" not in crash.marks, crash
                assert store.check() == [], crash
                outcomes.add((bool(found), bool(store.orphans())))
                if not found and store.orphans():
                    for _ in range(2):
                        store.remove_orphans(0)
                        store.sweep()
                    assert store.orphans() == [], crash
        assert {found for found, _ in outcomes} == {False, True}
        assert (False, True) in outcomes

    def test_beside_a_tail_at_work(self) -> None:
        stream = created()
        stream.append(batch([10, 20, 30]))
        stream.flush()
        load(stream, [15, 25], 3)
        stream.append(batch([12], 5))
        stream.flush()
        assert rows(stream) == [(10, 0), (12, 5), (15, 3), (20, 1), (25, 4), (30, 2)]
        assert numbers(stream) == [0, 1, 2, 3, RESERVED, RESERVED + 1]
        assert writer_of(stream).published().visible == SeqSet([(0, 4), (RESERVED, RESERVED + 2)])
        assert stream.check() == []

    def test_a_transaction_is_committed_once(self) -> None:
        stream = created()
        assert load(stream, [1, 2], transaction=("q", 0))
        assert not load(stream, [1, 2], transaction=("q", 0))
        assert len(files(stream)) == 1
        assert load(stream, [3], 2, transaction=("q", 5))
        assert not load(stream, [3], 2, transaction=("q", 4))
        assert load(stream, [4], 3, transaction=("r", 0))
        assert rows(stream) == [(1, 0), (2, 1), (3, 2), (4, 3)]
        assert writer_of(stream).manifests.load().transactions == {"q": 5, "r": 0}

    def test_the_same_commit_again_changes_nothing(self) -> None:
        stream = created()
        infos = written(stream, [1, 2])
        assert commit_bulk(writer_of(stream).manifests, infos, transaction=("q", 0))
        assert not commit_bulk(writer_of(stream).manifests, infos, transaction=("q", 0))
        assert rows(stream) == [(1, 0), (2, 1)]
        infos = written(stream, [3], first=2)
        assert commit_bulk(writer_of(stream).manifests, infos)
        number = writer_of(stream).manifests.load().number
        assert commit_bulk(writer_of(stream).manifests, infos)
        assert writer_of(stream).manifests.load().number == number
        assert len(stream) == 3

    def test_a_transaction_without_rows_counts(self) -> None:
        stream = created()
        assert commit_bulk(writer_of(stream).manifests, [], transaction=("q", 7))
        assert not commit_bulk(writer_of(stream).manifests, [], transaction=("q", 7))
        assert writer_of(stream).manifests.load().transactions == {"q": 7}

    def test_two_committers(self) -> None:
        stream = created()
        one, two = written(stream, [1, 2]), written(stream, [3], first=2)
        once = iter([two])

        log = writer_of(stream).manifests
        commit = log.commit

        def rival(change: Any, **how: Any) -> Any:
            def changed(manifest: Any) -> Any:
                wanted = change(manifest)
                for infos in once:
                    commit_bulk(type(log)(log.medium, log.directory), infos)
                return wanted

            return commit(changed, **how)

        log.commit = rival  # type: ignore[method-assign]
        assert commit_bulk(log, one)
        assert numbers(stream) == [0, 1, 2]
        assert {info.seq_base for info in log.load().splits.values()} == {0, 1}

    def test_splits_with_numbers_are_refused(self) -> None:
        stream = created()
        load(stream, [1])
        load(stream, [1])
        committed = [info for info in writer_of(stream).manifests.load().splits.values() if info.seq_base]
        with pytest.raises(InputError, match="expected splits as"):
            commit_bulk(writer_of(stream).manifests, committed)
        with pytest.raises(InputError, match="empty interval"):
            commit_bulk(writer_of(stream).manifests, [], overwrite=Interval(3, 3))


class TestRemoving:
    def test_files_of_a_job_that_failed(self) -> None:
        stream = created()
        infos = written(stream, [1, 2]) + written(stream, [3])
        assert remove_files(writer_of(stream).manifests, infos) == [info.name for info in infos]
        assert writer_of(stream).context.medium.names(f"{writer_of(stream).context.directory}/splits/") == []
        assert writer_of(stream).manifests.load().removed == {}
        with pytest.raises(NotFoundError, match="write and sync it first"):
            commit_bulk(writer_of(stream).manifests, infos)
        assert remove_files(writer_of(stream).manifests, []) == []

    def test_a_late_abort_removes_nothing_that_was_committed(self) -> None:
        stream = created()
        infos = written(stream, [1, 2])
        commit_bulk(writer_of(stream).manifests, infos)
        assert remove_files(writer_of(stream).manifests, infos) == []
        assert rows(stream) == [(1, 0), (2, 1)]
        stream.delete_before(100)
        assert remove_files(writer_of(stream).manifests, infos) == []  # readers may still be at it
        assert len(files(stream)) == 1

    def test_a_commit_that_overtakes_an_abort(self) -> None:
        stream = created()
        infos = written(stream, [1, 2])
        log = writer_of(stream).manifests
        commit = log.commit
        once = iter([infos])

        def rival(change: Any, **how: Any) -> Any:
            for each in once:
                commit_bulk(type(log)(log.medium, log.directory), each)
            return commit(change, **how)

        log.commit = rival  # type: ignore[method-assign]
        assert remove_files(log, infos) == []
        assert len(stream) == 2

    def test_a_commit_between_giving_up_and_removing(self) -> None:
        medium = RecordingMedium()
        stream = created(medium)
        infos = written(stream, [1, 2])
        refused = []

        def before(kind: str, name: str) -> None:
            if kind == "remove" and name.endswith(".tide"):
                medium.before = None
                with pytest.raises(ConflictError, match="given up"):
                    commit_bulk(type(writer_of(stream).manifests)(medium, writer_of(stream).context.directory), infos)
                refused.append(name)

        medium.before = before
        assert remove_files(writer_of(stream).manifests, infos) == [infos[0].name]
        assert refused
        assert len(stream) == 0


class TestOverwriting:
    def test_an_interval(self) -> None:
        stream = created()
        load(stream, list(range(100)))
        load(stream, [30, 35], 100, overwrite=Interval(20, 60))
        expected = [(t, t) for t in range(100) if not 20 <= t < 60] + [(30, 100), (35, 101)]
        assert rows(stream) == sorted(expected)
        assert stream.aggregate(0, 50, ["count(*)", "max(n)"]) == {"count(*)": 22, "max(n)": 101}
        assert stream.rank(60) == 22
        assert stream.check() == []

    def test_all_again_and_again_leaves_no_marks(self) -> None:
        stream = created()
        for job in range(5):
            load(stream, list(range(50)), job * 50, overwrite="all")
            assert rows(stream) == [(t, job * 50 + t) for t in range(50)]
        assert len(writer_of(stream).manifests.load().splits) == 1
        assert writer_of(stream).manifests.load().deletions == ()
        assert "from the index" in stream.explain(None, None, "count(*)")

    def test_the_tail_keeps_what_it_publishes_later(self) -> None:
        stream = created()
        stream.append(batch([1, 2, 3]))
        stream.flush()
        stream.append(batch([4, 5], 3))  # not flushed, so not visible to those who overwrite
        load(stream, [2], 5, overwrite="all")
        assert rows(stream) == [(2, 5), (4, 3), (5, 4)]
        stream.flush()
        stream.append(batch([1], 6))
        assert rows(stream) == [(1, 6), (2, 5), (4, 3), (5, 4)]
        load(stream, [9], 7, overwrite=Interval(None, 5), outside="append")
        assert rows(stream) == [(1, 6), (5, 4), (9, 7)]
        assert len(writer_of(stream).manifests.load().deletions) <= 2
        assert stream.check() == []

    def test_overwritten_rows_do_not_come_back_from_the_journal(self) -> None:
        medium = RecordingMedium()
        stream = created(medium, split=10, journal_bytes=1 << 20)
        for time in range(9):
            stream.append(batch([time], time))
            stream.flush()  # into the journal, row by row
        stream.append(batch([12], 9))
        stream.flush()
        stream.append(batch(list(range(20, 40)), 10))
        stream.flush()  # and the split of the first rows is closed
        assert any(info.time_max < 10 for info in writer_of(stream).manifests.load().splits.values())
        load(stream, [5], 100, overwrite=Interval(0, 10))
        load(stream, [6], 101, overwrite=Interval(0, 10))
        kept = [(6, 101), (12, 9), *((t, t - 10) for t in range(20, 40))]
        assert rows(stream) == kept
        assert rows(Store(medium, read_only=True).stream("s")) == kept
        stream.close()
        assert rows(Store(medium, read_only=True).stream("s")) == kept
        with Store(medium) as again:
            again.stream("s").append(batch([50], 50))
            assert rows(again.stream("s")) == [*kept, (50, 50)]
            assert again.check() == []

    def test_what_others_overwrite_stays_in_snapshots(self) -> None:
        stream = created()
        load(stream, [1, 2, 3])
        before = stream.snapshot()
        load(stream, [7], 3, overwrite="all")
        assert rows(stream, as_of=before) == [(1, 0), (2, 1), (3, 2)]
        assert rows(stream) == [(7, 3)]


class TestBases:
    """Numbers of splits with a base, wherever they are looked at."""

    @pytest.fixture
    def stream(self) -> Stream:
        stream = created()
        load(stream, list(range(0, 80, 2)))
        load(stream, list(range(1, 80, 2)), 40)
        stream.append(batch([5, 100], 80))
        stream.flush()
        return stream

    @pytest.fixture
    def model(self) -> list[tuple[int, int, int]]:
        loaded = [(t, n, n) for n, t in enumerate([*range(0, 80, 2), *range(1, 80, 2)])]
        return sorted([*loaded, (5, 80, 80), (100, 81, 81)], key=lambda row: (row[0], row[2]))

    def test_scans(self, stream: Stream, model: list[tuple[int, int, int]]) -> None:
        assert [row["_seq"] for row in stream.scan(columns=["_seq"]).read_all().to_pylist()] == [s for _, _, s in model]
        for wanted in (SeqSet.below(17), SeqSet([(38, 43), (60, 81)]), SeqSet([(81, 90)]), SeqSet()):
            assert rows(stream, as_of=wanted) == [(t, n) for t, n, s in model if s in wanted]
            assert len(rows(stream, as_of=wanted, where="n % 2 = 0")) == sum(
                n % 2 == 0 and s in wanted for _, n, s in model
            )
        assert rows(stream, as_of=45) == [(t, n) for t, n, s in model if s < 45]

    def test_conditions(self, stream: Stream, model: list[tuple[int, int, int]]) -> None:
        assert rows(stream, where="_seq >= 41 AND _seq < 50") == [(t, n) for t, n, s in model if 41 <= s < 50]
        assert rows(stream, where="_seq = 79 OR n = 3") == [(t, n) for t, n, s in model if s == 79 or n == 3]

    def test_aggregates(self, stream: Stream, model: list[tuple[int, int, int]]) -> None:
        found = stream.aggregate(10, 60, ["min(_seq)", "max(_seq)", "sum(_seq)", "count(*)", "sum(n)"])
        inside = [(n, s) for t, n, s in model if 10 <= t < 60]
        own = [s for _, s in inside]
        assert list(found.values()) == [min(own), max(own), sum(own), len(own), sum(n for n, _ in inside)]
        assert "from the index" in stream.explain(10, 60, "sum(n)")
        counted = stream.aggregate(10, 60, "count(*)", where="_seq >= 41 AND _seq < 60")
        assert counted == {"count(*)": sum(41 <= s < 60 for s in own)}
        assert stream.aggregate(None, None, "count(*)", where="n >= 41") == {"count(*)": 41}
        many = stream.aggregate_all([(10, 60), (0, 3)], ["max(_seq)"])
        assert many == [{"max(_seq)": max(own)}, {"max(_seq)": max(s for t, _, s in model if t < 3)}]

    def test_positions(self, stream: Stream, model: list[tuple[int, int, int]]) -> None:
        for place in (0, 5, 6, 7, -1):
            assert stream.nth(place) == {"ts": model[place][0], "n": model[place][1]}
        assert stream.rank(50) == sum(t < 50 for t, _, _ in model)

    def test_check_finds_wrong_bounds(self, stream: Stream) -> None:
        assert stream.check() == []
        info = next(each for each in writer_of(stream).manifests.load().splits.values() if each.seq_base)
        wrong = replace(info, seq_min=info.seq_min + 100, seq_max=info.seq_max + 100)
        assert "to which 40 is added, but the manifest says 140 to 179" in str(
            check_split(writer_of(stream).context, wrong)[0]
        )


class TestLost:
    def test_what_is_gone_and_what_is_not(self) -> None:
        stream = created(split=10)
        load(stream, list(range(30)))  # one split, numbers 0 to 29
        load(stream, list(range(100, 130)), 30)
        everything = writer_of(stream).published().visible
        assert everything == SeqSet.below(60)
        assert not writer_of(stream).published().lost(everything)
        stream.delete_before(50)
        assert writer_of(stream).manifests.load().gone == SeqSet.below(30)
        assert writer_of(stream).published().lost(everything) == SeqSet.below(30)
        assert writer_of(stream).published().lost(SeqSet([(10, 12), (29, 40)])) == SeqSet([(10, 12), (29, 30)])
        stream.delete_before(105)  # cuts a split
        assert writer_of(stream).published().lost(everything) == SeqSet.below(35)
        assert not writer_of(stream).published().lost(SeqSet([(35, 60)]))

    def test_overwritten_rows_are_not_lost(self) -> None:
        stream = created()
        load(stream, [*range(30), 60])
        load(stream, [5, 25], 31, overwrite=Interval(10, 40), outside="append")
        stream.delete_before(15)
        assert writer_of(stream).published().lost(SeqSet.below(33)) == SeqSet([(0, 10), (31, 32)])
        load(stream, [], overwrite=Interval(40, 70))
        # Of a split that both have emptied nobody knows which row left why.
        assert writer_of(stream).published().lost(SeqSet.below(33)) == SeqSet([(0, 32)])

    def test_rows_that_came_too_late_are_not_lost(self) -> None:
        stream = created()
        stream.append(batch([1, 50, 60]))
        stream.delete_before(20)
        stream.append(batch([2, 70], 3))
        stream.flush()
        snapshot = writer_of(stream).published()
        assert rows(stream) == [(50, 1), (60, 2), (70, 4)]
        assert snapshot.lost(snapshot.visible) == SeqSet.below(1)

    def test_rows_between_the_numbers_of_a_split_that_is_gone(self) -> None:
        stream = created(split=10, late_rows=2)
        stream.append(batch([0, 1, 2, 3, 4, 5, 6, 7]))
        stream.flush()
        stream.append(batch([20, 21, 22, 23]))
        stream.flush()
        stream.append(batch([8]))
        stream.append(batch([24, 25, 26, 27, 28, 29, 30, 31]))
        stream.flush()
        stream.delete_before(15)
        snapshot = writer_of(stream).published()
        lost = snapshot.lost(snapshot.visible)
        there = set(numbers(stream))
        assert not {number for number in there if number in lost}
        assert lost.count == snapshot.visible.count - len(there)

    @settings(max_examples=scaled(25))
    @given(st.lists(st.tuples(st.sampled_from("tblod"), st.lists(st.integers(0, 60), max_size=12)), max_size=8))
    def test_nothing_is_lost_unnoticed(self, steps: list[tuple[str, list[int]]]) -> None:
        """What a reader could see and has gone by ``deleted_before`` is lost; what is there is not."""
        stream = created(split=15)
        seen: dict[int, int] = {}
        bound, overwritten = -1, set()
        for kind, times in steps:
            if kind == "t":
                stream.append(batch(times))
                stream.flush()
            elif kind == "b":
                load(stream, times)
            elif kind == "l":
                load(stream, sorted(times))
            elif kind == "o" and len(times) > 1:
                low, high = min(times[:2]), max(times[:2]) + 1
                overwritten |= {s for s, t in seen.items() if low <= t < high and t >= bound}
                load(stream, [], overwrite=Interval(low, high))
            elif kind == "d" and times:
                bound = max(bound, times[0])
                stream.delete_before(times[0])
            found = stream.scan(seq=True, columns=["ts"]).read_all()
            seen |= dict(zip(found["_seq"].to_pylist(), found["ts"].to_pylist(), strict=True))
        snapshot = writer_of(stream).published()
        lost = snapshot.lost(snapshot.visible)
        there = set(numbers(stream))
        missing = {s for s in seen if s not in there and s not in overwritten}
        assert all(seen[s] < bound for s in missing)
        assert all(s in lost for s in missing)
        assert not any(s in lost for s in there)


def test_a_split_closed_since_the_tail_was_published_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer stops between handing a split over and telling so; meanwhile all its rows are overwritten."""
    medium = RecordingMedium()
    stream = created(medium, split=10)
    stream.append(batch(list(range(8))))
    stream.flush()
    other = Store(medium, read_only=True).stream("s")
    close = Tail._close_finished
    seen: list[list[tuple[int, int]]] = []

    def overwritten(tail: Tail) -> None:
        publish = TailLog.publish
        monkeypatch.setattr(TailLog, "publish", lambda _: None)
        close(tail)
        commit_bulk(writer_of(other).manifests, [], overwrite=Interval(0, 10))
        commit_bulk(writer_of(other).manifests, [], overwrite=Interval(0, 10))
        seen.append(rows(other))
        seen.append(rows(Store(medium, read_only=True).stream("s")))
        monkeypatch.setattr(TailLog, "publish", publish)

    monkeypatch.setattr(Tail, "_close_finished", overwritten)
    stream.append(batch([20, 21], 8))
    stream.append(batch([22], 10))
    stream.append(batch([23, 24, 25, 26], 11))
    stream.flush()
    monkeypatch.undo()
    assert seen[0] == seen[1] == rows(stream) == rows(other)
    assert min(seen[0])[0] == 20
