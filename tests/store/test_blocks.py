"""Sequence numbers: the tail's blocks, what others take, and what a reader may rely on."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import RecordingMedium
from support.media.disk_states import Disk
from support.profiles import scaled
from support.streams.history import NAME, SCHEMA, SMALL, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import ConflictError
from tidelog.model.times.clock import INT64_MAX
from tidelog.store.manifest.ledger import ManifestLedger
from tidelog.store.manifest.manifest import Change
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.tail import numbers as tail_numbers
from tidelog.store.tail.numbers import TailNumbers
from tidelog.store.tail.record import Publisher, TailRecord
from tidelog.store.tail.state import read_state


def created(**options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium)
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **{**SMALL, **options})


def numbered(first: int, last: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, last)]


def take(stream: Stream, count: int) -> None:
    """Let somebody else have some numbers."""
    writer_of(stream).manifests.commit(lambda manifest: Change(next_seq=manifest.next_seq + count))


def numbers(stream: Stream) -> list[int]:
    return sorted(row.seq for row in rows_of(stream))


def left(medium: RecordingMedium) -> RecordingMedium:
    """What a loss of power leaves."""
    disk = Disk(medium.baseline)
    for operation in medium.log:
        disk.advance(operation)
    return RecordingMedium(disk.view().durable)


def test_numbers_are_dense_as_long_as_only_the_tail_writes() -> None:
    medium, store, stream = created()
    count = 0
    for rows in (3, 30, 1, 200):
        stream.append(table(numbered(count, count + rows)))
        count += rows
        assert stream.snapshot().visible == SeqSet.below(count)
        store.close()
        with Store(medium, read_only=True) as reader:
            assert reader.stream(NAME).snapshot().visible == SeqSet.below(count)
        medium = left(medium)
        store = Store(medium)
        stream = store.stream(NAME)
        assert numbers(stream) == list(range(count))
    assert writer_of(stream).manifests.load().tail_block == (0, tail_numbers.RESERVED)
    assert stream.stats()["next_seq"] == count


def test_a_tail_that_is_taken_over_goes_on_behind_what_others_have_committed() -> None:
    medium, store, stream = created()
    stream.append(table(numbered(0, 10)))
    stream.flush()
    take(stream, 5)
    end = tail_numbers.RESERVED
    others = SeqSet([(end, end + 5)])
    assert stream.snapshot().visible == SeqSet.below(10) | others
    stream.append(table(numbered(10, 12)))  # a tail at work goes on in its block
    assert numbers(stream) == list(range(12))
    store.close()
    with Store(medium) as store:
        stream = store.stream(NAME)
        assert stream.snapshot().visible == SeqSet.below(12) | others
        stream.append(table(numbered(12, 14)))
        assert numbers(stream) == [*range(12), end + 5, end + 6]
        # What is left of the first block will have no rows.
        assert stream.snapshot().visible == SeqSet.below(end + 7)
        assert stream.snapshot().next_seq == end + 7
    with Store(medium) as store:  # nobody else has come since
        store.stream(NAME).append(table(numbered(14, 15)))
        assert numbers(store.stream(NAME))[-1] == end + 7
        assert store.check() == []


def test_a_store_without_blocks_gets_one_behind_what_is_in_its_journal() -> None:
    medium, store, stream = created()
    stream.append(table(numbered(0, 5)))
    stream.flush()
    ledger = ManifestLedger()
    values = ledger.state_to_dict(writer_of(stream).manifests.load())
    store.close()
    before = ledger.state_from_dict({**values, "next_seq": 3, "tail_block": None, "tail_seq": 0}, 1)
    with Store(medium) as store:
        stream = store.stream(NAME)
        assert read_state(writer_of(stream).context, before).next_seq == 5
        stream.append(table(numbered(5, 6)))
        numbers = TailNumbers(writer_of(stream).manifests)
        numbers.go_on_from(5, before)
        assert numbers.next == numbers.block[0] == tail_numbers.RESERVED


def test_blocks_that_would_give_out_numbers_twice_are_refused() -> None:
    _, _, stream = created()
    log = writer_of(stream).manifests
    assert log.commit(lambda manifest: Change(tail_block=(3, 9))).next_seq == 9
    for block in ((8, 20), (9, 9), (12, 10), (9, INT64_MAX + 1)):
        with pytest.raises(ConflictError, match="cannot reserve the sequence numbers"):
            log.commit(lambda manifest, block=block: Change(tail_block=block))
    assert log.load().tail_block == (3, 9)


def test_splits_whose_events_are_gone_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    medium, store, stream = created(split=None, split_bytes=500)
    stream.append(table(numbered(0, 64)))  # whole leaves: the journal knows nothing of them
    stream.flush()
    stream.delete_before(1000)
    assert len(writer_of(stream).manifests.load().splits) == 0
    assert writer_of(stream).manifests.load().tail_seq == 64
    store.close()
    medium = left(medium)
    assert Store(medium, read_only=True).stream(NAME).snapshot().visible == SeqSet.below(64)
    with Store(medium) as store:
        store.stream(NAME).append(table([(2000, 1)]))
        assert numbers(store.stream(NAME)) == [64]


def test_leaves_that_no_record_of_the_journal_tells_of_are_visible() -> None:
    medium, _, stream = created(split=None)
    stream.append(table(numbered(0, 16)))
    stream.flush()
    other = Store(left(medium), read_only=True).stream(NAME)
    assert numbers(other) == list(range(16))
    assert other.snapshot().visible == SeqSet.below(16)


class Watcher:
    """A reader that never believes in a row it has passed over."""

    def __init__(self, medium: RecordingMedium) -> None:
        self.stream = Store(medium, read_only=True).stream(NAME)
        self.seen: set[int] = set()
        self.visible = SeqSet()
        self.looks = 0

    def look(self) -> Snapshot:
        snapshot = self.stream.snapshot()
        found = self.stream.scan(columns=["_seq"], as_of=snapshot).read_all()["_seq"].to_pylist()
        visible = snapshot.visible
        assert len(set(found)) == len(found)
        assert self.visible.issubset(visible), f"{self.visible} was visible, now {visible} is"
        new = visible - self.visible
        there = {number for number in found if number in visible}
        assert self.seen <= there
        assert all(number in new for number in there - self.seen), "a row has turned up that was passed over"
        self.seen, self.visible = there, visible
        self.looks += 1
        return snapshot


@settings(max_examples=scaled(15))
@given(st.integers(0, 1 << 30), st.sampled_from([1, 7, 25, 1 << 20]), st.sampled_from([1, 3]))
def test_a_number_that_was_passed_over_never_turns_up(seed: int, block: int, every: int) -> None:
    """A reader looks before every ``every``-th operation of the writer, whatever that is doing."""
    dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail_numbers, "RESERVED", block)
        medium, store, stream = created(split=dice.choice([None, 60]), journal_bytes=dice.choice([1, 2000]))
        watcher = Watcher(medium)
        operations = 0
        is_looking = False

        def before(kind: str, name: str) -> None:
            nonlocal operations, is_looking
            operations += 1
            if not is_looking and operations % every == 0 and kind != "open":
                is_looking = True
                watcher.look()
                is_looking = False

        medium.before = before
        ids = 0
        for _ in range(8):
            step = dice.choice(["append", "append", "late", "numbered", "iterator", "flush", "reopen", "others", "one"])
            rows = [(ids + index, ids + index) for index in range(dice.choice([1, 9, 40]))]
            if step == "late":
                rows = [(dice.randrange(max(ids, 1)), id) for _, id in rows]
            if step in ("append", "late"):
                stream.append(table(rows))
            elif step == "numbered":
                stream.append(table(rows), producer="p", number=ids)
            elif step == "iterator":
                stream.append(table(rows).to_reader(max_chunksize=5))
            elif step == "one":
                rows = rows[:1]
                stream.append(table(rows).to_pylist()[0])
            elif step == "others":
                take(stream, dice.choice([1, 1000]))
            elif step == "flush":
                stream.flush()
            else:
                store.close()
                store = Store(medium)
                stream = store.stream(NAME)
            if step in ("append", "late", "numbered", "iterator", "one"):
                ids += len(rows)
        store.close()
        medium.before = None
        watcher.look()
        assert len(watcher.seen) == ids
        assert Store(medium).check() == []
        assert watcher.looks > 5


def test_a_reader_between_the_reservation_and_its_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_numbers, "RESERVED", 10)
    medium, store, stream = created()
    stream.append(table(numbered(0, 6)))
    stream.flush()
    watcher = Watcher(medium)
    watcher.look()
    publish = Publisher.publish
    looked: list[SeqSet] = []

    def slow(publisher: Publisher, record: TailRecord) -> None:
        if record.next_seq >= 10:
            looked.append(watcher.look().visible)
        publish(publisher, record)

    monkeypatch.setattr(Publisher, "publish", slow)
    stream.append(table(numbered(6, 12)))  # does not fit: there are 4 numbers left
    monkeypatch.undo()
    assert looked == [SeqSet.below(6)]
    stream.flush()
    assert watcher.look().visible == SeqSet.below(16)
    assert numbers(stream) == [*range(6), *range(10, 16)]
    store.close()
