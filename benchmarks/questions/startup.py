"""How long until tidelog can work: its import, its kernels compiled, its kernels from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from formats import ours
from harness import Bench, Bound, Comparison, Figures, Question, Sample, measure

_CHILDREN = Path(__file__).parent.parent / "children"

_IMPORT = "import time; start = time.perf_counter(); import tidelog; print(time.perf_counter() - start)"


def ask(bench: Bench, import_limit: float, compile_limit: float, cached_limit: float) -> None:
    """Time fresh processes.

    Compiling is left out of quick runs, where it alone could take their minute; they use the user's own cache.
    """
    if ours.Tidelog().unavailable() is not None:
        return
    _answer(bench, "import tidelog", "seconds", _repeat(bench, "import", lambda: _child("-c", _IMPORT)), import_limit)
    cache = None
    if not bench.quick:
        # A fresh directory for each run; the last one serves as the warm cache below.
        caches = iter([bench.workspace.fresh() for _ in range(bench.repetitions + 1)])

        def compile_anew() -> float:
            nonlocal cache
            cache = next(caches)
            return _first_events(cache)

        runs = _repeat(bench, "compile all kernels", compile_anew)
        _answer(bench, "kernels compiled", "seconds to first events, empty cache", runs, compile_limit)
    runs = _repeat(bench, "load kernels", lambda: _first_events(cache))
    _answer(bench, "kernels from cache", "seconds to first events", runs, cached_limit)


def _repeat(bench: Bench, title: str, work: Callable[[], float]) -> list[tuple[float, Sample]]:
    runs = []
    for repetition in range(-1, bench.repetitions):
        bench.on_progress(f"{title}: {repetition + 1} of {bench.repetitions}")
        run = measure(work)
        if repetition >= 0:
            runs.append(run)
    return runs


def _answer(bench: Bench, name: str, unit: str, runs: list[tuple[float, Sample]], limit: float) -> None:
    seconds = tuple(value for value, _ in runs)
    samples = tuple(sample for _, sample in runs)
    comparison = Comparison("limit", (), Bound(limit, limit))
    bench.answer(Question(name, unit, 0, Figures(seconds, samples), {}, [comparison], higher_is_better=False))


def _first_events(cache: Path | None) -> float:
    return _child(str(_CHILDREN / "first_events.py"), cache=cache)


def _child(*arguments: str, cache: Path | None = None) -> float:
    """Run Python with these arguments; it prints how many seconds it measured."""
    environment = {**os.environ, "PYTHONPATH": str(_CHILDREN.parent)}
    if cache is not None:
        environment["TIDELOG_CACHE_DIR"] = str(cache)
    done = subprocess.run([sys.executable, *arguments], check=True, env=environment, capture_output=True, text=True)
    return float(done.stdout)
