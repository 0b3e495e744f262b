"""Crashes in the middle of everything: appends, late rows, merges, retention, cut levels, new schemas, aggregates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.media.crash import Crash, RecordingMedium, kills, power_losses, random_power_losses
from support.streams.history import NAME, PRODUCER, Append, last
from support.streams.mixed_history import KEPT, MixedHistory, Survivor, judge_all, load, table
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of


def lived(seed: int, steps: int, **options: object) -> tuple[RecordingMedium, MixedHistory]:
    medium = RecordingMedium()
    history = MixedHistory(medium, seed, options)
    history.run(steps)
    return medium, history


def survive(crash: Crash, appends: list[Append], *, thorough: bool) -> None:
    """Hold what a crash left to the promises, and go on with it."""
    if last(crash.marks, "created") is None:
        return
    medium = crash.medium()
    try:
        with Store(medium, read_only=True) as store:
            found = Survivor.of(store.stream(NAME))
            assert not thorough or store.check() == [], "found before any writer has come"
        judge_all(found, appends, crash.marks)
        go_on(medium, appends[: last(crash.marks, "begun") or 0], found, thorough=thorough)
    except Exception as error:
        raise AssertionError(f"{error!r} after {crash}") from error


def go_on(medium: RecordingMedium, appends: list[Append], found: Survivor, *, thorough: bool) -> None:
    """Send again what has numbers, append more, and do everything there is to do."""
    with Store(medium) as store:
        stream = store.stream(NAME)
        for append in appends:
            if append.number is not None:
                stream.append(table(stream, append.rows), producer=PRODUCER, number=append.number)
            elif append.job is not None:
                load(stream, append)
        now = Survivor.of(stream)
        assert set(found.rows) <= set(now.rows), "opening for writing lost rows"
        assert found.count <= now.count
        assert len({row.id for row in now.rows}) == len(now.rows), "an append that was sent again is there twice"
        more = [(9000 + index // 3, 1_000_000 + index) for index in range(20)]
        stream.append(table(stream, more))
        stream.flush()
        after = Survivor.of(stream)
        assert (after.count, after.total) == (now.count + 20, now.total + sum(id for _, id in more))
        with Store(medium, read_only=True) as other:
            assert Survivor.of(other.stream(NAME)) == after, "another reader sees something else"
        if not thorough:
            return
        stream.evolve(add={"more": stream.schema.arrow.field(0).type})
        stream.attach(f"last({stream.schema.names[1]})", "rebuild")
        stream.compact()
        changed = Survivor.of(stream)
        assert (changed.rows, changed.count, changed.total) == (after.rows, after.count, after.total)
        stream.coarsen(8000)
        changed = Survivor.of(stream)
        assert (changed.count, changed.total) == (after.count, after.total)
        stream.maintain()
        bound = writer_of(stream).manifests.load().deleted_before
        assert bound is None or bound <= more[-1][0] - KEPT
        assert store.check() == []
    with Store(medium) as store:
        assert set(more) <= {(row.time, row.id) for row in Survivor.of(store.stream(NAME)).rows}


def survive_all(crashes: Iterable[Crash], history: MixedHistory, *, every: int = 1) -> int:
    """Survive each ``every``-th crash, looking at every fourth of them thoroughly; returns how many."""
    count = 0
    for index, crash in enumerate(crashes):
        if index % every == 0:
            survive(crash, history.appends, thorough=count % 4 == 0)
            count += 1
    return count


EVERYTHING = ("compact", "retention", "coarsen", "evolve", "rebuild")


def test_power_loss_in_the_middle_of_everything() -> None:
    medium, history = lived(8, 60)
    assert all(history.done[what] for what in EVERYTHING), history.done
    assert survive_all(random_power_losses(medium, 1, 8), history, every=41) > 20


def test_killed_in_the_middle_of_everything() -> None:
    medium, history = lived(9, 60)
    assert all(history.done[what] for what in EVERYTHING), history.done
    assert survive_all(kills(medium), history, every=131) > 10


def test_the_nastiest_power_losses_in_the_middle_of_everything() -> None:
    medium, history = lived(1, 60, coarse_after=400)
    positions = range(100, len(medium.log), 37)
    assert survive_all(power_losses(medium, positions, singles=2), history, every=53) > 8


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 230))
def test_soak_crashes_in_the_middle_of_everything(seed: int) -> None:
    options: dict[str, object] = {"split": (200, None)[seed % 2], "coarse_after": (None, 400)[seed // 2 % 2]}
    medium, history = lived(seed, 70, **options)
    survive_all(random_power_losses(medium, 1, seed), history)
    survive_all(power_losses(medium, singles=2), history, every=7)
    survive_all(kills(medium), history, every=3)
