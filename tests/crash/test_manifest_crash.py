"""Every crash the simulated medium can think of, against what manifests and catalogues promised before it.

The promises: a store, a stream or a commit whose making returned is there; what is there is a state that was committed,
no mixture of two; every split named is on disk; whoever opens next can go on committing; a check finds nothing wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from support.media.crash import Crash, RecordingMedium, distinct, kills, power_losses, random_power_losses
from support.streams.manifests import SCHEMA, Hand, put_split
from tidelog.model.errors import NotFoundError, StorageError
from tidelog.store.catalogue import Catalogue
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.options import GRACE_SECONDS, StreamOptions
from tidelog.store.split.removal import ORPHAN_AGE, sweep

HERE = "streams/s"
GRACE = 50.0


@dataclass
class Life:
    """The manifests of a stream's life by number, on the medium that saw it."""

    medium: RecordingMedium
    clock: Hand = field(default_factory=Hand)
    manifests: dict[int, Manifest] = field(default_factory=dict)

    def log(self, medium: RecordingMedium | None = None) -> ManifestLog:
        return ManifestLog(medium or self.medium, HERE, clock=self.clock)

    def acknowledge(self, manifest: Manifest) -> None:
        self.manifests[manifest.number] = manifest
        self.medium.mark(manifest.number)


def live(seed: int, steps: int) -> Life:
    """Create a stream and let two committers and a sweeper work on it at random, marking all that is acknowledged."""
    dice = random.Random(seed)
    life = Life(RecordingMedium())
    logs = [life.log(), life.log()]
    life.acknowledge(logs[0].create(SCHEMA, StreamOptions(grace=GRACE)))
    for _ in range(steps):
        log = dice.choice(logs)
        life.clock.now += dice.choice([0, 1, GRACE / 3])
        action = dice.choices(["add", "replace", "mark", "sweep"], [4, 2, 3, 1])[0]
        splits = list(log.load().splits)
        if action == "add" or (action == "replace" and not splits):
            split = put_split(life.medium, HERE, life.clock.now)
            life.acknowledge(log.commit(lambda manifest, split=split: Change(add=(split,))))
        elif action == "replace":
            merged, old = put_split(life.medium, HERE, life.clock.now), tuple(dice.sample(splits, 1))
            life.acknowledge(log.commit(lambda manifest, a=merged, b=old: Change(add=(a,), remove=b)))
        elif action == "mark":
            life.acknowledge(log.commit(lambda manifest: Change(next_seq=manifest.next_seq + 1)))
        else:
            sweep(life.medium, log, life.clock.now, keep=())
            life.acknowledge(log.load())
    return life


def survive(crashes: Iterable[Crash], life: Life) -> int:
    """Hold what is left after each crash to the promises; returns how many there were."""
    count = 0
    for crash in crashes:
        count += 1
        medium = crash.medium()
        log = life.log(medium)
        promised = max(crash.marks, default=0)
        if not promised and not log.exists():
            with pytest.raises(NotFoundError):
                log.load()
            continue
        manifest = log.load()
        assert manifest.number >= promised, crash
        known = life.manifests.get(manifest.number)
        assert known is None or manifest == known, crash
        assert log.check() == [], crash
        made = log.commit(lambda manifest: Change(next_seq=manifest.next_seq + 7))
        assert made.number == manifest.number + 1, crash
        assert life.log(medium).load() == made, crash
        # What the crash left behind is swept up, and nothing that is needed.
        sweep(medium, log, life.clock.now + ORPHAN_AGE, keep=())
        sweep(medium, log, life.clock.now + 2 * ORPHAN_AGE, keep=())
        assert life.log(medium).load().splits == manifest.splits, crash
        assert not [name for name in medium.names(HERE) if name.endswith(".tmp")], crash
        assert log.check() == [], crash
    return count


def test_power_losses() -> None:
    life = live(0, steps=22)
    # Of what is pending four are varied: what was ever written to the mark of a log is, and has tests of its own.
    assert survive(distinct(power_losses(life.medium, singles=4)), life) > 2000


def test_power_losses_around_a_checkpoint_and_pruning() -> None:
    life = live(5, steps=0)
    log = life.log()
    for _ in range(33):
        life.acknowledge(log.commit(lambda manifest: Change(next_seq=manifest.next_seq + 1)))
    start = len(life.medium.log)
    life.clock.now += GRACE
    assert len(log.prune()) == 16
    life.acknowledge(log.commit(lambda manifest: Change(next_seq=manifest.next_seq + 1)))
    assert survive(distinct(power_losses(life.medium, range(start, len(life.medium.log) + 1))), life) > 100


def test_random_power_losses() -> None:
    life = live(11, steps=40)
    assert survive(random_power_losses(life.medium, 1, 1), life) > 200


def test_kills() -> None:
    life = live(21, steps=20)
    assert survive(kills(life.medium), life) > 150


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_soak_power_losses(seed: int) -> None:
    life = live(seed, steps=100)
    assert survive(random_power_losses(life.medium, 5, seed), life) > 1000
    assert survive(distinct(power_losses(life.medium)), life) > 2000


class TestTheCatalogue:
    def live(self) -> tuple[RecordingMedium, Hand, list[dict[str, int]]]:
        """Create a store, then create, rename and drop; each mark says how many of the states were acknowledged."""
        medium, clock = RecordingMedium(), Hand()
        states: list[dict[str, int]] = [{}]
        catalogue = Catalogue.create(medium, clock=clock)
        medium.mark(1)

        def acknowledge(**streams: int) -> None:
            states.append(streams)
            medium.mark(len(states))

        catalogue.create_stream("a", SCHEMA, StreamOptions(leaf_rows=1))
        acknowledge(a=1)
        catalogue.create_stream("b", SCHEMA, StreamOptions(leaf_rows=2))
        acknowledge(a=1, b=2)
        catalogue.rename_stream("a", "c")
        acknowledge(c=1, b=2)
        catalogue.drop_stream("b")
        acknowledge(c=1)
        catalogue.create_stream("b", SCHEMA, StreamOptions(leaf_rows=3))
        acknowledge(c=1, b=3)
        clock.now += GRACE_SECONDS
        catalogue.sweep(clock.now)
        acknowledge(c=1, b=3)
        return medium, clock, states

    def survive(self, crashes: Iterable[Crash], clock: Hand, states: list[dict[str, int]]) -> int:
        count = 0
        for crash in crashes:
            count += 1
            medium = crash.medium()
            promised = max(crash.marks, default=0)
            if promised:
                Catalogue.open(medium, clock=clock)
            catalogue = Catalogue.create(medium, clock=clock)  # goes on where a creation was interrupted
            found = {entry.name: catalogue.manifests(entry).load().options.leaf_rows for entry in catalogue.streams()}
            assert found in states[max(0, promised - 1) : promised + 1], crash
            assert catalogue.check() == [], crash
            catalogue.create_stream("after", SCHEMA)
            catalogue.sweep(clock.now + ORPHAN_AGE)
            catalogue.sweep(clock.now + 2 * ORPHAN_AGE)
            assert set(found) | {"after"} == {entry.name for entry in catalogue.streams()}, crash
            assert catalogue.orphans() == [], crash
            assert catalogue.check() == [], crash
        return count

    def test_a_creation_finished_by_somebody_else(self) -> None:
        # The first commit is one whose names its maker could not sync; the marker must not become durable before it.
        medium, clock = RecordingMedium(), Hand()
        medium.inject("sync_names", name="catalogue")
        with pytest.raises(StorageError):
            Catalogue.create(medium, clock=clock)
        Catalogue.create(medium, clock=clock)
        medium.mark(1)
        assert self.survive(power_losses(medium), clock, [{}]) > 20

    def test_power_losses(self) -> None:
        medium, clock, states = self.live()
        assert self.survive(distinct(power_losses(medium)), clock, states) > 200

    def test_kills(self) -> None:
        medium, clock, states = self.live()
        assert self.survive(kills(medium), clock, states) > 80


class TestTheCampaignCanFail:
    """Commits that cheat must be found out, else passing means nothing."""

    def test_a_name_that_was_not_synced_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RecordingMedium, "sync_names", lambda self, directory="": None)
            life = live(0, steps=5)
        with pytest.raises((AssertionError, NotFoundError)):
            survive(power_losses(life.medium), life)

    def test_content_that_was_not_synced_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("support.media.memory._MemoryFile.sync", lambda self: None)
            life = live(0, steps=5)
        with pytest.raises(Exception, match="damaged"):
            survive(power_losses(life.medium), life)
