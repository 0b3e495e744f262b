"""Every crash the simulated medium can think of, against what the journal promised before it.

The promises: a journal whose creation returned exists and opens; what ``sync`` acknowledged is there; what is there is
a prefix of what was appended; what an opening kept stays, whatever crash comes next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.children import child
from support.media.crash import Crash, RecordingMedium, kills, power_losses, random_power_losses
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.storage.journal.journal import Journal, read_journal
from tidelog.storage.media.file_medium import FileMedium

NAME = "tail/j"
CREATED = "created"


@dataclass
class Life:
    """A journal's life: what was appended in which order, and the medium that saw it."""

    medium: RecordingMedium
    appended: list[bytes]


def live(seed: int, steps: int, medium: RecordingMedium | None = None, appended: list[bytes] | None = None) -> Life:
    """Create or continue a journal and append, sync, close and reopen at random, marking every acknowledgement."""
    dice = random.Random(seed)
    appended = [] if appended is None else list(appended)
    if medium is None:
        medium = RecordingMedium()
        medium.make_directory("tail")
        journal = Journal.create(medium, NAME)
        medium.mark(CREATED)
    else:
        journal = Journal.open(medium, NAME)
        medium.mark(CREATED)
        medium.mark(journal.last)
    for _ in range(steps):
        action = dice.choices(["append", "sync", "reopen"], [6, 3, 1])[0]
        if action == "append":
            # Around the sector size, so that records share sectors and sectors share records.
            payload = dice.randbytes(dice.choice([0, 1, 30, 100, 480, 512, 1500]))
            appended.append(payload)
            journal.append(payload)
        elif action == "sync":
            number = dice.randint(0, journal.last)
            journal.sync(number)
            medium.mark(number)
        else:
            journal.close()
            medium.mark(journal.last)
            journal = Journal.open(medium, NAME)
    return Life(medium, appended)


def acknowledged(crash: Crash) -> int:
    return max((mark for mark in crash.marks if mark != CREATED), default=0)


def recover(crash: Crash, life: Life) -> tuple[RecordingMedium, list[bytes]] | None:
    """Open after a crash and hold the journal to its promises; None if there never was one."""
    medium = crash.medium()
    if CREATED not in crash.marks and not medium.exists(NAME):
        with pytest.raises(NotFoundError):
            Journal.open(medium, NAME)
        return None
    with read_journal(medium, NAME) as reader:
        read = [record.payload for record in reader.records()]
    journal = Journal.open(medium, NAME)
    kept = [record.payload for record in journal.records()]
    assert kept == life.appended[: len(kept)], crash
    assert len(kept) >= acknowledged(crash), crash
    assert read == kept, crash
    found = journal.recovery
    assert (found.records, found.kept_bytes) == (len(kept), journal.counters.bytes), crash
    assert found.dropped_bytes == 0 or found.reason is not None, crash
    medium.mark(CREATED)
    medium.mark(len(kept))
    journal.sync(journal.append(b"after the crash"))
    medium.mark(len(kept) + 1)
    journal.close()
    with Journal.open(medium, NAME) as again:
        assert again.recovery.reason is None, crash
        assert [record.payload for record in again.records()] == [*kept, b"after the crash"], crash
    return medium, kept


def survive(crashes: Iterable[Crash], life: Life, *, again: Callable[[int], bool] = lambda index: False) -> int:
    """Check all crashes; for those that ``again`` picks, also the crashes of their recovery. Returns how many."""
    count = 0
    for index, crash in enumerate(crashes):
        count += 1
        recovered = recover(crash, life)
        if recovered is not None and again(index):
            medium, kept = recovered
            second = Life(medium, [*kept, b"after the crash"])
            # The log of a killed process goes on, so positions before the kill were looked at already.
            positions = range(crash.position if crash.killed else 0, len(medium.log) + 1)
            for nested in (power_losses(medium, positions), kills(medium, positions)):
                count += survive(nested, second)
    return count


@pytest.mark.parametrize("seed", range(3))
def test_power_losses(seed: int) -> None:
    life = live(seed, steps=60)
    count = survive(power_losses(life.medium), life, again=lambda index: index % 61 == seed)
    assert count > 1000


def test_random_power_losses() -> None:
    count = 0
    for seed in range(4):
        life = live(100 + seed, steps=60)
        count += survive(random_power_losses(life.medium, 8, seed), life)
    assert count > 1000


def test_kills_and_what_may_follow_them() -> None:
    life = live(7, steps=60)
    count = survive(kills(life.medium), life, again=lambda index: index % 7 == 0)
    assert count > 1000


def test_life_after_life() -> None:
    # Each life continues where the power loss of the one before left it, so stale bytes have every chance to return.
    dice = random.Random(1)
    life = live(0, steps=25)
    count = 0
    for generation in range(1, 8):
        crashes = [c for c in random_power_losses(life.medium, 3, generation) if CREATED in c.marks]
        count += survive(crashes, life)
        crash = dice.choice(crashes)
        medium = crash.medium()
        with read_journal(medium, NAME) as reader:
            kept = [record.payload for record in reader.records()]
        life = live(generation, 25, medium, kept)
    assert count > 300


def test_a_real_process_killed_while_it_writes(tmp_path: Path) -> None:
    script = """
import threading
from tidelog.storage.journal.journal import Journal
journal = Journal.create(FileMedium(sys.argv[1]), "j")

def work():
    while True:
        number = journal.append(b"record %d" % journal.last * 20)
        journal.sync(number)
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()

for _ in range(4):
    threading.Thread(target=work).start()
"""
    with child(script, tmp_path) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(60)]
        process.kill()
        process.wait()
        told += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    with Journal.open(FileMedium(tmp_path), "j") as journal:
        assert journal.last >= max(told)
        assert all(record.payload.startswith(b"record ") for record in journal.records())


class TestTheCampaignCanFail:
    """A journal that cheats must be found out, else passing means nothing."""

    def cheat(self, monkeypatch: pytest.MonkeyPatch, name: str, method: Callable[..., object]) -> Life:
        monkeypatch.setattr(Journal, name, method)
        return live(0, steps=30)

    def test_an_acknowledgement_without_a_sync_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            life = self.cheat(patch, "sync", lambda self, number=None: None)
        with pytest.raises(AssertionError):
            survive(power_losses(life.medium), life)

    def test_a_writer_that_damages_its_records_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = Journal.append

        def overlap(self: Journal, payload: bytes) -> int:
            number = original(self, payload)
            self._end -= 8
            return number

        # The writer itself notices when it opens the journal again.
        with monkeypatch.context() as patch, pytest.raises(CorruptionError, match="does not match its checksum"):
            self.cheat(patch, "append", overlap)

    def test_a_name_that_was_not_synced_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RecordingMedium, "sync_names", lambda self, directory="": None)
            life = live(0, steps=10)
        with pytest.raises(NotFoundError):
            survive(power_losses(life.medium), life)

    def test_a_recovery_that_syncs_nothing_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        life = live(3, steps=30)
        opened = Journal.open.__func__  # type: ignore[attr-defined]

        def without_sync(cls: type[Journal], medium: RecordingMedium, name: str) -> Journal:
            with monkeypatch.context() as patch:
                patch.setattr("support.media.memory._MemoryFile.sync", lambda self: None)
                journal: Journal = opened(cls, medium, name)
            return journal

        monkeypatch.setattr(Journal, "open", classmethod(without_sync))
        with pytest.raises((AssertionError, CorruptionError)):
            survive(kills(life.medium), life, again=lambda index: True)
