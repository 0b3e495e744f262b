"""Crashes of a container's writer at every point, with every legal loss of what was not synced.

Whatever happens: opening succeeds, nothing that a flush acknowledged is missing or different, what is there is a
state the writer passed through, every structure checks clean, and writing goes on.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Iterable

import pytest

from support.media.crash import Crash, RecordingMedium, distinct, kills, power_losses, random_power_losses
from support.media.operations import Mark
from support.storage.containers import (
    NAME,
    SCHEMA,
    TINY,
    Expected,
    History,
    assert_holds,
    assert_scans,
    batch,
    reopened,
)
from tidelog.model.errors import NotFoundError, StorageError, TidelogError
from tidelog.storage import Container, ContainerReader, Options

BACKGROUND = Options(leaf_rows=8, run_rows=16, macro_size=8192, fanout=3, commit_every=12_000)
"""With commits in the background, whose syncs race with the writer."""


def marks_of(medium: RecordingMedium) -> list[int]:
    """The commits that flushes acknowledged."""
    return [operation.value for operation in medium.log if isinstance(operation, Mark)]


def survive(crash: Crash, expected: Expected, options: Options = TINY, *, thorough: bool = True) -> int:
    """Open what the crash left, compare it with the model, and go on writing; returns the commit found."""
    medium = crash.medium()
    if not crash.marks and not medium.exists(NAME):
        Container.create(medium, NAME, SCHEMA, options).close()  # nothing was promised, and nothing is in the way
        return 0
    acknowledged = crash.marks[-1] if crash.marks else 0
    with ContainerReader.open(medium, NAME) as reader:
        assert reader.commit.number >= acknowledged, crash
        assert_scans(reader, expected.at(reader.commit))
    with reopened(medium, options) as container:
        commit = container.recovery.commit
        assert commit.number >= acknowledged, crash
        blocks = expected.at(commit)
        assert_scans(container, blocks)
        assert container.snapshot().check() == [], crash
        if not thorough:
            return commit.number
        assert_holds(container, blocks)
        more = batch(random.Random(crash.position), 5)
        container.append(more)
        container.flush()
        assert_holds(container.snapshot(), [*blocks, more])
    with reopened(medium, options) as container:
        assert container.recovery.is_clean
        assert_holds(container, [*blocks, more])
        assert container.snapshot().check() == []
    return commit.number


def survive_all(crashes: Iterable[Crash], expected: Expected, options: Options = TINY) -> Counter[int]:
    """Survive every crash, looking at every eighth most thoroughly; returns how often each commit was found."""
    return Counter(survive(crash, expected, options, thorough=index % 8 == 0) for index, crash in enumerate(crashes))


@pytest.mark.parametrize("seed", range(2))
def test_power_loss_everywhere_with_the_nastiest_states(seed: int) -> None:
    medium = RecordingMedium()
    expected = History(medium, seed).run(13)
    found = survive_all(distinct(power_losses(medium, singles=4)), expected)
    assert found.total() > 200
    assert len(found) > 4, "crashes led back to many different commits"


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_in_random_states(seed: int) -> None:
    medium = RecordingMedium()
    expected = History(medium, 100 + seed).run(25)
    assert survive_all(distinct(random_power_losses(medium, 8, seed)), expected).total() > 150


def test_power_loss_with_commits_in_the_background() -> None:
    medium = RecordingMedium()
    expected = History(medium, 7, BACKGROUND).run(40)
    found = survive_all(distinct(random_power_losses(medium, 4, 7)), expected, BACKGROUND)
    assert set(found) - set(marks_of(medium)), "some crashes led back to a commit made in the background"


def test_process_killed_everywhere_then_power_lost_during_recovery() -> None:
    """A killed writer leaves bytes that can be read but are not durable; recovery must not build on them unsynced."""
    medium = RecordingMedium()
    expected = History(medium, 42).run(12)
    for index, crash in enumerate(kills(medium)):
        survive(crash, expected, thorough=index % 8 == 0)
        survivor = crash.medium()
        if not survivor.exists(NAME):
            continue
        with reopened(survivor) as container:
            promised = container.recovery.commit
        survivor.mark(promised.number)
        recovery_began = len(crash.log)
        positions = range(recovery_began, len(survivor.log) + 1)
        for second in random_power_losses(survivor, 2, 1, positions):
            state = second.medium()
            if not second.marks and not state.exists(NAME):
                continue
            with reopened(state) as container:
                assert container.recovery.commit.number >= (second.marks[-1] if second.marks else 0), second
                assert_scans(container, expected.at(container.recovery.commit))


@pytest.mark.parametrize("kind", ["write", "sync", "create", "link", "sync_names"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_operation_is_reported_and_loses_nothing_acknowledged(kind: str, code: int) -> None:
    fired = 0
    for number in range(1, 40):
        medium = RecordingMedium()
        fault = medium.inject(kind, number, errno=code, keep=100)
        history = None
        try:
            history = History(medium, 5)
            history.run(10)
        except StorageError:
            fired += 1
            assert fault.fired
        else:
            assert not fault.fired
            break
        assert history is not None or number < 4 or kind not in ("write", "sync")
        if history is None:
            continue
        acknowledged = marks_of(medium)
        history.abandon()
        with reopened(medium) as container:
            commit = container.recovery.commit
            assert commit.number >= acknowledged[-1]
            assert_holds(container, history.expected.at(commit))
            assert container.snapshot().check() == []
    assert fired


def test_after_a_failure_the_container_refuses_to_go_on() -> None:
    medium = RecordingMedium()
    container = Container.create(medium, NAME, SCHEMA, TINY)
    container.append(batch(random.Random(1), 3))
    container.flush()
    medium.inject("sync", 1)
    container.append(batch(random.Random(2), 3))
    with pytest.raises(StorageError):
        container.flush()
    for action in (container.flush, container.snapshot, container.view, lambda: container.append(b"x")):
        with pytest.raises(TidelogError, match="close the container and open it again"):
            action()
    container.close()
    with reopened(medium) as again:
        assert again.blocks in (1, 2)
        assert again.snapshot().check() == []


def test_an_unfinished_creation_leaves_nothing_in_the_way() -> None:
    medium = RecordingMedium()
    Container.create(medium, NAME, SCHEMA, TINY).close()
    complete = 0
    for crash in power_losses(medium):
        state = crash.medium()
        if state.exists(NAME):
            reopened(state).close()
            complete += 1
        else:
            assert not crash.marks
            with pytest.raises(NotFoundError):
                reopened(state)
            Container.create(state, NAME, SCHEMA, TINY).close()
    assert complete


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_soak_power_loss(seed: int) -> None:
    medium = RecordingMedium()
    options = BACKGROUND if seed % 2 else TINY
    expected = History(medium, 1000 + seed, options).run(60)
    survive_all(random_power_losses(medium, 20, seed), expected, options)
    survive_all(power_losses(medium, singles=16), expected, options)
