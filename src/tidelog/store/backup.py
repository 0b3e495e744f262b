"""Copies of a store that are stores themselves, made while others read and write (docs/operations.md).

Every stream is copied as of one snapshot. Closed splits are copied as they are, byte for byte, and what the tail had
flushed becomes closed splits. The first manifest of the copy is that of the snapshot with these splits, under the next
number, so that everything committed keeps its meaning: sequence numbers, deletions, transactions, the versions of the
schema. It is one document: a copy that lost it has no stream, where one that lost a second document would have fewer
rows and nobody could tell. A new journal remembers the last appends of producers, and a tail record names it, so that
a copy whose journal is lost or damaged is not taken for a whole one. A marker file is there from the first step to the
last (:mod:`tidelog.store.marker`): what is not complete cannot be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.index.tabtree.nodes import NODE_CACHE_BYTES, NodeCache
from tidelog.model.errors import CorruptionError, ExistsError, NotFoundError, StorageError
from tidelog.storage.media.medium import Medium
from tidelog.storage.read.check import Finding
from tidelog.store.catalogue import Catalogue, StreamEntry
from tidelog.store.check import check_files
from tidelog.store.copies import copy_file, split_rows, write_journal
from tidelog.store.log.file_names import join
from tidelog.store.manifest.manifest import MANIFESTS, SPLITS, Change, Manifest, ManifestLog, split_path
from tidelog.store.manifest.schemas import SchemaHistory
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.marker import begin_copy, end_copy
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext
from tidelog.store.subscriptions import (
    Kept,
    check_subscriptions,
    read_subscription,
    subscription_names,
    write_subscription,
)
from tidelog.store.tail.shares import Shares

_ATTEMPTS: Final = 100
"""How often a stream whose files leave while they are copied is looked at anew."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told the stream being copied, the bytes copied so far, and how many they will be."""


@dataclass(frozen=True, slots=True)
class StreamBackup:
    """What was copied of a stream."""

    name: str
    rows: int
    """Deleted ones included, as long as they are on disk."""
    splits: int
    bytes: int
    """Of its splits."""
    next_seq: int
    """The rows with smaller sequence numbers are in the copy."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup, or the restoration of one, has copied."""

    streams: tuple[StreamBackup, ...]
    linked: bool
    """Whether closed splits share their bytes with the source."""

    @property
    def rows(self) -> int:
        """Rows of all streams."""
        return sum(stream.rows for stream in self.streams)

    @property
    def bytes(self) -> int:
        """Bytes of all splits."""
        return sum(stream.bytes for stream in self.streams)


def back_up(
    catalogue: Catalogue,
    target: Medium,
    entries: Sequence[StreamEntry],
    *,
    link: bool = False,
    verify: bool = True,
    progress: Progress | None = None,
    quiet: AbstractContextManager[None] | None = None,
) -> BackupReport:
    """Copy streams to an empty medium, as they were flushed; all are looked at before the first file is copied.

    Subscriptions all of whose streams are copied come with them, as of the same moment, which is looked for again if
    they go on meanwhile; those of this process do not inside of ``quiet``.

    A stream whose files leave meanwhile, because its grace period is short, is looked at again: then it is newer. With
    ``link`` closed splits become second names of the files of the source, which takes no time and no space; both media
    must be directories of one file system. With ``verify`` every checksum in the copy is looked at before it counts.

    Raises :class:`ExistsError` if the target has files, :class:`CorruptionError` if copy or source are damaged.
    After an error the target is not a store, and says so when it is opened.
    """
    if target.names():
        raise ExistsError(f"there are files in {target} already; choose a directory that is empty, or a new one")
    target.make_directory("")
    begin_copy(target)
    copies = [_StreamCopy(catalogue.manifests(entry), entry, target, link) for entry in entries]
    pairs = _pairs(copies)
    with nullcontext() if quiet is None else quiet:
        subscriptions = _pinned(copies, pairs, catalogue.medium)
    asides = {id(aside) for _, aside in pairs}
    done = 0
    for copy in sorted(copies, key=lambda copy: id(copy) in asides):
        for copied in copy.run():
            done += copied
            if progress is not None:
                progress(copy.entry.name, done, max(done, sum(each.bytes for each in copies)))
    for name, kept in subscriptions.items():
        write_subscription(target, name, kept)
    written = Catalogue.create_copy(target, entries, clock=catalogue.clock)
    if verify:
        findings = check_all(written)
        if findings:
            raise CorruptionError(
                f"the copy is damaged, and most likely the store too, for example: {findings[0]}; check the store"
            )
    end_copy(target, catalogue.clock())
    return BackupReport(tuple(copy.report() for copy in copies), link)


def check_all(catalogue: Catalogue) -> list[Finding]:
    """Everything wrong with the files of a store; memory does not grow with its streams."""
    findings = catalogue.check()
    if not findings:
        for entry in catalogue.streams():
            manifests = catalogue.manifests(entry)
            findings += check_files(StreamContext.of(manifests), manifests)
    return findings + check_subscriptions(catalogue.medium)


def _pinned(
    copies: Sequence[_StreamCopy], pairs: Sequence[tuple[_StreamCopy, _StreamCopy]], medium: Medium
) -> dict[str, Kept]:
    """Take the snapshots that are copied, and return what is kept of subscriptions at that moment.

    What a subscription has read was durable before, so it is in snapshots that are taken later. What it has given since
    would be in one of the stream that takes it, and then be given once more: so nothing may have been.
    """
    for _ in range(_ATTEMPTS):
        before = _subscriptions(copies, medium)
        _pin(copies, pairs)
        after = _subscriptions(copies, medium)
        if {name: kept.number for name, kept in before.items()} == {name: kept.number for name, kept in after.items()}:
            return before
    raise StorageError(
        f"subscriptions went on {_ATTEMPTS} times while they were looked at; back up when less is written, or some "
        "streams alone"
    )


def _subscriptions(copies: Sequence[_StreamCopy], medium: Medium) -> dict[str, Kept]:
    """Those all of whose streams are copied."""
    ids, names = {copy.entry.id for copy in copies}, {copy.entry.name for copy in copies}
    found = {}
    for name in subscription_names(medium):
        with suppress(NotFoundError):  # dropped meanwhile
            kept = read_subscription(medium, name)
            if kept.streams <= ids and (kept.into is None or kept.into in names):
                found[name] = kept
    return found


def _pairs(copies: Sequence[_StreamCopy]) -> list[tuple[_StreamCopy, _StreamCopy]]:
    """Streams that set late events aside, each with the one that takes them, as far as both are copied."""
    by_name = {copy.entry.name: copy for copy in copies}
    found = [(copy, by_name.get(copy.aside)) for copy in copies if copy.aside is not None]
    return [(copy, aside) for copy, aside in found if aside is not None and aside.aside is None]


def _pin(copies: Sequence[_StreamCopy], pairs: Sequence[tuple[_StreamCopy, _StreamCopy]]) -> None:
    """Take the snapshots that are copied.

    Rows are durable aside before the rest of their append is. So the stream is looked at first: the one aside is then
    like after a crash in between. Not if so much has come since that what it would ask for when
    appends are sent again is forgotten; then both are looked at again.
    """
    asides = {id(aside) for _, aside in pairs}
    for copy in copies:
        if id(copy) not in asides:
            copy.pin()
    for copy in copies:
        if id(copy) in asides:
            copy.pin([stream for stream, aside in pairs if aside is copy])


class _StreamCopy:
    """The copy of one stream."""

    def __init__(self, manifests: ManifestLog, entry: StreamEntry, target: Medium, link: bool) -> None:
        self.entry = entry
        self._manifests = manifests
        self._target = target
        self._directory = entry.directory
        self._link = link
        options = manifests.load().options
        self.aside = (options.aside or f"{entry.name}.late") if options.too_late == "aside" else None
        """The name of the stream that takes its late events, if it sets them aside."""
        self._late_for: Sequence[_StreamCopy] = ()
        """The copies of streams that this one takes late events of."""
        self.is_renewed = False
        """Whether another snapshot was taken while it was copied."""
        self.is_copied = False
        """Whether no other one can be taken any more."""
        self._copied: set[str] = set()
        """Names of closed splits that are in the target."""

    @property
    def bytes(self) -> int:
        """What there is to be copied, as far as it is known."""
        return sum(info.bytes for info in self._snapshot.manifest.splits.values())

    def pin(self, late_for: Sequence[_StreamCopy] = ()) -> None:
        """Take the snapshot that is copied, of a stream that takes late events of others after theirs."""
        self._late_for = late_for
        self._target.make_directory(*(join(self._directory, name) for name in (MANIFESTS, SPLITS)))
        for _ in range(_ATTEMPTS):
            self._snapshot: Snapshot = Snapshots(StreamContext.of(self._manifests), self._manifests).newest()
            behind = [copy for copy in late_for if not self._serves(copy)]
            if not behind:
                return
            for copy in behind:
                if copy.is_copied:
                    raise copy._too_fast()
                copy.pin()
        raise self._too_fast()

    def _serves(self, stream: _StreamCopy) -> bool:
        """Whether this one, aside, still knows all that could be asked for when appends are sent again."""
        mine, other = self._snapshot.head, stream._snapshot.head
        shares = Shares()
        shares.update({} if mine is None else mine.shares)
        return shares.serve(stream._directory, {} if other is None else other.producers)

    def run(self) -> Iterator[int]:
        """Copy everything else; yields numbers of bytes as they are copied."""
        if any(copy.is_renewed for copy in self._late_for):
            self.pin(self._late_for)  # after those that are in the copy now
        for _ in range(_ATTEMPTS):
            try:
                yield from self._copy_splits()
                break
            except NotFoundError as error:
                self._explain(error)
                self.is_renewed = True
                self.pin(self._late_for)
        else:
            raise self._too_fast()
        self.is_copied = True
        self._drop_unlisted()
        infos = self._write_tail()
        self._target.sync_names(join(self._directory, SPLITS))
        self._commit(infos)
        yield sum(info.bytes for info in infos)

    def _too_fast(self) -> StorageError:
        return StorageError(
            f"the files of stream {self.entry.name!r} left {_ATTEMPTS} times while they were copied; give the stream a "
            "longer grace period (option grace)"
        )

    def _explain(self, error: NotFoundError) -> None:
        """Raise unless a file that was not there has left the stream."""
        if not self._manifests.exists():
            raise NotFoundError(
                f"stream {self.entry.name!r} was dropped while it was copied; start again without it"
            ) from error
        for name in self._manifests.load().splits:
            path = split_path(self._directory, name)
            if not self._manifests.medium.exists(path) and name in self._manifests.load().splits:
                raise CorruptionError(f"{path} is missing, but the manifest names it; check the store") from error

    def _copy_splits(self) -> Iterator[int]:
        for name in self._snapshot.manifest.splits:
            if name not in self._copied:
                path = split_path(self._directory, name)
                if self._link:
                    self._target.link_from(self._manifests.medium, path, path)
                    yield self._snapshot.manifest.splits[name].bytes
                else:
                    yield from copy_file(self._manifests.medium, self._target, path)
                self._copied.add(name)

    def _drop_unlisted(self) -> None:
        """Remove what was copied for a snapshot before this one."""
        for name in self._copied - set(self._snapshot.manifest.splits):
            self._target.remove(split_path(self._directory, name))
            self._copied.remove(name)

    def _write_tail(self) -> list[SplitInfo]:
        """Closed splits of what the tail had flushed, and a journal of what else it must not forget."""
        parts = [part for part in self._snapshot.parts if part.info is None]
        infos = split_rows(self._context(), self._snapshot.manifest, parts)
        head = self._snapshot.head
        if head is not None:
            write_journal(self._target, self._directory, head, self._snapshot.manifest.tail_block)
        return infos

    def _context(self) -> StreamContext:
        manifest = self._snapshot.manifest
        return StreamContext(
            medium=self._target,
            directory=self._directory,
            layout=self._snapshot.layout,
            options=manifest.options,
            now=self._manifests.clock,
            nodes=NodeCache(NODE_CACHE_BYTES),
            history=SchemaHistory(manifest),
        )

    def _commit(self, infos: Sequence[SplitInfo]) -> None:
        """Add the splits of the tail; forget files that left, which were not copied."""
        now, manifest = self._manifests.clock(), self._snapshot.manifest
        change = Change(add=tuple(infos), forget=tuple(manifest.removed))
        self._final: Manifest = manifest.changed(change, manifest.number + 1, now)
        ManifestLog(self._target, self._directory, clock=self._manifests.clock).plant(self._final)

    def report(self) -> StreamBackup:
        """What was copied."""
        splits = self._final.splits.values()
        return StreamBackup(
            name=self.entry.name,
            rows=sum(info.rows for info in splits),
            splits=len(splits),
            bytes=sum(info.bytes for info in splits),
            next_seq=self._snapshot.next_seq,
        )
