"""Compiling all kernels ahead of their use, on all processors: what ``tidelog warm`` does."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from tidelog.lazy import kernel_modules, kernels_of

Told = Callable[[int, int], None]
"""Told how many kernels are ready, of how many."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What was done."""

    kernels: int
    compiled: int
    """Those that were not in the cache."""
    directory: str | None
    """Where they are; None if no directory can be written, and all was for nothing."""
    seconds: float


def warm(told: Told = lambda ready, of: None, processes: int | None = None) -> Warmed:
    """Compile every kernel that is not in the cache, in so many processes; by default one for each processor."""
    from tidelog import jit

    started = time.perf_counter()
    # Which ones there are is known without compiling any; each is a task of its own, for they take from 0.1 to 10 s.
    tasks = [(module, name) for module in kernel_modules() for name in kernels_of(module)]
    compiled = 0
    # By spawn: a forked child would inherit the state of a compiler that another thread may be using.
    with ProcessPoolExecutor(processes or os.cpu_count(), multiprocessing.get_context("spawn"), _begin) as pool:
        waiting = [pool.submit(load_one, *task) for task in tasks]
        for ready, done in enumerate(as_completed(waiting), 1):
            compiled += done.result()
            told(ready, len(tasks))
    return Warmed(len(tasks), compiled, jit.cache_directory(), time.perf_counter() - started)


def _begin() -> None:
    """One process speaks for all."""
    os.environ["TIDELOG_QUIET"] = "1"


def load_one(module: str, name: str) -> int:
    """Load a kernel; 1 if that took compiling it, 0 if it was in the cache."""
    from tidelog import jit

    before = jit.compiled_here()
    load = kernels_of(module).get(name)
    if load is not None:
        load()
    return int(jit.compiled_here() > before)
