"""Clocks: wall time, own CPU time, what other processes used meanwhile, and peak private memory."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_KTHREADD = 2
"""Parent of all kernel threads."""


@dataclass(frozen=True)
class Sample:
    """One measured run of some work, in seconds."""

    wall: float
    cpu: float
    """CPU time of this process, all its threads, and the children it has waited for (or has: ``with_servants``)."""
    others: float
    """CPU time of other processes meanwhile; kernel threads (write-back) do not count."""
    steal: float
    """CPU time the hypervisor gave to other machines meanwhile."""
    loops: int = 1
    """How often the work was done; all times are of one of them."""

    @property
    def disturbed(self) -> bool:
        """Whether others took so much CPU that the wall time cannot be trusted.

        The system counts in ticks of 10 ms on every CPU, so a few ticks mean nothing.
        """
        return (self.others + self.steal) * self.loops > 0.04 + 0.1 * self.wall * self.loops


def measure(work: Callable[[], T], loops: int = 1) -> tuple[T, Sample]:
    """Do ``work`` (``loops`` times, one after the other); return its last result and the times of one run."""
    own, busy, stolen = own_cpu_seconds(), _other_than_kernel_threads(), _steal_seconds()
    start = time.perf_counter()
    for _ in range(loops - 1):
        work()
    result = work()
    wall = time.perf_counter() - start
    own = own_cpu_seconds() - own
    busy = _other_than_kernel_threads() - busy
    stolen = _steal_seconds() - stolen
    others = max(0.0, busy - own)
    return result, Sample(wall / loops, own / loops, others / loops, stolen / loops, loops)


def own_cpu_seconds() -> float:
    """CPU time of this process, all its threads, and the children it has waited for; see also :func:`with_servants`."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    at_work = _descendants_seconds() if _servants_count else 0.0
    return time.process_time() + children.ru_utime + children.ru_stime + at_work


_servants_count = False


@contextmanager
def with_servants() -> Iterator[None]:
    """While the block runs, what processes below this one do is its own work, though they go on after a measurement.

    For contestants that have others work for them, as Spark does. Their time is counted in ticks.
    """
    global _servants_count
    before, _servants_count = _servants_count, True
    try:
        yield
    finally:
        _servants_count = before


def _cpu_line() -> list[int]:
    with open("/proc/stat") as stat:
        return [int(field) for field in stat.readline().split()[1:]]


def _steal_seconds() -> float:
    return _cpu_line()[7] * _TICK


def _other_than_kernel_threads() -> float:
    """CPU seconds all user processes have used: everything the CPUs did but for kernel threads."""
    user, nice, system, _, _, irq, softirq, *_ = _cpu_line()
    return (user + nice + system + irq + softirq) * _TICK - _kernel_thread_seconds()


def _kernel_thread_seconds() -> float:
    ticks = sum(user + system for parent, user, system, *_ in _processes().values() if parent == _KTHREADD)
    return ticks * _TICK


def _descendants_seconds() -> float:
    """CPU time of the processes below this one, and of those that they in turn have waited for."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for process, (parent, *_) in processes.items():
        children.setdefault(parent, []).append(process)
    ticks, below = 0, list(children.get(os.getpid(), ()))
    while below:
        process = below.pop()
        ticks += sum(processes[process][1:])
        below.extend(children.get(process, ()))
    return ticks * _TICK


def _processes() -> dict[int, tuple[int, int, int, int, int]]:
    """Of every process its parent, and its user and system time and those of the children it waited for, in ticks."""
    found = {}
    for process in os.listdir("/proc"):
        if not process.isdigit():
            continue
        try:
            with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
                stat = file.read()
        except OSError:  # it ended while we looked
            continue
        # The name, in parentheses, may itself hold blanks and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split(maxsplit=15)
        found[int(process)] = (int(fields[1]), *map(int, fields[11:15]))
    return found


@contextmanager
def peak_private_memory(interval: float = 0.005) -> Iterator[Callable[[], int]]:
    """Watch this process's private memory (RssAnon) while the block runs.

    Yields a function that tells by how many bytes it rose, at its peak, over what it was at the start. A thread looks
    every ``interval`` seconds, so do not time work under it.
    """
    start = private_memory()
    peak = start
    over = threading.Event()

    def look() -> int:
        nonlocal peak
        peak = max(peak, private_memory())
        return peak - start

    def watch() -> None:
        while not over.wait(interval):
            look()

    watcher = threading.Thread(target=watch, name="memory-watch", daemon=True)
    watcher.start()
    try:
        yield look
    finally:
        over.set()
        watcher.join()


def private_memory(process: int | str = "self") -> int:
    """Bytes of anonymous memory resident for a process: mapped files and shared pages do not count."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{process}/status has no RssAnon line: a Linux kernel of 4.5 or newer is needed")
