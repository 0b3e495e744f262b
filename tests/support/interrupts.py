"""Exceptions at chosen moments: at every call boundary of the package, one after the other, or whenever a timer ends.

A boundary is where the interpreter lets an interrupt in, and a little more: the beginning and the end of every function
of the package, and the end of every function of C that it calls. So it is in what Python's own library has written in
Python for threads.
"""

from __future__ import annotations

import concurrent.futures
import queue
import random
import signal
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tidelog

_ROOTS = (
    str(Path(tidelog.__file__).parent),
    threading.__file__,
    queue.__file__,
    str(Path(concurrent.futures.__file__).parent),
)
_SPARED = ("__del__", "note_loss")
"""What destructors raise reaches nobody; the other one is the test's own."""


class Boundaries:
    """Counts the boundaries that a block of statements passes in this thread, and raises at one of them."""

    def __init__(self, error: BaseException | None = None, at: int = -1) -> None:
        self._error = error
        self._at = at
        self._deleting = 0
        self.passed = 0
        self.where = ""
        """Where it was raised."""
        self._places: dict[Hashable, list[int]] | None = None

    @classmethod
    def noted(cls) -> Boundaries:
        """Counts only, and notes which ones are at the same place: :meth:`distinct`."""
        boundaries = cls()
        boundaries._places = {}
        return boundaries

    def distinct(self) -> list[int]:
        """The first and the last time that each place was passed, as numbers from 1 on; a place is a stack of calls."""
        assert self._places is not None
        return sorted({time for times in self._places.values() for time in (times[0], times[-1])})

    def __enter__(self) -> Boundaries:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def forget(self) -> None:
        """Let go of what was raised: its traceback has the frames it came through, and these whatever they return."""
        self._error = None

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return", "c_return") or not frame.f_code.co_filename.startswith(_ROOTS):
            return
        if frame.f_code.co_name == "__del__":  # whose exceptions reach nobody
            self._deleting += {"call": 1, "return": -1}.get(event, 0)
            return
        if self._deleting:
            return
        self.passed += 1
        if self._places is not None:
            self._places.setdefault((event, *_stack(frame)), []).append(self.passed)
        if self.passed == self._at:
            self.where = f"{event} {frame.f_code.co_qualname} {getattr(argument, '__name__', '')}"
            assert self._error is not None
            del (
                argument,
                frame,
            )  # the traceback, which the error keeps, has what is here: nobody else would keep a result
            raise self._error


def _stack(frame: FrameType | None) -> Iterator[tuple[object, int]]:
    while frame is not None and frame.f_code.co_filename.startswith(_ROOTS):
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def assert_interrupted(work: Callable[[], object], after: float) -> None:
    """Do some work that has no end, in the main thread, and interrupt it after so many seconds.

    However slow the threads are, the interrupt comes where it is expected.
    """
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(after, signal.pthread_kill, (main, signal.SIGINT))

    def both() -> None:
        timer.start()
        work()

    with pytest.raises(KeyboardInterrupt):
        both()
    timer.join()


class Alarm:
    """Raises :class:`KeyboardInterrupt` in the main thread, at random moments of a block of statements."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._is_on = False
        self.fired = 0

    def _ring(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_name in _SPARED:
                self.set(0.0001)
                return
            frame = frame.f_back
        if self._is_on:
            self.fired += 1
            raise KeyboardInterrupt

    def set(self, seconds: float) -> None:
        """Let it ring once, in so many seconds."""
        signal.setitimer(signal.ITIMER_REAL, seconds)

    @contextmanager
    def ringing(self, most: float) -> Iterator[None]:
        """It rings once, up to so many seconds from now."""
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            self._is_on = True
            self.set(max(1e-5, self._random.random() * most))
            yield
        finally:
            self._is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
