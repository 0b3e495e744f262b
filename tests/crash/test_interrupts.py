"""Whatever raises, whenever: a change is whole or given up, what was acknowledged stays, and what is lost is told."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from support.interrupts import Alarm, Boundaries
from support.streams.interrupted import OPERATIONS, Operation, World
from tidelog.model.errors import ClosedError, StorageError

# What is raised while a generator is closed, or something else is given up, reaches nobody.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ERRORS: tuple[type[BaseException], ...] = (KeyboardInterrupt, MemoryError, OSError)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A store with some splits, late rows and a journal, closed."""
    world = World(tmp_path_factory.mktemp("template") / "store")
    world.append_table(500)
    world.flush()
    world.append_table(100, late=200)
    world.append_dicts()
    world.close()
    return world


def boundaries(template: World, path: Path, name: str) -> list[int]:
    """The boundaries that an operation passes, those of the same place left out but for the first and the last time."""
    world, operation = prepared(template, path, name)
    with Boundaries.noted() as passed:
        operation(world)
    world.close()
    shutil.rmtree(path)
    return passed.distinct()


def prepared(template: World, path: Path, name: str) -> tuple[World, Operation]:
    world = template.copied(path)
    before, operation = OPERATIONS[name]
    for each in before:
        each(world)
    return world, operation


def interrupted(template: World, path: Path, name: str, error: type[BaseException], at: int) -> str:
    """Raise at a boundary of an operation, and judge what is left; returns where it was."""
    world, operation = prepared(template, path, name)
    with suppress(error, StorageError, ClosedError), Boundaries(error("injected"), at) as reached:
        operation(world)
    reached.forget()
    try:
        world.survive(asks=at % 3 != 0, reopens=at % 2 == 0)
    except BaseException as found:
        found.add_note(f"{error.__name__} at boundary {at} of {name}: {reached.where}")
        raise
    world.close()
    shutil.rmtree(path)
    return reached.where


def interrupt_at_some(template: World, path: Path, name: str, first: int, step: int) -> int:
    """Raise at every so many of the boundaries, one error after the other; returns how many these were."""
    places = boundaries(template, path / "counted", name)
    assert len(places) > 100
    chosen = places[first::step]
    for index, at in enumerate(chosen):
        interrupted(template, path / "store", name, ERRORS[index % len(ERRORS)], at)
    return len(chosen)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_at_some_boundaries(template: World, tmp_path: Path, name: str) -> None:
    count = len(boundaries(template, tmp_path / "counted", name))
    assert interrupt_at_some(template, tmp_path, name, count // 12, max(1, count // 6)) >= 6


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_at_every_boundary(template: World, tmp_path: Path, name: str, part: int) -> None:
    assert interrupt_at_some(template, tmp_path, name, part, 10) > 10


def interrupt_at_random(tmp_path: Path, seed: int, interrupts: int) -> int:
    """Do anything while interrupts come in, up to three before somebody looks; returns how many there were."""
    alarm = Alarm(seed)
    world = World(tmp_path / "store", seed)
    draw = world.random
    rounds = 0
    operations = [operation for _, operation in OPERATIONS.values()]
    while alarm.fired < interrupts:
        rounds += 1
        if rounds % 40 == 0:  # so that it stays small
            world.close()
            shutil.rmtree(world.path)
            world = World(world.path, seed + rounds)
        for _ in range(draw.randrange(1, 4)):
            with suppress(KeyboardInterrupt, StorageError, ClosedError), alarm.ringing(draw.choice((0.002, 0.02, 0.1))):
                fired = alarm.fired
                while alarm.fired == fired:  # it may have rung where what is raised reaches nobody
                    operation = draw.choice(operations)
                    operation(world)
                    if operation is World.close:
                        world.open()
        world.survive(asks=draw.random() < 0.5, reopens=draw.random() < 0.5)
    world.close()
    return alarm.fired


def test_interrupts_at_random(tmp_path: Path) -> None:
    assert interrupt_at_random(tmp_path, seed=1, interrupts=60) >= 60


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_thousands_of_interrupts(tmp_path: Path, seed: int) -> None:
    assert interrupt_at_random(tmp_path, seed=100 + seed, interrupts=500) >= 500
