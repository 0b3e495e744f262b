"""The process's threads for encoding and decoding.

Kernels release the GIL, so a few threads are enough; they are shared by every container, because more threads than
cores only compete for caches. A forked child starts with none and gets its own on first use.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

_T = TypeVar("_T")

THREADS = max(1, min(4, os.cpu_count() or 1))

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def submit(job: Callable[[], _T]) -> Future[_T]:
    """Run a job on one of the threads. Jobs must not wait for other jobs.

    When Python ends, its threads end first: what is stored then is encoded here, at once.
    """
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tidelog-worker")
        with suppress(RuntimeError):  # there are no threads any more, or no more threads
            return _pool.submit(job)
    done = Future[_T]()
    try:
        done.set_result(job())
    except BaseException as error:
        done.set_exception(error)
    return done


def in_order(jobs: Iterable[Callable[[], _T]], ahead: int) -> Iterator[_T]:
    """Results of jobs in their order, while up to ``ahead`` further ones run; stops them when abandoned.

    A single job runs on the calling thread: there is nothing to do beside it, and handing it over takes longer than a
    small one does.
    """
    rest = iter(jobs)
    first = list(islice(rest, 2))
    if len(first) < 2:
        for job in first:
            yield job()
        return
    running: deque[Future[_T]] = deque()
    try:
        for job in chain(first, rest):
            running.append(submit(job))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def together(jobs: Sequence[Callable[[], _T]]) -> list[_T]:
    """The results of a few jobs, in their order: all run at once, the last one on the calling thread."""
    running = [submit(job) for job in jobs[:-1]]
    try:
        last = [job() for job in jobs[-1:]]
        return [future.result() for future in running] + last
    finally:
        for future in running:
            future.cancel()


def _forget() -> None:
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
