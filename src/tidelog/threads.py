"""The process's threads: the few that encode and decode, and others that wait for the disk.

Everything here bears an interrupt at any moment. Locks of :mod:`threading` and :mod:`concurrent.futures` that are
written in Python do not: an exception inside of them leaves them held, and whoever comes next waits for ever. So work
is handed over by a queue, and results by a lock, of C.
"""

from __future__ import annotations

import _thread
import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

_T = TypeVar("_T")
_Item = TypeVar("_Item")

THREADS: Final = max(1, min(4, os.cpu_count() or 1))
"""Threads that encode and decode. They are shared by all files, since more threads than cores compete for caches."""

AT_ONCE: Final = 8
"""Streams that are worked on at once. Syncs that come together share a commit of the file system's journal."""

NOTICE: Final = 0.1
"""Seconds after which an interrupt is noticed at the latest.

Libraries that handle signals themselves have the system go on with a wait that one disturbs: after ``import polars``
a wait without an end is not left by Ctrl-C.
"""


class Task(Generic[_T]):
    """A job that another thread does, and what came of it."""

    __slots__ = ("_ending", "_error", "_job", "_process", "_result", "_thread", "is_done")

    def __init__(self, job: Callable[[], _T]) -> None:
        self._job: Callable[[], _T] | None = job
        self._result: _T | None = None
        self._error: BaseException | None = None
        self._process = _process
        self._thread: int | None = None
        self._ending = _thread.allocate_lock()
        self._ending.acquire()
        self.is_done = False
        """Whether it is over, for better or worse."""

    def run(self) -> None:
        """Do the job, in this thread; once, and raises nothing."""
        self._thread = _thread.get_ident()
        job, self._job = self._job, None
        try:
            if job is not None:
                self._result = job()
        except BaseException as error:
            self._error = error
        finally:
            self.is_done = True
            self._ending.release()
            del self, job  # an error's traceback has this frame: no cycle

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the one that does it."""
        return self._thread == _thread.get_ident() and not self.is_done

    @property
    def has_failed(self) -> bool:
        """Whether it is over, for worse."""
        return self._error is not None

    def cancel(self) -> None:
        """Leave the job undone unless it has begun; nobody asks for its result afterwards."""
        self._job = None

    def wait(self, seconds: float | None = None) -> bool:
        """Return when it is over, or so many seconds are: whether it is over.

        At once in a process that was forked meanwhile, where nobody does it.
        """
        until = inf if seconds is None else time.monotonic() + seconds
        while not self.is_done and self._process is _process:
            left = max(0.0, until - time.monotonic())
            if self._ending.acquire(timeout=min(left, NOTICE)):
                self._ending.release()  # for others who wait; whoever comes later sees that it is done
            elif not left:
                break
        return self.is_done

    def result(self) -> _T:
        """What the job has returned, when it is over. Raises what it has raised."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # as in `run`
        if not self.is_done:
            raise RuntimeError("this process was forked while a thread of its parent was at work for it")
        return self._result  # type: ignore[return-value]


class Threads:
    """Up to so many threads that do jobs in the order in which they came. Started as they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = _thread.allocate_lock()
        self._jobs: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._running: list[Task[None]] = []
        self._is_over = False

    def submit(self, job: Callable[[], _T]) -> Task[_T]:
        """Have a job done. Jobs must not wait for others that came later.

        Where there can be no thread, or none any more, it is done here and now.
        """
        task = Task(job)
        with self._mutex:
            if self._has_threads():
                self._jobs.put(task)
                return task
        task.run()
        return task

    def _has_threads(self) -> bool:
        if not self._is_over and len(self._running) < self._most:
            try:
                self._running.append(start(self._work))
            except RuntimeError:  # the system has no more
                return bool(self._running)
        return not self._is_over

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            task.run()
            del task  # it would stay in memory, with its result, until the next one comes
        self._jobs.put(None)  # for the next thread

    def end(self) -> None:
        """Have the threads end when everything that was submitted is done, and wait for that."""
        with self._mutex:
            self._is_over = True
        self._jobs.put(None)
        for thread in self._running:
            thread.wait()


def taken(queue: SimpleQueue[_T]) -> _T:
    """The next item of a queue, however long that takes."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=NOTICE)


class Flag:
    """Is set once, and stays so; one thread may wait for that."""

    def __init__(self) -> None:
        self.is_set = False
        self._news: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """From now on."""
        self.is_set = True
        self._news.put(None)

    def wait(self, seconds: float) -> bool:
        """Return when it is set, or so many seconds are over: whether it is set."""
        if not self.is_set:
            with suppress(Empty):
                self._news.get(timeout=seconds)
        return self.is_set


def start(job: Callable[[], _T]) -> Task[_T]:
    """Have a job done by a thread of its own. Raises :class:`RuntimeError` if the system has none."""
    task = Task(job)
    _thread.start_new_thread(task.run, ())
    return task


_process = object()
"""Another one in each process, as are the threads."""
_shared = Threads(THREADS)
_beside_main = Threads(1)


def beside_main(job: Callable[[], _T]) -> Task[_T]:
    """Have a job done by the thread that works while the main thread waits for nothing else, and for interrupts.

    It is one thread that stays: what libraries keep for each thread, memory first of all, they make once.
    """
    return _beside_main.submit(job)


def submit(job: Callable[[], _T]) -> Task[_T]:
    """Have one of the shared threads do a job. Jobs must not wait for other jobs."""
    return _shared.submit(job)


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
    running: deque[Task[_T]] = deque()
    try:
        for job in chain(first, rest):
            running.append(submit(job))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for task in running:
            task.cancel()


def together(jobs: Sequence[Callable[[], _T]]) -> list[_T]:
    """The results of a few jobs, in their order: all run at once, the last one on the calling thread."""
    running = [submit(job) for job in jobs[:-1]]
    try:
        last = [job() for job in jobs[-1:]]
        return [task.result() for task in running] + last
    finally:
        for task in running:
            task.cancel()


def at_once(work: Callable[[_Item], _T], items: Iterable[_Item]) -> list[_T]:
    """The results of some work for each item, in their order; the first error, by that order, is raised at the end.

    For what is mostly waiting for the disk. Items must not depend on each other. When this returns or raises, nothing
    is still being worked on: every item was tried, or, where an error came before, may have been left out.
    """
    waiting = list(items)
    if len(waiting) < 2:
        return [work(item) for item in waiting]
    threads = Threads(min(AT_ONCE, len(waiting)))
    tasks: list[Task[_T]] = []
    try:
        tasks.extend(threads.submit(partial(work, item)) for item in waiting)
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        threads.end()


def _begin_anew() -> None:
    """In a forked child, which has none of its parent's threads."""
    global _process, _shared, _beside_main
    _process, _shared, _beside_main = object(), Threads(THREADS), Threads(1)


# Stores that are still open are closed at exit, later registered and so before this. A thread that is at work while
# the interpreter is taken down would be ended in the middle of C++.
atexit.register(lambda: _shared.end())
atexit.register(lambda: _beside_main.end())
os.register_at_fork(after_in_child=_begin_anew)

__all__ = [
    "AT_ONCE",
    "NOTICE",
    "THREADS",
    "Flag",
    "Task",
    "Threads",
    "at_once",
    "beside_main",
    "in_order",
    "start",
    "submit",
    "taken",
    "together",
]
