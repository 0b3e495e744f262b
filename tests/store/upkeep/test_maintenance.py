"""What is due, and that doing it keeps what it must keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium
from support.streams.manifests import Hand
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model import Schema
from tidelog.model.errors import ClosedError, InputError
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.catalogue import Catalogue
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog, SplitInfo
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.manifest.state import Removed
from tidelog.store.split.context import StreamContext
from tidelog.store.split.removal import orphans
from tidelog.store.upkeep.maintenance import SWEEP_COMMITS, Due, Maintenance, what_is_due

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])
NOW = 1_790_000_000.0


def manifest(*times: tuple[int, int], **options: Any) -> Manifest:
    splits = [
        SplitInfo(
            name=f"{index:013d}-0123456789abcdef.tide",
            rows=1,
            bytes=1 << 19,
            time_min=first,
            time_max=last,
            seq_min=index,
            seq_max=index,
            kind="regular",
            created_at=0.0,
        )
        for index, (first, last) in enumerate(times)
    ]
    return Manifest(
        number=1,
        schemas=(Schema(SCHEMA, "ts"),),
        options=StreamOptions(**options),
        splits={split.name: split for split in splits},
        next_seq=len(splits),
    )


class TestWhatIsDue:
    def test_nothing(self) -> None:
        assert what_is_due(manifest(), NOW).is_nothing
        assert what_is_due(manifest((0, 10), (20, 30)), NOW, bounds=(0, 30)).is_nothing

    @pytest.mark.parametrize(
        ("newest", "bound"),
        [
            (1600, None),  # nothing is too old
            (1650, None),  # 50 ticks are, less than a sixteenth of 1600
            (1699, None),
            (1700, 100),  # a sixteenth
        ],
    )
    def test_retention_waits_until_it_is_worth_it(self, newest: int, bound: int | None) -> None:
        state = manifest((0, 5000), retention=1600)
        assert what_is_due(state, NOW, bounds=(0, newest)) == Due(delete_before=bound)

    def test_retention_frees_a_split_as_soon_as_it_can(self) -> None:
        state = manifest((0, 10), (20, 5000), retention=1600)
        assert what_is_due(state, NOW, bounds=(0, 1610)) == Due()
        assert what_is_due(state, NOW, bounds=(0, 1611)) == Due(delete_before=11)
        deleted = replace(state, deleted_before=11, deleted_seen=SeqSet.below(5))
        assert what_is_due(deleted, NOW, bounds=(0, 1612)) == Due(has_dead=True)

    def test_splits_that_pay_to_be_merged(self) -> None:
        due = what_is_due(manifest(*((i * 10, i * 10 + 5) for i in range(8))), NOW)
        assert due.merge is not None
        assert len(due.merge.inputs) == 8

    def test_files_whose_time_has_come(self) -> None:
        state = replace(manifest(grace=100), removed=Removed({"x.tide": NOW - 100}))
        assert what_is_due(state, NOW) == Due(has_expired=True)
        assert what_is_due(state, NOW - 1) == Due()
        assert what_is_due(replace(manifest(), number=SWEEP_COMMITS), NOW).has_expired
        assert not what_is_due(replace(manifest(), number=SWEEP_COMMITS), NOW, swept=1).has_expired


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


def create(medium: RecordingMedium, **options: Any) -> Stream:
    return Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3, **options)


def rows(times: range | list[int]) -> pa.RecordBatch:
    return pa.record_batch([list(times), list(range(len(times)))], schema=SCHEMA)


def load(stream: Stream, times: range | list[int], overwrite: Interval | None = None) -> None:
    writer = BulkWriter(writer_of(stream).context)
    writer.append(rows(times))
    commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite)


def times(stream: Stream) -> list[int]:
    found: list[int] = stream.scan(columns=["ts"]).read_all()["ts"].to_pylist()
    return found


def test_everything_that_is_due_is_done(medium: RecordingMedium) -> None:
    stream = create(medium, retention=300, grace=0)
    for index in range(20):
        load(stream, range(index * 30, index * 30 + 30))
    done = stream.maintain()
    assert done.deleted_before == 599 - 300
    assert done.splits_dropped == 9
    assert done.compacted.merges == 1
    assert done.files_removed == 0  # their grace period began just now
    assert times(stream) == list(range(299, 600))
    assert len(writer_of(stream).manifests.load().splits) == 1
    assert stream.maintain().files_removed >= 20
    files = medium.names(f"{writer_of(stream).context.directory}/splits/")
    assert [name for name in files if name.endswith(".tide")] == [
        writer_of(stream).context.path(name) for name in writer_of(stream).manifests.load().splits
    ]
    assert stream.check() == []


def test_a_split_that_is_written_anew_to_be_reduced_is_given_up_when_all_is_over(medium: RecordingMedium) -> None:
    """For it may be a large one, and who closes the store waits."""
    stream = create(medium, coarse_after=500)
    load(stream, range(300))
    load(stream, range(2000, 2010))
    stream.delete_before(100)
    with pytest.raises(ClosedError):
        Maintenance(writer_of(stream).context, writer_of(stream).manifests).run(is_over=lambda: True)
    assert [split.kind for split in writer_of(stream).manifests.load().splits.values()] == ["loaded", "loaded"]
    assert orphans(medium, writer_of(stream).manifests) == []
    assert Maintenance(writer_of(stream).context, writer_of(stream).manifests).run().coarsened.splits == 1


def test_retention_goes_by_what_was_flushed(medium: RecordingMedium) -> None:
    stream = create(medium, retention=100)
    stream.append(rows(range(50)))
    stream.flush()
    assert stream.maintain().deleted_before is None
    stream.append(rows([500]))
    assert stream.maintain().deleted_before is None
    stream.flush()
    assert stream.maintain().deleted_before == 400
    assert times(stream) == [500]
    stream.append(rows([399, 400]))  # what comes too late has come in vain
    assert times(stream) == [400, 500]


@pytest.mark.parametrize("is_reopened", [True, False])
@pytest.mark.parametrize(
    ("overwritten", "newest"),
    [
        (Interval(500, None), 149),
        (Interval(120, None), 119),
        (Interval(9000, None), 700),
        (Interval(None, None), None),
        (Interval(120, 700), 9001),  # and the row of 700 stays
        (Interval(120, 9001), 9001),
        (Interval(120, 9002), 119),
    ],
)
def test_what_was_overwritten_is_not_the_newest_event(
    medium: RecordingMedium, overwritten: Interval, newest: int | None, is_reopened: bool
) -> None:
    """Rows from the future, by mistake, that were taken back in time."""
    stream = create(medium, retention=100)
    stream.append(rows(range(150)))
    if is_reopened:
        stream.close()
        stream = Store(medium).stream("s")
    load(stream, [700, 9001])
    stream.append(rows([80, 90]))  # numbers that the overwriting finds in no split
    stream.flush()
    load(stream, [], overwritten)
    came = sorted([*range(150), 700, 9001, 80, 90])
    expected = [time for time in came if not overwritten.contains(time)]
    assert times(stream) == expected
    assert (expected[-1] if expected else None) == newest
    done = stream.maintain()
    assert done.deleted_before == (None if newest is None else newest - 100)
    assert times(stream) == [time for time in expected if newest is not None and time >= newest - 100]


def test_rows_that_retention_took_are_lost_to_those_who_had_not_read_them(medium: RecordingMedium) -> None:
    stream = create(medium, retention=100)
    load(stream, range(50))
    unread = writer_of(stream).published().visible
    load(stream, range(100, 400))
    stream.maintain()
    assert writer_of(stream).published().lost(unread) == SeqSet([(0, 50)])


def test_marks_go_with_what_they_applied_to(medium: RecordingMedium) -> None:
    stream = create(medium)
    for index in range(8):
        load(stream, range(index * 10, index * 10 + 10))
    load(stream, [33], Interval(25, 45))
    assert writer_of(stream).manifests.load().deletions
    stream.maintain()
    assert writer_of(stream).manifests.load().deletions == ()
    assert times(stream) == [*range(25), 33, *range(45, 80)]


@pytest.mark.parametrize("limit", [0, -4, "1MB", 1.5, True])
def test_what_is_no_limit_is_refused(medium: RecordingMedium, limit: Any) -> None:
    store = Store(medium)
    stream = store.create_stream("s", pa.schema([("ts", pa.int64())]), "ts")
    for work in (stream.maintain, stream.compact, store.maintain):
        with pytest.raises(InputError, match="bytes to read at most"):
            work(limit)


def test_a_whole_store_is_maintained(medium: RecordingMedium) -> None:
    stream = create(medium)
    for index in range(8):
        load(stream, range(index * 10, index * 10 + 10))
    with Store(medium) as store:
        store.create_stream("other", SCHEMA, "ts")
        done = store.maintain()
    assert {name: each.compacted.merges for name, each in done.items()} == {"s": 1, "other": 0}


def test_old_manifests_go_without_anybody_asking(medium: RecordingMedium) -> None:
    clock = Hand()
    create(medium, grace=60)
    entry = Catalogue.open(medium).find("s")
    log = ManifestLog(medium, entry.directory, clock=clock)
    maintenance = Maintenance(StreamContext.of(log), log)
    most = 0
    for _ in range(5 * SWEEP_COMMITS):
        clock.now += 5
        log.commit(lambda state: Change(next_seq=state.next_seq + 1))
        maintenance.run()
        most = max(most, len(medium.names(f"{entry.directory}/manifest/")))
    assert most < 2 * SWEEP_COMMITS
