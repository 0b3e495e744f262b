"""Every crash the simulated medium can think of, against what a store promised before it.

The promises: a store opens, for reading and for writing; what was flushed is there, once; what is there was appended;
an append with a number is there whole or not at all, and once when it is sent again; ``check`` finds nothing wrong;
and the stream goes on from there.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

from support.media.crash import Crash, RecordingMedium, kills, power_losses, random_power_losses
from support.media.operations import Mark as LogMark
from support.streams.history import (
    NAME,
    PRODUCER,
    SMALL,
    Append,
    History,
    Mark,
    Row,
    judge,
    last,
    load,
    rows_of,
    table,
)
from tidelog.engine.store import Store
from tidelog.model.errors import StorageError

ONE_SPLIT = {**SMALL, "split": None, "split_bytes": 1 << 30}
MERGING = {**ONE_SPLIT, "late_rows": 5}
MERGING_ALL = {**ONE_SPLIT, "late_rows": 1000, "late_bytes": 100}
"""What is not in the journal yet is much at once, so a flush merges all of it."""


def read(medium: RecordingMedium) -> list[Row]:
    with Store(medium, read_only=True) as store:
        return rows_of(store.stream(NAME))


def survive(crash: Crash, appends: list[Append], *, thorough: bool = True) -> int:
    """Hold what a crash left to the promises, and go on with it; returns the number of rows found."""
    medium = crash.medium()
    marks: tuple[Mark, ...] = crash.marks
    if last(marks, "created") is None:
        with Store(medium) as store:  # nothing was promised, and nothing is in the way
            if NAME not in store:
                store.create_stream(NAME, table([]).schema, "ts", **SMALL)
            assert store.check() == [], crash
        return 0
    try:
        found = read(medium)
        if thorough:
            with Store(medium, read_only=True) as store:
                assert store.check() == [], "found before any writer has come"
        judge(found, appends, marks)
        go_on(medium, appends, marks, found, thorough=thorough)
    except Exception as error:
        raise AssertionError(f"{error!r} after {crash}") from error
    return len(found)


def go_on(
    medium: RecordingMedium, appends: list[Append], marks: tuple[Mark, ...], found: list[Row], *, thorough: bool
) -> None:
    """Write to a stream that was left with rows ``found``: send again what has numbers, and append more."""
    begun = last(marks, "begun") or 0
    with Store(medium) as store:
        stream = store.stream(NAME)
        for append in appends[:begun]:
            if append.number is not None:
                stream.append(append.table(), producer=PRODUCER, number=append.number)
            elif append.job is not None:
                load(stream, append)
        there = rows_of(stream)
        assert set(found) <= set(there), "opening for writing lost rows"
        if thorough:
            ids = [row.id for row in there]
            assert len(set(ids)) == len(ids), "an append that was sent again is there twice"
            bounds = [mark.value for mark in marks if mark.what in ("deleting", "deleted")]
            numbered = {
                id
                for append in appends[:begun]
                if append.number is not None or append.job is not None
                for time, id in append.rows
                if time >= max(bounds, default=time)
            }
            assert numbered <= set(ids), "an append that was sent again is not there"
        more = [(5000 + index // 3, 1_000_000 + index) for index in range(20)] + [(1500, 1_000_100)]
        stream.append(table(more))
        stream.flush()
        there = rows_of(stream)
        assert {(row.time, row.id) for row in there} >= set(more[:-1])
        assert read(medium) == there, "another reader sees something else"
        assert not thorough or store.check() == []
    if thorough:
        assert read(medium) == there, "closing changed what is there"
        with Store(medium) as store:
            store.stream(NAME).append(table([(6000, 2_000_000)]))
            assert len(store.stream(NAME)) == len(there) + 1
            assert store.check() == []


def survive_all(crashes: Iterable[Crash], history: History, *, every: int = 1) -> int:
    """Survive each ``every``-th crash, looking at every fourth of them thoroughly; returns how many."""
    count = 0
    for index, crash in enumerate(crashes):
        if index % every == 0:
            survive(crash, history.appends, thorough=count % 4 == 0)
            count += 1
    return count


def lived(seed: int, steps: int, **values: object) -> tuple[RecordingMedium, History]:
    medium = RecordingMedium()
    history = History(medium, seed, **values)  # type: ignore[arg-type]
    history.run(steps)
    return medium, history


@pytest.mark.parametrize("seed", range(2))
def test_power_loss_everywhere_in_random_states(seed: int) -> None:
    medium, history = lived(seed, 28)
    assert survive_all(random_power_losses(medium, 1, seed), history, every=4) > 40


def test_power_loss_with_the_nastiest_states() -> None:
    medium, history = lived(10, 18, identified=0.5)
    assert survive_all(power_losses(medium, singles=2), history, every=97) > 30


def test_power_loss_of_a_stream_without_numbers() -> None:
    medium, history = lived(20, 25, identified=0.0, options=ONE_SPLIT)
    assert survive_all(random_power_losses(medium, 1, 20), history, every=3) > 25


def test_power_loss_with_numbers_everywhere() -> None:
    medium, history = lived(0, 20, identified=1.0)
    assert survive_all(random_power_losses(medium, 1, 30), history, every=3) > 40


def test_killed_everywhere_then_power_lost_while_going_on() -> None:
    medium, history = lived(40, 20)
    seconds = 0
    for index, crash in enumerate(kills(medium)):
        if index % 7:
            continue
        survive(crash, history.appends, thorough=index % 4 == 0)
        if index % 35 or last(crash.marks, "created") is None:
            continue
        survivor = crash.medium()
        began = len(survivor.log)
        found = read(survivor)
        with Store(survivor) as store:
            store.stream(NAME).append(table([(7000, 3_000_000)]))
            store.flush()
            flushed = len(survivor.log)
        more = [*history.appends[: last(crash.marks, "begun") or 0], Append(((7000, 3_000_000),))]
        kept = {row.id for row in found}
        for position in {*range(began, len(survivor.log) + 1, 4), flushed}:
            for second in random_power_losses(survivor, 1, index, [position]):
                seconds += 1
                there = read(second.medium())
                # What a reader could see after the kill was maybe never synced, until the next writer flushed it.
                left = {row.id for row in there} - {3_000_000}
                assert left == kept if position >= flushed else left <= kept, second
                judge(there, more, (*crash.marks, Mark("begun", len(more))))
    assert seconds > 20


@pytest.mark.parametrize(("identified", "options"), [(0.0, MERGING), (0.5, MERGING_ALL)])
def test_power_loss_while_late_rows_are_merged(identified: float, options: dict[str, Any]) -> None:
    medium, history = lived(61, 60, identified=identified, lates=8, delay=1500, options=options, jobs=0.3)
    assert history.merged > 5
    assert survive_all(random_power_losses(medium, 1, 60), history, every=2) > 50


def test_killed_while_late_rows_are_merged() -> None:
    medium, history = lived(65, 60, lates=8, delay=1500, options=MERGING, jobs=0.3)
    assert history.merged > 5
    assert survive_all(kills(medium), history, every=11) > 15
    assert survive_all(power_losses(medium, singles=2), history, every=97) > 10


def test_power_loss_while_others_load_rows_too() -> None:
    medium, history = lived(50, 26, jobs=6.0)
    assert sum(append.job is not None for append in history.appends) > 4
    assert survive_all(random_power_losses(medium, 1, 50), history, every=5) > 30


def test_power_loss_while_splits_are_merged() -> None:
    medium, history = lived(62, 26, jobs=4.0, compactions=4.0)
    assert history.merges > 4
    assert survive_all(random_power_losses(medium, 1, 62), history, every=9) > 20


def test_killed_while_splits_are_merged() -> None:
    medium, history = lived(63, 26, jobs=4.0, compactions=4.0)
    assert history.merges > 4
    assert survive_all(kills(medium), history, every=19) > 10


@pytest.mark.parametrize("kind", ["write", "sync", "create", "link", "remove", "sync_names"])
def test_a_failing_operation_is_reported_and_loses_nothing(kind: str) -> None:
    fired = 0
    number = 1
    while True:
        medium = RecordingMedium()
        fault = medium.inject(kind, number, errno=(errno.EIO, errno.ENOSPC)[number % 2], keep=100)
        history: History | None = None
        try:
            history = History(medium, 3, identified=0.5)
            history.run(14)
        except StorageError:
            assert fault.fired
        if not fault.fired:
            break
        fired += 1
        number += max(1, number // 3)
        if history is None:
            continue
        with suppress(StorageError):
            history.store.close()
        marks = tuple(each.value for each in medium.log if isinstance(each, LogMark))
        found = read(medium)
        judge(found, history.appends, marks)
        go_on(medium, history.appends, marks, found, thorough=True)
    assert fired > 3


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_after_a_failed_sync_was_got_over(seed: int) -> None:
    """What a failed sync should have written may never be, whatever later syncs say: it has to be written again."""
    states = 0
    for number in range(8, 46, 3):
        medium = RecordingMedium()
        fault = medium.inject("sync", number)
        history = History(medium, seed, identified=0.5 * seed)
        with suppress(StorageError):
            history.run(24)
        with suppress(StorageError):
            history.store.close()
        if not fault.fired:
            break
        with Store(medium) as store:
            store.stream(NAME).append(table([(9000, 4_000_000)]))
            store.flush()
            flushed = len(medium.log)
            promised = rows_of(store.stream(NAME))
        for loss in random_power_losses(medium, 3, number, [flushed]):
            states += 1
            assert read(loss.medium()) == promised, loss
    assert states > 8


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_soak_crashes(seed: int) -> None:
    options = ONE_SPLIT if seed % 3 == 0 else SMALL
    medium, history = lived(
        seed,
        60,
        identified=(0.0, 0.3, 1.0)[seed % 3],
        options=options,
        compactions=(0.0, 2.0)[seed % 2],
        lates=(3, 12)[seed // 2 % 2],
        delay=(300, 1500)[seed // 4 % 2],
    )
    survive_all(random_power_losses(medium, 3, seed), history)
    survive_all(power_losses(medium, singles=4), history, every=11)
    survive_all(kills(medium), history)


class TestTheCampaignCanFail:
    """Stores that cheat must be found out, else passing means nothing."""

    def test_a_journal_that_is_not_synced_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.storage.journal.journal.Journal.sync", lambda self, number=None: None)
            medium, history = lived(0, 20)
        with pytest.raises(AssertionError):
            survive_all(random_power_losses(medium, 1, 0), history)

    def test_rows_that_are_kept_twice_are_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        medium, history = lived(0, 20)
        monkeypatch.setattr("tidelog.store.read.snapshots.not_in", lambda trees, rows: rows)
        with pytest.raises(AssertionError):
            survive_all(kills(medium), history)
