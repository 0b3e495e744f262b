"""What may be on disk when the power fails, given the operations so far.

Since the last sync of a file its writes and truncates are *pending*: each may have reached the disk or not, a
write also in part (:class:`Outcome`). Since the last sync of a directory the bindings of its names are pending:
each name may lead to where it led at any moment since then. All these choices are independent of each other. After
a failed sync the changes it should have covered stay pending for ever.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from support.media.content import Content, Image
from support.media.memory import Snapshot
from support.media.operations import (
    Create,
    FailedSync,
    Link,
    MakeDirectory,
    Mark,
    Operation,
    Remove,
    Sync,
    SyncNames,
    Truncate,
    Write,
)

SECTORS = (512, 4096)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How much of one pending change reached the disk.

    Of a write, the byte ranges ``ranges`` (relative to it), and a file length that includes its first ``extent``
    bytes: what is lost below that length reads as before, or as zeros where the file was shorter.
    """

    ranges: tuple[tuple[int, int], ...]
    extent: int
    whole: bool = False

    def __repr__(self) -> str:
        if self.whole:
            return "kept"
        if not self.extent:
            return "lost"
        return f"torn: bytes {list(self.ranges)} kept, length covers {self.extent}"


KEPT = Outcome((), 0, whole=True)
LOST = Outcome((), 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible state: an outcome for every pending change, a moment for every pending name."""

    outcomes: tuple[Outcome, ...]
    moments: tuple[int, ...]


@dataclass(slots=True)
class _Change:
    index: int
    operation: Write | Truncate
    certain: bool = False
    doomed: bool = False


@dataclass(frozen=True)
class DiskView:
    """What is certain and what is pending at one position of a log."""

    position: int
    marks: tuple[Any, ...]
    durable: Snapshot
    changes: tuple[_Change, ...]
    certain: tuple[bool, ...]
    """By change: whether it is durable although an earlier one is not (after a failed sync, or a write through)."""
    names: tuple[tuple[str, tuple[int | None, ...]], ...]
    """Names with their pending bindings, oldest (durable) first; None: no such file."""

    def build(self, choice: Choice) -> Snapshot:
        """The files on disk under this choice; contents are computed when first read."""
        applied: dict[int, list[tuple[Write | Truncate, Outcome]]] = {}
        for change, outcome in zip(self.changes, choice.outcomes, strict=True):
            if outcome is not LOST:
                applied.setdefault(change.operation.inode, []).append((change.operation, outcome))
        images = dict(self.durable.images)
        for inode, changes in applied.items():
            images[inode] = Image(_builder(images[inode], changes))
        names = dict(self.durable.names)
        for (name, bindings), moment in zip(self.names, choice.moments, strict=True):
            inode_or_none = bindings[moment]
            if inode_or_none is None:
                names.pop(name, None)
            else:
                names[name] = inode_or_none
        return Snapshot(names, images, self.durable.directories)

    def everything(self) -> Choice:
        """The state that the processes saw."""
        return Choice((KEPT,) * len(self.changes), tuple(len(b) - 1 for _, b in self.names))

    def describe(self, choice: Choice) -> str:
        """The choice in words, one line for each pending change and name."""
        lines = [
            f"  operation {change.index}: {change.operation} {outcome}"
            for change, outcome in zip(self.changes, choice.outcomes, strict=True)
        ]
        lines += [
            f"  name {name!r}: {'absent' if bindings[m] is None else f'inode {bindings[m]}'} of {bindings}"
            for (name, bindings), m in zip(self.names, choice.moments, strict=True)
        ]
        return "\n".join(lines) if lines else "  nothing pending"


def _builder(image: Image, changes: list[tuple[Write | Truncate, Outcome]]) -> Any:
    def build() -> Content:
        content = image.content.copy()
        for operation, outcome in changes:
            apply(content, operation, outcome)
        return content

    return build


def apply(content: Content, operation: Write | Truncate, outcome: Outcome) -> None:
    """Change a content by what reached the disk of an operation."""
    if isinstance(operation, Truncate):
        if outcome.whole:
            content.resize(operation.size)
    elif outcome.whole:
        content.write(operation.offset, operation.data)
    elif outcome.extent:
        if operation.offset + outcome.extent > content.size:
            content.resize(operation.offset + outcome.extent)
        for start, stop in outcome.ranges:
            content.write(operation.offset + start, operation.data[start:stop])


class Disk:
    """Follows a log operation by operation and knows what is durable and what is pending."""

    def __init__(self, baseline: Snapshot) -> None:
        self._position = 0
        self._marks: list[Any] = []
        self._names = dict(baseline.names)
        self._images = dict(baseline.images)
        self._directories = set(baseline.directories)
        self._pending: dict[int, list[_Change]] = {}
        self._bindings: dict[str, list[tuple[int, int | None]]] = {}

    def advance(self, operation: Operation) -> None:
        """Take note of the next operation."""
        match operation:
            case Write() | Truncate():
                self._pending.setdefault(operation.inode, []).append(_Change(self._position, operation))
            case Sync():
                self._sync(operation)
            case FailedSync():
                for change in self._pending.get(operation.inode, []):
                    change.doomed |= operation.since <= change.index < operation.covers and not change.certain
            case Create():
                self._images[operation.inode] = Image.of(Content())
                self._bind(operation.name, operation.inode)
            case Link():
                self._bind(operation.name, operation.inode)
            case Remove():
                self._bind(operation.name, None)
            case SyncNames():
                self._sync_names(operation.directory, operation.covers)
            case MakeDirectory():
                self._directories.add(operation.name)
            case Mark():
                self._marks.append(operation.value)
        self._position += 1

    def view(self) -> DiskView:
        """What is certain and what is pending now."""
        changes = sorted((c for cs in self._pending.values() for c in cs), key=lambda change: change.index)
        return DiskView(
            position=self._position,
            marks=tuple(self._marks),
            durable=Snapshot(self._names.copy(), self._images.copy(), frozenset(self._directories)),
            changes=tuple(changes),
            certain=tuple(change.certain for change in changes),
            names=tuple(
                (name, (self._names.get(name), *(inode for _, inode in bindings)))
                for name, bindings in self._bindings.items()
            ),
        )

    def _sync(self, sync: Sync) -> None:
        inode = sync.inode
        changes = self._pending.get(inode, [])
        for change in changes:
            change.certain |= sync.since <= change.index < sync.covers and not change.doomed
        count = next((i for i, change in enumerate(changes) if not change.certain), len(changes))
        if count:
            content = self._images[inode].content.copy()
            for change in changes[:count]:
                apply(content, change.operation, KEPT)
            self._images[inode] = Image.of(content)
            self._pending[inode] = changes[count:]

    def _bind(self, name: str, inode: int | None) -> None:
        self._bindings.setdefault(name, []).append((self._position, inode))

    def _sync_names(self, directory: str, covers: int) -> None:
        for name in [name for name in self._bindings if os.path.dirname(name) == directory]:
            bindings = self._bindings[name]
            covered = [inode for index, inode in bindings if index < covers]
            if covered:
                if covered[-1] is None:
                    self._names.pop(name, None)
                else:
                    self._names[name] = covered[-1]
                self._bindings[name] = bindings[len(covered) :]
            if not self._bindings[name]:
                del self._bindings[name]


def extreme_choices(view: DiskView, singles: int) -> Iterator[Choice]:
    """The choices most likely to break something, without repetition.

    Nothing, everything, the first, the last kept; each single change lost, or torn at several places, with
    the later ones kept or lost; names all kept, all lost, each one apart. Of many pending changes only the first and
    last are treated singly, ``singles`` of them.
    """
    newest = view.everything().moments
    oldest = (0,) * len(newest)
    open_changes = [i for i, certain in enumerate(view.certain) if not certain]
    if len(open_changes) <= singles:
        chosen = open_changes
    else:
        chosen = open_changes[: singles // 2] + open_changes[-(singles - singles // 2) :]

    def all_choices() -> Iterator[tuple[list[Outcome], tuple[int, ...]]]:
        kept = [KEPT] * len(view.changes)
        lost = [KEPT if certain else LOST for certain in view.certain]
        for moments in (newest, oldest):
            yield lost, moments
            yield kept, moments
        yield [_zeros(c) if o is LOST else o for c, o in zip(view.changes, lost, strict=True)], newest
        for i in {*open_changes[:1], *open_changes[-1:]}:
            yield [*lost[:i], KEPT, *lost[i + 1 :]], newest
        for i in chosen:
            yield [*kept[:i], *lost[i:]], newest
            for outcome in (LOST, *torn_outcomes(view.changes[i].operation)):
                yield [*kept[:i], outcome, *kept[i + 1 :]], newest
                yield [*kept[:i], outcome, *lost[i + 1 :]], newest
        for j, (_, bindings) in enumerate(view.names):
            for moment in range(len(bindings)):
                yield kept, (*newest[:j], moment, *newest[j + 1 :])
                yield kept, (*oldest[:j], moment, *oldest[j + 1 :])

    seen = set()
    for chosen_outcomes, moments in all_choices():
        choice = Choice(tuple(chosen_outcomes), moments)
        if choice not in seen:
            seen.add(choice)
            yield choice


def _zeros(change: _Change) -> Outcome:
    operation = change.operation
    return Outcome((), len(operation.data)) if isinstance(operation, Write) else LOST


def torn_outcomes(operation: Write | Truncate) -> Iterator[Outcome]:
    """Ways in which a write may reach the disk in part: cut after some bytes, zeros, and by sectors."""
    if isinstance(operation, Truncate):
        return
    size = len(operation.data)
    yield Outcome((), size)
    cuts = {1, size // 2, size - 1}
    for sector in SECTORS:
        edges = _edges(operation, sector)
        cuts.update(edges[1:-1][:1], edges[1:-1][-1:])
        if len(edges) > 2:
            pieces = list(pairwise(edges))
            yield Outcome(tuple(pieces[1:]), size)  # all but the first
            yield Outcome(tuple(pieces[:-1]), size)  # all but the last, the length notwithstanding
            yield Outcome(tuple(pieces[-1:]), size)
            yield Outcome(tuple(pieces[::2]), size)
    for cut in sorted(cuts):
        if 0 < cut < size:
            yield Outcome(((0, cut),), cut)


def random_choice(view: DiskView, dice: random.Random) -> Choice:
    """Any choice; cuts of the whole sequence, as of an orderly file system, are more likely than by chance."""
    style = dice.choice(("independent", "independent", "cut", "few lost", "few kept"))
    cut = dice.randint(0, len(view.changes))
    outcomes = []
    for i, (change, certain) in enumerate(zip(view.changes, view.certain, strict=True)):
        if certain:
            outcomes.append(KEPT)
        elif style == "cut" and i != cut:
            outcomes.append(KEPT if i < cut else LOST)
        elif style == "few lost" and dice.random() < 0.9:
            outcomes.append(KEPT)
        elif style == "few kept" and dice.random() < 0.9:
            outcomes.append(LOST)
        else:
            outcomes.append(random_outcome(change.operation, dice))
    moments = tuple(dice.randrange(len(bindings)) for _, bindings in view.names)
    return Choice(tuple(outcomes), moments)


def random_outcome(operation: Write | Truncate, dice: random.Random) -> Outcome:
    """Lost, kept, or torn in some way."""
    kind = dice.choice(("lost", "kept", "prefix", "sectors"))
    if kind == "lost":
        return LOST
    if kind == "kept" or isinstance(operation, Truncate):
        return KEPT
    size = len(operation.data)
    if kind == "prefix":
        cut = dice.randint(0, size)
        return Outcome(((0, cut),), dice.choice((cut, size)))
    edges = _edges(operation, dice.choice(SECTORS))
    pieces = tuple(p for p in pairwise(edges) if dice.random() < 0.5)
    return Outcome(pieces, dice.choice((size, pieces[-1][1] if pieces else 0)))


def _edges(operation: Write, sector: int) -> list[int]:
    """Where the sectors of the file divide a write, with its two ends."""
    first = sector - operation.offset % sector
    size = len(operation.data)
    return [0, *range(first, size, sector), size]
