"""Races: the same work done by several contestants, interleaved, several times over."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.measuring import Sample, measure, peak_private_memory
from harness.workspace import Workspace, bytes_on_disk, sync_tree

SHORTEST_SECONDS = 0.1
"""Reading work shorter than this is done several times in a row, so that clock ticks are small against it."""


@dataclass(frozen=True)
class Case:
    """What one contestant does in a race."""

    name: str
    work: Callable[[Path], Any]
    """The timed work. It is given a directory: fresh and empty if the race writes, else the workspace."""
    before: Callable[[Path], None] | None = None
    """Prepares the directory before each run, untimed."""
    check: Callable[[Any], None] | None = None
    """Looks, untimed, at the result of the warm-up and raises if the work was not done rightly."""


@dataclass
class Outcome:
    """What came of one contestant's case."""

    samples: list[Sample] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Bytes on disk after each repetition of a writing race."""
    warm_up: Sample | None = None
    peak_memory: int = 0
    """By how many bytes private memory rose during the warm-up."""
    directory: Path | None = None
    """Where the files of the last repetition are, if the race keeps them."""


def race(
    cases: Sequence[Case],
    workspace: Workspace,
    repetitions: int,
    *,
    writes: bool = False,
    keep_last: bool = False,
    rehearsed: bool = True,
    shortest: float = SHORTEST_SECONDS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Run every case once to warm up and then ``repetitions`` times, all cases in each repetition.

    Each repetition starts with another case, so that nobody always follows the same one. If the race ``writes``, each
    run gets a fresh directory, its time includes making all of it durable, and it is removed afterwards
    (``keep_last``: but for the last repetition's). If it does not, each run goes on for ``shortest`` seconds or more
    and is preceded by an untimed one, unless it need not be ``rehearsed``: the work is done in other processes.
    """
    outcomes = {case.name: Outcome() for case in cases}
    loops = dict.fromkeys(outcomes, 1)
    with _contestants_settled():
        for repetition in range(-1, repetitions):
            turn = max(repetition, 0) % len(cases) if cases else 0
            for case in [*cases[turn:], *cases[:turn]]:
                warm_up = repetition < 0
                on_progress(f"{case.name}: {'warm-up' if warm_up else f'{repetition + 1} of {repetitions}'}")
                outcome = outcomes[case.name]
                directory = workspace.fresh() if writes else workspace.root
                if case.before is not None:
                    case.before(directory)
                work = _timed(case, directory, writes)
                with _no_collection():
                    if warm_up:
                        _warm_up(case, work, outcome)
                        loops[case.name] = _loops(outcome, writes, shortest)
                    else:
                        if rehearsed and not writes:
                            work()  # brings back the memory that allocators gave up while others ran
                        outcome.samples.append(measure(work, loops[case.name])[1])
                if writes:
                    if not warm_up:
                        outcome.sizes.append(bytes_on_disk(directory))
                    if keep_last and repetition == repetitions - 1:
                        outcome.directory = directory
                    else:
                        workspace.remove(directory)
    return outcomes


def _warm_up(case: Case, work: Callable[[], Any], outcome: Outcome) -> None:
    with peak_private_memory() as risen:
        result, sample = measure(work)
        outcome.peak_memory = risen()
    outcome.warm_up = sample
    if case.check is not None:
        case.check(result)


def _loops(outcome: Outcome, writes: bool, shortest: float) -> int:
    """How often the work is to be done in one repetition; writing can be done only once in a directory."""
    if writes or outcome.warm_up is None:
        return 1
    return max(1, math.ceil(shortest / max(outcome.warm_up.wall, 1e-6)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection in the block: it would be charged to whoever happens to run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _contestants_settled() -> Iterator[None]:
    """Take what the contestants have prepared out of collections: looking at millions of strings takes long."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _timed(case: Case, directory: Path, writes: bool) -> Callable[[], Any]:
    def work() -> Any:
        result = case.work(directory)
        if writes:
            sync_tree(directory)
        return result

    return work
