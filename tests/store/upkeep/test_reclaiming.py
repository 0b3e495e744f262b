"""Splits that are mostly dead are written anew for their space, when that pays, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, distinct, kills, power_losses
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.split.merge_policy import AUTOMATIC, MergePolicy
from tidelog.store.upkeep import reclaiming
from tidelog.store.upkeep.maintenance import Maintenance

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])
SMALL = MergePolicy(least=1000, growth=8, share=0.25, dead_share=0.5, dead_bytes=3000)
"""Like the automatic one, for splits of a few thousand rows; merges nothing."""


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


def create(medium: RecordingMedium, **options: Any) -> Stream:
    return Store(medium).create_stream("s", SCHEMA, "ts", leaf_rows=128, fanout=4, **options)


def load(stream: Stream, times: np.ndarray[Any, Any]) -> None:
    noise = np.random.default_rng(len(times)).integers(0, 1 << 60, len(times))
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(pa.record_batch([times, noise], schema=SCHEMA))
        commit_bulk(writer_of(stream).manifests, writer.finish())


def content(stream: Stream) -> pa.Table:
    return stream.scan(seq=True).read_all().combine_chunks()


def maintain(stream: Stream, policy: MergePolicy = SMALL) -> int:
    return Maintenance(writer_of(stream).context, writer_of(stream).manifests, policy=policy).run().compacted.merges


def rows_on_disk(stream: Stream) -> int:
    return sum(split.rows for split in writer_of(stream).manifests.load().splits.values())


def test_a_split_is_written_anew_when_half_of_it_is_dead(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.arange(2000))
    unread = writer_of(stream).published().visible
    stream.delete_before(999)
    before, snapshot = content(stream), stream.snapshot()
    assert maintain(stream) == 0
    stream.delete_before(1000)
    assert maintain(stream) == 1
    (split,) = writer_of(stream).manifests.load().splits.values()
    assert (split.rows, split.time_min, split.time_max) == (1000, 1000, 1999)
    assert content(stream).equals(before.slice(1))
    assert stream.scan(seq=True, as_of=snapshot).read_all().combine_chunks().equals(before), "the old file stays"
    assert writer_of(stream).published().lost(unread) == SeqSet.below(1000)
    assert maintain(stream) == 0
    assert stream.check() == []


def test_events_are_counted_not_guessed_from_times(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.concatenate([np.arange(100), np.arange(100_000, 101_900)]))  # a long time with few events
    load(stream, np.concatenate([np.arange(200_000, 201_900), np.arange(1_000_000, 1_000_100)]))
    stream.delete_before(90_000)
    assert maintain(stream) == 0
    stream.delete_before(201_900)  # the first leaves whole, the second is nearly dead, by time hardly
    assert maintain(stream) == 1
    assert rows_on_disk(stream) == 100


def test_small_gains_are_left(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.arange(2000))
    stream.delete_before(1500)
    assert maintain(stream, AUTOMATIC) == 0


def test_a_bound_that_moves_writes_each_event_about_once(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.arange(8000))
    written = 0
    for bound in range(0, 8000, 200):
        stream.delete_before(bound)
        for _ in range(maintain(stream)):
            written += rows_on_disk(stream)
        assert content(stream).column("ts").to_pylist() == list(range(bound, 8000))
        (split,) = writer_of(stream).manifests.load().splits.values()
        # What is too little to be freed is no reason: some 9 bytes a row.
        assert split.rows <= max(2 * (8000 - bound), 8000 - bound + 400)
    assert 4000 <= written <= 8000


def test_what_was_asked_of_a_tree_is_remembered(medium: RecordingMedium, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = create(medium)
    load(stream, np.arange(2000))
    stream.delete_before(100)
    opened: list[str] = []
    closed_tree = reclaiming.closed_tree
    monkeypatch.setattr(
        reclaiming, "closed_tree", lambda context, info: opened.append(info.name) or closed_tree(context, info)
    )
    maintenance = Maintenance(writer_of(stream).context, writer_of(stream).manifests, policy=SMALL)
    for _ in range(3):
        maintenance.run()
    assert len(opened) == 1
    stream.delete_before(200)
    maintenance.run()
    assert len(opened) == 2


def test_compact_frees_more(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.arange(60_000))
    stream.delete_before(5000)
    assert stream.compact().merges == 0
    stream.delete_before(8000)
    size = next(iter(writer_of(stream).manifests.load().splits.values())).bytes
    assert stream.compact(max_bytes=size - 1).is_done is False
    done = stream.compact()
    assert (done.merges, done.splits_before, done.splits_after, done.is_done) == (1, 1, 1, True)
    assert rows_on_disk(stream) == 52_000
    assert stream.compact().merges == 0


def test_boundaries_stay(medium: RecordingMedium) -> None:
    stream = create(medium, split=3000)
    stream.append(pa.table([np.arange(7000), np.random.default_rng(0).integers(0, 1 << 60, 7000)], schema=SCHEMA))
    stream.flush()
    stream.delete_before(2000)
    before = content(stream)
    assert maintain(stream) == 1
    found = sorted(writer_of(stream).manifests.load().splits.values(), key=lambda split: split.time_min)
    assert [(split.time_min, split.kind, split.boundary and split.boundary.start) for split in found] == [
        (2000, "regular", 0),
        (3000, "regular", 3000),
    ]
    assert content(stream).equals(before)
    stream.close()


def test_crashes_leave_the_old_split_or_the_new_one(medium: RecordingMedium) -> None:
    stream = create(medium)
    load(stream, np.arange(800))
    stream.delete_before(600)
    expected = content(stream)
    start = len(medium.log)
    small = MergePolicy(least=1000, growth=8, share=0.25, dead_share=0.5, dead_bytes=1)
    assert maintain(stream, small) == 1
    positions = range(start, len(medium.log) + 1)
    found = set()
    for crash in (*distinct(power_losses(medium, positions, singles=2)), *kills(medium, positions)):
        with Store(crash.medium()) as store:
            survivor = store.stream("s")
            assert content(survivor).equals(expected), crash
            assert store.check() == [], crash
            found.add(rows_on_disk(survivor))
    assert found == {800, 200}
