"""A medium in memory that writes down every change, and fails or pauses where a test wants it to."""

from __future__ import annotations

import errno as codes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from support.media.memory import Failure, MemoryMedium, Snapshot
from support.media.operations import Mark, Operation


@dataclass
class Fault:
    """Lets operations of one kind fail; made by :meth:`RecordingMedium.inject`."""

    kind: str
    number: int
    errno: int
    keep: int
    lasting: bool
    name: str | None
    seen: int = 0
    fired: int = 0
    """How many operations it has failed so far; a test should check that it is not zero."""


class RecordingMedium(MemoryMedium):
    """See :mod:`support.media.crash` for how to use it."""

    def __init__(self, start: Snapshot | None = None) -> None:
        super().__init__(start)
        self.baseline = start if start is not None else Snapshot()
        """What was on disk, durably, before the first operation of the log."""
        self.log: list[Operation] = []
        self.counts: Counter[str] = Counter()
        """How many operations of each kind were attempted."""
        self.before: Callable[[str, str], None] | None = None
        """Called with kind and name before each operation, without any lock held: it may block or raise."""
        self._faults: list[Fault] = []

    @classmethod
    def resume(cls, baseline: Snapshot, log: Sequence[Operation], now: Snapshot) -> RecordingMedium:
        """A medium whose files read as in ``now`` because of the operations in ``log`` since ``baseline``."""
        medium = cls(now)
        medium.baseline = baseline
        medium.log = list(log)
        return medium

    def mark(self, value: Any) -> None:
        """Put a remark in the log, for example what is acknowledged from here on; crashes list those before them."""
        with self._mutex:
            self._record(Mark(value))

    def inject(
        self,
        kind: str,
        number: int = 1,
        *,
        errno: int = codes.EIO,
        keep: int = 0,
        lasting: bool = False,
        name: str | None = None,
    ) -> Fault:
        """Let the ``number``-th operation of a kind from now on fail with ``errno``; if ``lasting``, all later too.

        Kinds: ``create``, ``write``, ``truncate``, ``sync``, ``link``, ``remove``, ``sync_names``,
        ``make_directory``. A failing write still writes its first ``keep`` bytes; other failing operations change
        nothing. ``name`` restricts it to one file (for ``link`` the target).
        """
        fault = Fault(kind, number, errno, keep, lasting, name)
        with self._mutex:
            self._faults.append(fault)
        return fault

    def _begin(self, kind: str, name: str) -> Failure | None:
        if self.before is not None:
            self.before(kind, name)
        with self._mutex:
            self.counts[kind] += 1
            failure = None
            for fault in self._faults:
                if fault.kind == kind and fault.name in (None, name):
                    fault.seen += 1
                    if fault.seen == fault.number or (fault.lasting and fault.seen > fault.number):
                        fault.fired += 1
                        failure = Failure(fault.errno, fault.keep)
            return failure

    def _record(self, operation: Operation) -> None:
        self.log.append(operation)

    def _position(self) -> int:
        return len(self.log)
