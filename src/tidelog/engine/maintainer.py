"""The thread that keeps the streams of a store in order while it writes them."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, cast

from tidelog.engine.writer import StreamWriter
from tidelog.model.arguments import one_of
from tidelog.threads import Flag, Task, start

MaintenanceMode: TypeAlias = Literal["auto", "manual"]
MODES: Final = ("auto", "manual")

LOOK_EVERY: Final = 5.0
"""Seconds between two looks at what is due. A look at a stream that has not changed reads nothing."""

_AFTER_FAILURE: Final = 60.0
"""Seconds for which a stream is left alone after a failure."""

_NICENESS: Final = 10

_log = logging.getLogger("tidelog.maintenance")


def check_mode(mode: object) -> MaintenanceMode:
    """Return a mode of maintenance, or raise :class:`InputError`."""
    return cast(MaintenanceMode, one_of("maintenance", mode, MODES))


class Maintainer:
    """One thread for the streams that a store writes; ends by :meth:`stop`, or when the store is gone.

    It does one merge at a time, then rests for as long as that took, and has a lower priority where the system knows
    one for threads. A failure is logged, told by ``stats``, and never reaches those who write.
    """

    def __init__(self, streams: Callable[[], Sequence[StreamWriter]], *, every: float = LOOK_EVERY) -> None:
        """``streams`` tells which ones to look at; it must be a bound method, and is not kept alive."""
        self._streams = weakref.WeakMethod(streams)
        self._every = every
        self._over = Flag()
        self._thread: Task[None] | None = None
        self._mutex = threading.Lock()

    def start(self) -> None:
        """Begin, unless that was done before."""
        with self._mutex:
            if self._thread is None and not self._over.is_set:
                self._thread = start(self._run)
                # A store that was not closed: when the interpreter ends, so does a merge, before it is torn down.
                weakref.finalize(self, _end, self._over, self._thread)

    def stop(self) -> None:
        """End; a merge that is under way is given up."""
        self._over.set()
        with self._mutex:
            thread = self._thread
        if thread is not None:
            _end(self._over, thread)

    def _run(self) -> None:
        with suppress(AttributeError, OSError):  # Linux: of this thread alone
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        rest = self._every
        while not self._over.wait(rest):
            streams = self._streams()
            if streams is None:
                return
            began = time.monotonic()
            steps = [self._look_after(stream) for stream in streams()]
            del streams
            spent = time.monotonic() - began
            rest = max(spent, 0.01) if any(steps) else max(self._every, spent)

    def _look_after(self, stream: StreamWriter) -> bool:
        """Take a step for a stream; says whether there is more to do."""
        account = stream.account
        if time.monotonic() < account.paused_until or self._over.is_set:
            return False
        steps = iter((True,))
        try:
            done = stream.maintain_step(lambda: next(steps, False), lambda: self._over.is_set)
        except Exception as error:
            if self._over.is_set:
                return False
            account.last_failure = f"{type(error).__name__}: {error}"
            account.paused_until = time.monotonic() + _AFTER_FAILURE
            account.failures += 1  # whoever sees the number finds the rest
            _log.warning("maintenance of stream %r failed, and is tried again later: %s", stream.name, error)
            return False
        if done is None:
            return False
        account.merges += done.compacted.merges
        account.bytes_read += done.compacted.bytes_read
        account.files_removed += done.files_removed
        return done.compacted.merges > 0


def _end(over: Flag, thread: Task[None]) -> None:
    """Have a thread end, and wait for it."""
    over.set()
    if not thread.is_mine:
        thread.wait()
