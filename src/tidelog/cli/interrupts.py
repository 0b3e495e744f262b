"""Signals that ask a command to stop: as exceptions, and held back until what is being done is done."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

ASKS_TO_STOP: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, what ``kill`` and service managers send, and a terminal that was closed."""


class StoppedError(KeyboardInterrupt):
    """A command was asked to stop by a signal other than Ctrl-C's; whoever cares for interrupts cares for it too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Inside, :class:`StoppedError` is raised where a signal would have ended the process on the spot.

    Signals that somebody cares for, or ignores (``nohup``), are left alone. Only the main thread gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    changed = [number for number in ASKS_TO_STOP if signal.getsignal(number) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, _stop)
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    _told.append(told)
    try:
        yield
    finally:
        _told.remove(told)
        signal.set_wakeup_fd(before)
        os.close(told)
        os.close(tell)
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


_told: list[int] = []
"""Descriptors that can be read as soon as a signal has come, whatever the main thread does; the last one counts."""


def wait_to_read(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor can be read from; False if that takes too long, or a signal asks to stop.

    For threads that read for a main thread that waits for them in foreign code, where Python tells it of no signal.
    """
    ready, _, _ = select.select([descriptor, *_told[-1:]], [], [], seconds)
    return descriptor in ready and not (_told and _told[-1] in ready)


def is_asked_to_stop() -> bool:
    """Whether a signal has come since :func:`signals_raised` began; it has, or will have, become an exception."""
    return bool(_told) and bool(select.select([_told[-1]], [], [], 0)[0])


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back signals that ask to stop until the end of the block, where the first one does what it would have done.

    For work that must not stop half-way. Only the main thread gets signals, so elsewhere there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    for number in ASKS_TO_STOP:
        handler = signal.getsignal(number)
        if callable(handler):
            usual[number] = handler
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)

    for number in usual:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        if came:
            first = signal.Signals(came[0])
            usual[first](first, None)


def _stop(number: int, frame: FrameType | None) -> None:
    raise StoppedError(number)
