"""Compiles every kernel into the cache, so that processes started later only load them.

Modules are shared out over the processors: compiling is pure computation, a module at a time.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).resolve().parent.parent / "src"


def kernel_modules() -> list[str]:
    """Names of all modules that hold kernels."""
    files = sorted(SOURCE.rglob("kernels.py"))
    return [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]


def compile_module(name: str) -> float:
    """Import a module, which compiles its kernels or loads them from the cache; returns seconds taken.

    The packages around it are left empty: running them would import, and compile, the kernels that are another
    process's share. Kernels need nothing from there, since they take nothing from other modules.
    """
    started = time.perf_counter()
    packages = name.split(".")[:-1]
    for depth in range(1, len(packages) + 1):
        package = ModuleType(".".join(packages[:depth]))
        package.__path__ = [str(SOURCE.joinpath(*packages[:depth]))]
        sys.modules.setdefault(package.__name__, package)
    importlib.import_module(name)
    return time.perf_counter() - started


def main() -> int:
    """Compile everything and say how long it took."""
    names = kernel_modules()
    started = time.perf_counter()
    # By spawn: a forked child would inherit the state of a compiler that another thread may be using.
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        seconds = dict(zip(names, pool.map(compile_module, names), strict=True))
    print(f"kernels of {len(names)} modules ready in {time.perf_counter() - started:.1f} s", end="")
    slowest = max(seconds, key=seconds.__getitem__, default=None)
    print(f" (slowest: {slowest} {seconds[slowest]:.1f} s)" if slowest else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
