"""Crashes without crashing: record what a writer does, then look at every disk it could have left behind.

Use::

    medium = RecordingMedium()
    writer = Something.create(medium, "name")
    writer.append(x); writer.flush()
    medium.mark(("durable", x))                       # from here on x must survive

    for crash in power_losses(medium):                # at every position of the log, the nastiest states
        survivor = Something.open(crash.medium(), "name")
        assert all(x in survivor for _, x in crash.marks), crash

* :func:`power_losses` enumerates, deterministically, the extreme states at every position;
  :func:`random_power_losses` samples any state, from a seed. What may be lost is described in
  :mod:`support.media.disk_states`; in short: whatever was not synced, in any combination, in part, and with the file
  longer or shorter than the data; and every name whose directory was not synced.
* :func:`kills` are ends of the process alone (kill -9): nothing done is lost, only a last write may be torn. The
  system lives on, so what was not synced is *still* pending on the medium of such a crash: recover on it, and ask
  it for its power losses, to find recoveries that trust bytes which are not durable.
* :attr:`Crash.marks` are the marks that the writer had made before; :meth:`Crash.medium` is a fresh
  :class:`RecordingMedium` each time, so crashes of recoveries are crashes of ``crash.medium()`` after the recovery ran.
* :meth:`RecordingMedium.inject` lets the k-th write, sync and so on fail; :attr:`RecordingMedium.before` is called
  before each operation and may wait for an event.

A file content is only computed when it is read, and pages are shared: a state costs some tens of microseconds.
Printing a crash says which operation had which fate. Crashes in the middle of an operation are those after
it in which it is pending, so positions between operations suffice.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from support.media.disk_states import Choice, Disk, DiskView, extreme_choices, random_choice, torn_outcomes
from support.media.operations import Mark, Operation, Write
from support.media.recording import Fault, RecordingMedium

__all__ = [
    "Crash",
    "Fault",
    "RecordingMedium",
    "distinct",
    "kills",
    "power_losses",
    "random_power_losses",
]


@dataclass(frozen=True)
class Crash:
    """One state a medium may be in after a crash at ``position`` (that many operations of the log were done)."""

    source: RecordingMedium
    view: DiskView
    choice: Choice
    killed: bool = False
    torn: Write | None = None
    """The write in whose middle the process was killed, as far as it came."""

    @property
    def position(self) -> int:
        return self.view.position

    @property
    def marks(self) -> tuple[Any, ...]:
        """The values marked before the crash, in order."""
        return self.view.marks

    def medium(self) -> RecordingMedium:
        """A fresh medium in this state."""
        state = self.view.build(self.choice)
        if not self.killed:
            return RecordingMedium(state)
        return RecordingMedium.resume(self.source.baseline, self.log, state)

    @property
    def log(self) -> list[Operation]:
        """The operations up to the crash."""
        done = self.source.log[: self.position]
        return done if self.torn is None else [*done[:-1], self.torn]

    def __str__(self) -> str:
        last = self.log[-3:]
        if self.killed:
            return f"process killed after operation {self.position}, the last being {last}"
        return f"power lost after operation {self.position}, the last being {last}:\n" + self.view.describe(self.choice)

    __repr__ = __str__


def durable(medium: RecordingMedium) -> RecordingMedium:
    """What a loss of power now would leave at least."""
    disk = Disk(medium.baseline)
    for operation in medium.log:
        disk.advance(operation)
    return RecordingMedium(disk.view().durable)


def power_losses(
    medium: RecordingMedium, positions: Collection[int] | None = None, *, singles: int = 16
) -> Iterator[Crash]:
    """Extreme states of the disk at every position of the log so far, or at the given ones.

    With more than ``singles`` changes pending, only that many (the first and last) are varied one by one.
    """
    for view in _views(medium, positions):
        for choice in extreme_choices(view, singles):
            yield Crash(medium, view, choice)


def random_power_losses(
    medium: RecordingMedium, count: int, seed: int, positions: Collection[int] | None = None
) -> Iterator[Crash]:
    """``count`` random states at every position of the log so far, or at the given ones; same seed, same states."""
    dice = random.Random(seed)
    for view in _views(medium, positions):
        for _ in range(count):
            yield Crash(medium, view, random_choice(view, dice))


def distinct(crashes: Iterable[Crash]) -> Iterator[Crash]:
    """Losses of power without those that leave the same files as another one, and promise the same.

    They would have the same end. To tell takes the content of all files, so it pays where what is done with a crash
    takes longer.
    """
    seen = set()
    for crash in crashes:
        key = len(crash.marks), crash.view.build(crash.choice).identity
        if key not in seen:
            seen.add(key)
            yield crash


def kills(medium: RecordingMedium, positions: Collection[int] | None = None) -> Iterator[Crash]:
    """Ends of the process at every position of the log so far, or at the given ones, and in the middle of writes."""
    log = medium.log
    for view in _views(medium, positions):
        choice = view.everything()
        yield Crash(medium, view, choice, killed=True)
        if view.position and isinstance(write := log[view.position - 1], Write):
            cuts = [outcome for outcome in torn_outcomes(write) if outcome.ranges == ((0, outcome.extent),)]
            for cut in cuts:
                outcomes = (*choice.outcomes[:-1], cut)  # the write is the newest pending change
                torn = Write(write.inode, write.offset, write.data[: cut.extent])
                yield Crash(medium, view, Choice(outcomes, choice.moments), killed=True, torn=torn)


def _views(medium: RecordingMedium, positions: Collection[int] | None) -> Iterator[DiskView]:
    log = list(medium.log)
    disk = Disk(medium.baseline)
    for position in range(len(log) + 1):
        # A mark changes nothing on disk; the position behind it demands more than the one before.
        before_mark = position < len(log) and isinstance(log[position], Mark)
        if not before_mark if positions is None else position in positions:
            yield disk.view()
        if position < len(log):
            disk.advance(log[position])
