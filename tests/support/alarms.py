"""Interrupts of a main thread that waits, as they come once a library handles signals by itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(BaseException):
    """What the interrupt raises."""


@contextmanager
def an_interrupt(seconds: float = 0.05) -> Iterator[None]:
    """One that the system goes on with a wait after, as it does after ``import polars``.

    On a busy machine it comes before the wait begins: whoever expects it does so around this, not inside.
    """

    def raised(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, raised)
    signal.siginterrupt(signal.SIGALRM, False)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
