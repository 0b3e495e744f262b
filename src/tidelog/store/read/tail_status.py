"""What a tail has on disk, and what waits in it, as any process can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import CorruptionError, NotFoundError
from tidelog.storage import ContainerReader
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.tail.journal import journal_name, journal_numbers
from tidelog.store.tail.paths import tail_path
from tidelog.store.tail.state import is_closed, read_split_names

_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class TailFiles:
    """Bytes of the files of a tail."""

    journal: int = 0
    open: int = 0
    """Of splits that are being written."""
    dead: int = 0
    """How many of those were written again for late rows."""


def tail_files(context: StreamContext, manifest: Manifest) -> TailFiles:
    """The files of a tail, whoever writes it; beside a manifest, which has all others."""
    for attempt in range(_ATTEMPTS):
        try:
            return _tail_files(context, manifest)
        except (NotFoundError, CorruptionError):  # replaced while we were looking
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _tail_files(context: StreamContext, manifest: Manifest) -> TailFiles:
    tail = tail_path(context.directory)
    journal = sum(_size(context, journal_name(tail, number)) for number in journal_numbers(context.medium, tail))
    size = dead = 0
    for name in read_split_names(context.medium, context.directory):
        if not is_closed(name, manifest) and context.medium.exists(context.path(name)):
            size += _size(context, context.path(name))
            with ContainerReader.open(context.medium, context.path(name)) as reader:
                dead += reader.commit.dead_bytes
    return TailFiles(journal, size, dead)


def _size(context: StreamContext, name: str) -> int:
    with context.medium.open(name) as file:
        return file.size()


def queued_rows(snapshot: Snapshot) -> int:
    """How many rows of a snapshot that are in no split are older than what is sealed: late ones that wait."""
    closed = [split.time_max for split in snapshot.manifest.splits.values() if split.kind == "regular"]
    being_written = [part.last for part in snapshot.parts if part.info is None and not part.in_memory]
    sealed = max((*closed, *being_written), default=None)
    if sealed is None:
        return 0
    return sum(part.rank(sealed, ReadCounters()) for part in snapshot.parts if part.in_memory)


def is_unsettled(context: StreamContext, snapshot: Snapshot, policy: MergePolicy) -> bool:
    """Whether there is something to do for the writer of a tail, by a policy: see :meth:`Tail.settle`."""
    waiting = sum(part.rows for part in snapshot.parts if part.in_memory)
    if waiting >= context.options.leaf_rows or queued_rows(snapshot):
        return True
    written = [part for part in snapshot.parts if part.info is None and not part.in_memory]
    if not written:
        return False
    files = tail_files(context, snapshot.manifest)
    if policy.is_worn(files.open, files.dead):
        return True
    first, last = min(part.first for part in written), max(part.last for part in written)
    over = [
        split.bytes
        for split in snapshot.manifest.splits.values()
        if split.kind != "coarse" and split.time_max > first and split.time_min < last
    ]
    return bool(over) and sum(over) >= policy.share * files.open
