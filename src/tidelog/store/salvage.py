"""Taking out of a damaged store what is whole: into a new one, with a report of the rest (docs/operations.md).

The damaged store is only read. Closed splits that are whole are copied byte for byte. Of others, of the open splits and
of the journal all rows are taken that are whole, and written to new splits with the numbers they have. Where manifests
are missing, files that no manifest names are taken too, but for rows that others have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.layout import Layout
from tidelog.index.tabtree.nodes import NODE_CACHE_BYTES, NodeCache
from tidelog.model.errors import CorruptionError, ExistsError, NotFoundError, StorageError, TidelogError
from tidelog.storage.format.commit import read_commit
from tidelog.storage.format.units import STRIDE
from tidelog.storage.journal.format import read_header, whole_records
from tidelog.storage.media.medium import Medium
from tidelog.storage.read.leaf_salvage import LeafSalvage
from tidelog.store.catalogue import Catalogue, StreamEntry
from tidelog.store.check import check_files, check_split
from tidelog.store.copies import copy_file, split_rows, write_journal
from tidelog.store.log.file_names import born_at, join
from tidelog.store.manifest.manifest import MANIFESTS, SPLITS, Change, Manifest, ManifestLog, SplitInfo, split_path
from tidelog.store.manifest.schemas import SchemaHistory, presented, version_in
from tidelog.store.marker import begin_copy, end_copy
from tidelog.store.read.parts.memory import MemoryPart
from tidelog.store.rows.stored import Ints, seqs, shifted, sorted_rows
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import closed_tree
from tidelog.store.subscriptions import SUBSCRIPTIONS, read_subscription, subscription_names, write_subscription
from tidelog.store.tail.journal import (
    Entry,
    Head,
    journal_name,
    journal_numbers,
    kept_of,
    rows_of,
    unpack,
)
from tidelog.store.tail.paths import published_path, tail_path
from tidelog.store.tail.record import Publications, TailRecord
from tidelog.store.tail.state import is_closed

_CLOSED_SUFFIX = ".tide"


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that could not be taken."""

    file: str
    what: str
    rows: int | None = None
    """How many rows are lost with it; None if nobody can tell."""
    times: tuple[int, int] | None = None
    """The first and last time, in ticks of the stream's clock, between which lost rows are; None if that is unknown."""
    numbers: tuple[int, int] | None = None
    """The smallest and greatest sequence number between which those of lost rows are; None if that is unknown."""

    def __str__(self) -> str:
        about = [] if self.rows is None else [f"{self.rows:,} rows"]
        about += [] if self.times is None else [f"times {self.times[0]} to {self.times[1]}"]
        about += [] if self.numbers is None else [f"sequence numbers {self.numbers[0]} to {self.numbers[1]}"]
        return f"{self.file}: {self.what}" + (f" ({', '.join(about)})" if about else "")


@dataclass(frozen=True, slots=True)
class SalvagedStream:
    """What became of a stream."""

    name: str
    rows: int
    """In the new store, deleted ones included, as long as they are on disk."""
    losses: tuple[Loss, ...]
    is_there: bool = True
    """Whether the new store has it; if not, nothing of it could be read."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was taken out of a damaged store, and what was not."""

    streams: tuple[SalvagedStream, ...]
    losses: tuple[Loss, ...]
    """What is wrong with the store itself."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was found to be wrong."""
        return not self.losses and not any(stream.losses for stream in self.streams)

    @property
    def rows(self) -> int:
        """Rows of all streams in the new store."""
        return sum(stream.rows for stream in self.streams)


def salvage(source: Medium, target: Medium, *, clock: Callable[[], float] = time.time) -> SalvageReport:
    """Make a store on an empty medium of what is whole on another one, which is left as it is.

    Nobody should be writing to the source. Raises :class:`ExistsError` if the target has files,
    :class:`NotFoundError` if the source has nothing of a store.
    """
    if target.names():
        raise ExistsError(f"there are files in {target} already; choose a directory that is empty, or a new one")
    catalogue = Catalogue(source, clock=clock)
    state, wrong = catalogue.salvage()
    if not state.streams and not source.names("catalogue/"):
        raise NotFoundError(f"there is nothing of a store in {source}; check the path")
    target.make_directory("")
    begin_copy(target)
    done: list[SalvagedStream] = []
    kept: list[StreamEntry] = []
    for entry in sorted(state.streams.values(), key=lambda entry: entry.name):
        stream = _StreamSalvage(catalogue.manifests(entry), entry, target).run()
        if stream.is_there:
            kept.append(entry)
        if stream.is_there or stream.losses:
            done.append(stream)
    unread = list(_take_subscriptions(source, target))
    written = Catalogue.create_copy(target, kept, clock=clock)
    for entry in kept:
        manifests = written.manifests(entry)
        findings = check_files(StreamContext.of(manifests), manifests)
        if findings:
            raise StorageError(f"what was salvaged of {entry.name!r} is not whole: {findings[0]}; check the disk")
    end_copy(target, clock())
    return SalvageReport(tuple(done), (*(Loss("catalogue", each) for each in wrong), *unread))


def _take_subscriptions(source: Medium, target: Medium) -> Iterator[Loss]:
    """Take what is whole of subscriptions; gives what is not."""
    for name in subscription_names(source):
        try:
            write_subscription(target, name, read_subscription(source, name))
        except NotFoundError:  # begun, and nothing was kept
            continue
        except CorruptionError as error:
            yield Loss(SUBSCRIPTIONS, f"subscription {name!r} cannot be read: {error}")


@dataclass
class _StreamSalvage:
    """Salvages one stream."""

    manifests: ManifestLog
    entry: StreamEntry
    target: Medium
    losses: list[Loss] = field(default_factory=list)

    @property
    def _medium(self) -> Medium:
        return self.manifests.medium

    @property
    def _directory(self) -> str:
        return self.entry.directory

    def run(self) -> SalvagedStream:
        manifest, wrong = self.manifests.salvage()
        self.losses += [Loss(join(self._directory, MANIFESTS), each) for each in wrong]
        is_listed = not self.losses and manifest is not None
        if manifest is None:
            manifest = self._made_up()
        if manifest is None:
            if not is_listed and not self._files():
                return SalvagedStream(self.entry.name, 0, tuple(self.losses), is_there=False)
            self.losses.append(Loss(self._directory, "nothing tells what columns it has"))
            return SalvagedStream(self.entry.name, 0, tuple(self.losses), is_there=False)
        self._manifest = manifest
        self._history = SchemaHistory(manifest)
        self.target.make_directory(*(join(self._directory, name) for name in (MANIFESTS, SPLITS)))
        context = self._context(self._medium)
        copied, batches = self._closed(context)
        entries, durable = self._journal(context)
        if entries and not self._counts(entries, durable):
            entries = entries[:-1]
        batches += self._open(entries, durable)
        if not is_listed:
            batches += self._unlisted(copied, entries)
        batches = _once([*batches, *rows_of(entries)], self._copied_numbers(context, copied, entries))
        final = self._write(context, copied, batches, entries, durable)
        return SalvagedStream(
            self.entry.name, sum(info.rows for info in final.splits.values()), tuple(self.losses), is_there=True
        )

    def _context(self, medium: Medium) -> StreamContext:
        return StreamContext(
            medium=medium,
            directory=self._directory,
            layout=self._history.layout,
            options=self._manifest.options,
            now=self.manifests.clock,
            nodes=NodeCache(NODE_CACHE_BYTES),
            history=self._history,
        )

    def _files(self) -> list[str]:
        """The names of all files of splits."""
        prefix = join(self._directory, f"{SPLITS}/")
        names = [name[len(prefix) :] for name in self._medium.names(prefix)]
        return [name for name in names if name.endswith(_CLOSED_SUFFIX) and born_at(name) is not None]

    def _made_up(self) -> Manifest | None:
        """A manifest without splits, with the columns of the newest file that tells any; None if none does."""
        for name in reversed(self._files()):
            try:
                with self._medium.open(split_path(self._directory, name)) as file:
                    schema = Layout.of(LeafSalvage(file).preface.description).schema
                made = Manifest().changed(Change(schema=schema), 1, self.manifests.clock())
            except TidelogError:
                continue
            what = f"columns were taken from {name}; options and deletions are lost"
            self.losses.append(Loss(join(self._directory, MANIFESTS), what))
            return made
        return None

    # -- closed splits --------------------------------------------------------------------------------------------

    def _closed(self, context: StreamContext) -> tuple[list[str], list[pa.RecordBatch]]:
        """The names of closed splits that are whole, which are copied, and the rows of others."""
        copied: list[str] = []
        batches: list[pa.RecordBatch] = []
        for name, info in self._manifest.splits.items():
            findings = check_split(context, info)
            path = context.path(name)
            if not findings:
                for _ in copy_file(self._medium, self.target, path):
                    pass
                copied.append(name)
                continue
            found: list[pa.RecordBatch] = []
            what = findings[0].message
            if info.kind != "coarse":
                found, wrong = self._leaves(name, None)
                what = (wrong or [what])[0]
            batches += [shifted(batch, info.seq_base) for batch in found]
            taken = sum(batch.num_rows for batch in found)
            bounds = (info.time_min, info.time_max), (info.seq_min, info.seq_max)
            self.losses.append(Loss(path, what, max(0, info.rows - taken), *bounds))
        return copied, batches

    def _leaves(self, name: str, until: int | None) -> tuple[list[pa.RecordBatch], list[str]]:
        """The rows of leaves of a file that are whole, under the newest schema, and what is wrong with others."""
        try:
            with self._medium.open(split_path(self._directory, name)) as file:
                found = LeafSalvage(file, until)
                batches = [self._presented(batch, found.preface.description) for batch in found.batches()]
                return batches, found.damaged
        except TidelogError as error:
            return [], [str(error)]

    def _presented(self, batch: pa.RecordBatch, description: Any) -> pa.RecordBatch:
        names = [*self._history.names(version_in(description)), batch.schema.names[-1]]
        return presented(batch.rename_columns(names), self._history.layout.stored)

    def _unlisted(self, copied: Collection[str], entries: Sequence[Entry]) -> list[pa.RecordBatch]:
        """The rows of files that no manifest names, but that one may have named that is lost."""
        known = {*self._manifest.splits, *self._manifest.removed, *_split_names(entries)}
        batches: list[pa.RecordBatch] = []
        for name in self._files():
            if name not in known:
                found, wrong = self._leaves(name, None)
                batches += found
                what = wrong[0] if wrong else "no manifest names it: rows were taken whose numbers no others have"
                self.losses.append(Loss(split_path(self._directory, name), what))
        return batches

    # -- the tail -------------------------------------------------------------------------------------------------

    def _journal(self, context: StreamContext) -> tuple[list[Entry], TailRecord | None]:
        """What is whole of the newest journal, and what was published of it."""
        directory = tail_path(self._directory)
        try:
            _, durable = Publications(self._medium, published_path(self._directory)).newest()
        except CorruptionError:
            durable = None
        numbers = journal_numbers(self._medium, directory)
        entries: list[Entry] = []
        name = durable.journal if durable is not None else directory
        whole = last = 0
        for number in reversed(numbers):
            name = journal_name(directory, number)
            try:
                with self._medium.open(name) as file:
                    salt = read_header(file).salt
                    records = [] if salt is None else list(whole_records(file, salt))
            except TidelogError as error:
                self.losses.append(Loss(name, str(error)))
                continue
            for record in records:
                try:
                    entries.append(unpack(record.payload, context.read_rows))
                    whole += 1
                    last = record.number
                except TidelogError as error:
                    self.losses.append(Loss(name, f"record {record.number} cannot be read: {error}"))
            if entries:
                break
        if entries and entries[0].head.journal not in ("", name):
            self.losses.append(Loss(name, f"is another file than the one that was written: {entries[0].head.journal}"))
            return [], durable
        expected = last
        if durable is not None and durable.journal >= name:
            expected = max(last, durable.records) if durable.journal == name else durable.records
        if whole < expected or (not entries and self._manifest.tail_block is not None):
            missing = expected - whole
            self.losses.append(
                Loss(name, f"{missing} of {expected} records are lost" if expected else "the journal is lost")
            )
        return entries, durable

    def _counts(self, entries: Sequence[Entry], durable: TailRecord | None) -> bool:
        """Whether the last record was acknowledged: a crash may have come before the commits that it counts with."""
        last, before = entries[-1].head, entries[-2].head.splits if len(entries) > 1 else {}
        for name, (number, position) in last.splits.items():
            is_old = last.base or before.get(name, (0, 0))[0] >= number or is_closed(name, self._manifest)
            if is_old or (durable is not None and durable.splits.get(name, (0, 0))[0] >= number):
                continue
            try:
                with self._medium.open(split_path(self._directory, name)) as file:
                    if read_commit(file, position, file.size()).number != number:
                        return False
            except TidelogError:
                return False
        return True

    def _open(self, entries: Sequence[Entry], durable: TailRecord | None) -> list[pa.RecordBatch]:
        """The rows of splits that were being written."""
        splits: dict[str, tuple[int, int]] = {}
        for entry in entries:
            splits |= entry.head.splits
        if durable is not None:
            splits = {**durable.splits, **splits}
        batches: list[pa.RecordBatch] = []
        for name, (_, position) in splits.items():
            if is_closed(name, self._manifest) or not position:
                continue
            found, wrong = self._leaves(name, position * STRIDE)
            batches += found
            if wrong:
                self.losses.append(Loss(split_path(self._directory, name), wrong[0]))
        return batches

    def _copied_numbers(
        self, context: StreamContext, copied: Collection[str], entries: Sequence[Entry]
    ) -> Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]:
        """Tells which rows are in closed splits that were copied, by their times and numbers."""
        trees = [self._manifest.splits[name] for name in copied if self._manifest.splits[name].kind != "coarse"]

        def are_there(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            numbers = seqs(batch)
            found = np.zeros(len(numbers), np.bool_)
            for info in trees:
                near = (numbers >= info.seq_min) & (numbers <= info.seq_max)
                if near.any():
                    found |= near & np.isin(numbers, self._numbers_of(context, info))
            return found

        return are_there

    def _numbers_of(self, context: StreamContext, info: SplitInfo) -> Ints:
        tree, reader = closed_tree(context, info)
        with reader:
            name = tree.layout.stored.names[tree.layout.sequence]
            found = [seqs(batch) + info.seq_base for batch in tree.scan(columns=[name])]
        return np.concatenate([np.empty(0, np.int64), *found])

    # -- writing --------------------------------------------------------------------------------------------------

    def _write(
        self,
        context: StreamContext,
        copied: Collection[str],
        batches: Sequence[pa.RecordBatch],
        entries: Sequence[Entry],
        durable: TailRecord | None,
    ) -> Manifest:
        gone = tuple(name for name in self._manifest.splits if name not in set(copied))
        manifest = self._manifest.changed(Change(remove=gone), self._manifest.number, self._manifest.at)
        layout = context.layout
        parts = []
        if batches:
            rows = sorted_rows(batches, layout.schema, layout.stored)
            parts = [MemoryPart(layout, rows)] if rows.num_rows else []
        infos = split_rows(replace(context, medium=self.target), manifest, parts)
        self.target.sync_names(join(self._directory, SPLITS))
        now = self.manifests.clock()
        final = manifest.changed(Change(add=tuple(infos), forget=tuple(manifest.removed)), manifest.number + 1, now)
        head = self._head(final, entries, durable)
        if head is not None:
            write_journal(self.target, self._directory, head, final.tail_block)
        ManifestLog(self.target, self._directory, clock=self.manifests.clock).plant(final)
        return final

    def _head(self, manifest: Manifest, entries: Sequence[Entry], durable: TailRecord | None) -> Head | None:
        """What the new journal begins with; numbers that lost rows may have had are not given out again."""
        if not entries and manifest.tail_block is None:
            return None
        known = [entry.head.next_seq for entry in entries]
        known += [] if durable is None else [durable.next_seq]
        if self.losses and manifest.tail_block is not None:
            known.append(manifest.tail_block[1])
        reached = manifest.next_seq if manifest.tail_block is None else manifest.tail_seq
        kept = kept_of(entries)
        return Head(
            {},
            max([*known, reached]),
            kept.producers,
            True,
            len(manifest.schemas) - 1,
            kept.late,
            kept.shares.saved(),
            kept.newest,
        )


def _split_names(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        yield from entry.head.splits


def _once(
    batches: Sequence[pa.RecordBatch], are_there: Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]
) -> list[pa.RecordBatch]:
    """Rows without those that are there already, or came before among them."""
    seen = np.empty(0, np.int64)
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        numbers = seqs(batch)
        keep = ~are_there(batch) & ~np.isin(numbers, seen)
        _, firsts = np.unique(numbers, return_index=True)
        is_first = np.zeros(len(numbers), np.bool_)
        is_first[firsts] = True
        keep &= is_first
        chosen = batch if keep.all() else batch.filter(pa.array(keep))
        if chosen.num_rows:
            kept.append(chosen)
            seen = np.concatenate([seen, seqs(chosen)])
    return kept
