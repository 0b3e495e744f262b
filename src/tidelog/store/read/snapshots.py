"""Taking snapshots: what the writer of a tail sees, what it has published, and what one that has gone has left."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import CorruptionError, NotFoundError, StorageError
from tidelog.storage import ContainerReader
from tidelog.store.manifest.deletions import is_deleted
from tidelog.store.manifest.manifest import Manifest, ManifestLog, SplitInfo
from tidelog.store.manifest.sequence_set import Span
from tidelog.store.read.parts.evolved import under
from tidelog.store.read.parts.memory import MemoryPart
from tidelog.store.read.parts.part import Opened, Part
from tidelog.store.read.parts.split_trees import SplitParts, SplitTrees
from tidelog.store.read.parts.tree import TreePart
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.rows.stored import seqs, sorted_rows, times
from tidelog.store.split.context import StreamContext
from tidelog.store.split.entry_bounds import tree_numbers
from tidelog.store.split.open_files import FILES
from tidelog.store.tail.journal import read_entries
from tidelog.store.tail.paths import live_path, published_path
from tidelog.store.tail.record import Publications, TailRecord
from tidelog.store.tail.state import TailState, is_closed, not_in, read_state, state_of, tail_splits
from tidelog.store.tail.tail import TailView

_ATTEMPTS: Final = 100


def _rest(block: Span | None, number: int) -> tuple[Span, ...]:
    """What of a block is left from a number on."""
    return () if block is None or number >= block[1] else ((max(number, block[0]), block[1]),)


def _is_hidden(manifest: Manifest, info: SplitInfo | None) -> bool:
    return info is not None and info.kind == "coarse" and is_deleted(manifest, info)


class Snapshots:
    """Takes snapshots of one stream; keeps trees of closed splits open. May be used from several threads."""

    def __init__(self, context: StreamContext, manifests: ManifestLog, version: int | None = None) -> None:
        """Snapshots have the newest schema of the stream, or another ``version`` of it."""
        self._context = context
        self._version = version
        self._manifests = manifests
        self._trees = SplitTrees(context)
        self._parts: SplitParts | None = None
        """Those of the last snapshot."""
        self._publications = Publications(context.medium, published_path(context.directory))
        self._last: tuple[tuple[Hashable, ...], Snapshot] | None = None
        """The last snapshot, and what it was taken of: as long as that stays the same, so does the snapshot."""
        self._open: list[weakref.ref[TreeReader]] = []
        """Splits of somebody else's tail that are open for that snapshot."""

    def renew(self, context: StreamContext) -> None:
        """Go on with a context that has another layout."""
        self._context = context
        self._last = None

    def of_tail(self, view: TailView) -> Snapshot:
        """What the writer of the tail sees, to whom ``view`` was given just now."""
        manifest = self._manifests.load()
        key = (id(view), manifest.number)
        last = self._last
        if last is None or last[0] != key:
            # The key stays right for as long as it is used: the view is kept with it.
            unseen = _rest(manifest.tail_block, view.next_seq)
            parts = [TreePart(tree) for tree in view.trees]
            context = self._at(manifest)
            last = self._last = (key, self._snapshot(context, manifest, parts, view.rows, view.next_seq, unseen, view))
        return last[1]

    @property
    def context(self) -> StreamContext:
        """Where the stream is, under the schema of the last snapshot."""
        return self._context

    def under(self, version: int) -> Snapshot:
        """:meth:`newest`, presented under a version of the schema, which may be older than the stream's."""
        if version == len(self._manifests.load().schemas) - 1:
            return self.newest()
        others = Snapshots(self._context, self._manifests, version)
        try:
            return others.newest()
        finally:
            others.close()  # nobody will ask it again, so files are open only while they are read

    def _at(self, manifest: Manifest) -> StreamContext:
        """The context under the schema that snapshots of a manifest have."""
        context = self._context.at(manifest, self._version)
        self._context = context
        return context

    def newest(self) -> Snapshot:
        """Everything that was flushed and committed up to one moment of this call, as any process can see it."""
        failed_at = None
        for attempt in range(_ATTEMPTS):
            try:
                snapshot = self._newest()
                if snapshot is not None:
                    return snapshot
            except (NotFoundError, CorruptionError) as error:
                # A journal or split was replaced while we were looking: look again. A damaged file stays damaged.
                if attempt == _ATTEMPTS - 1 or not self._manifests.exists():
                    raise
                moment = self._moment()
                if moment == failed_at and isinstance(error, CorruptionError):
                    raise
                failed_at = moment
        raise StorageError(
            f"{self._context.directory} changed {_ATTEMPTS} times while it was looked at; "
            "ask again when less is written"
        )

    def _moment(self) -> tuple[Hashable, ...]:
        """What changes when something was written that others can see."""
        medium, directory = self._context.medium, self._context.directory
        number, _ = self._publications.newest()
        return medium.is_locked(live_path(directory)), number, self._manifests.load().number

    def _newest(self) -> Snapshot | None:
        """The newest snapshot; None if something came in between."""
        # A writer publishes when it comes and whenever it has flushed, so with the same publication and manifest
        # nothing has been acknowledged since, whether that writer is still there or not.
        last = self._last
        if last is not None and last[0] == (self._publications.newest()[0], self._manifests.load().number):
            if self._open:
                FILES.used(self, None)
            return last[1]
        is_live = self._context.medium.is_locked(live_path(self._context.directory))
        together = self._together()
        if together is None:
            return None
        number, record, manifest = together
        if is_live and record is not None:
            snapshot: Snapshot | None = self._published(record, manifest)
            # Rows of later flushes that have moved to the manifest already would be seen without the others.
            is_certain = manifest.tail_block == record.block and manifest.tail_seq <= record.next_seq
        else:
            snapshot = self._left_behind()
            is_certain = False
        if snapshot is None:
            return None
        if not is_certain:  # nobody may have changed anything meanwhile
            now = self._context.medium.is_locked(live_path(self._context.directory)), self._publications.newest()[0]
            if now != (is_live, number):
                return None
        self._last = (number, snapshot.manifest.number), snapshot
        if self._open:
            FILES.opened(self, None)
        return snapshot

    def let_go(self, key: None) -> bool:
        """Keep splits of the tail open no longer, and so not the last snapshot; whether nobody is reading them."""
        self._last = None
        return all(reference() is None for reference in self._open)

    def close(self) -> None:
        """Keep no file open any more; scans under way go on with what they have."""
        self._last = self._parts = None
        self._open = []
        FILES.closed(self, None)
        self._publications.close()
        self._trees.close()

    def _together(self) -> tuple[int, TailRecord | None, Manifest] | None:
        """The newest publication, its number, and the newest manifest, all of one moment; None if there was none.

        Whoever sees a commit made beside the tail must see what was flushed before it, and the other way round. So
        they are looked at in turn until one of them was the same before and after the other.
        """
        number, record = self._publications.newest()
        manifest = self._manifests.load()
        for _ in range(_ATTEMPTS):
            before, (number, record) = number, self._publications.newest()
            if number == before:
                return number, record, manifest
            known, manifest = manifest, self._manifests.load()
            if manifest.number == known.number:
                return number, record, manifest
        return None

    def _published(self, record: TailRecord, manifest: Manifest) -> Snapshot:
        """The state that a writer at work has published, beside a manifest of the same moment."""
        context = self._at(manifest)  # knows the version of every record that was published
        entries = read_entries(context.medium, record.journal, context.read_rows, record.records)
        return self._of_state(context, state_of(0, entries, manifest), manifest, record)

    def _left_behind(self) -> Snapshot | None:
        """The state that a writer which has gone has left; None if the schema changed meanwhile."""
        manifest = self._manifests.load()
        context = self._at(manifest)
        state = read_state(context, manifest)
        manifest = self._manifests.load()
        return None if self._at(manifest) is not context else self._of_state(context, state, manifest, None)

    def _of_state(
        self, context: StreamContext, state: TailState, manifest: Manifest, record: TailRecord | None
    ) -> Snapshot:
        splits = state.splits if record is None else record.splits
        trees: list[TreeReader] = []
        opened: list[Opened] = []
        for name, at in splits.items():
            if is_closed(name, manifest):  # by the manifest's newer account; what was overwritten has left it
                continue
            exact = at if record is not None or state.is_exact else None
            # Who takes over what was left behind says so when it is done, and until then has not written anything.
            reader = ContainerReader.open(context.medium, context.path(name), at=exact, writer_at_work=False)
            reader.measure(context.meter)
            tree = TreeReader(reader, context.read_layout(reader))
            if tree.rows:
                trees.append(tree)
                opened.append((name, (reader.commit.number, reader.commit.position)))
        self._open = [weakref.ref(tree) for tree in trees]
        rows = state.rows(context.layout.stored)
        numbers = [state.next_seq, *(tree_numbers(tree)[1] + 1 for tree in trees)]
        journaled: tuple[Span, ...] = ()
        if rows.num_rows:
            journaled = ((int(seqs(rows).min()), int(seqs(rows).max()) + 1),)
            numbers.append(journaled[0][1])
            rows = not_in(trees, rows)
            rows = not_in([self._trees.tree(context, info) for info in tail_splits(manifest, rows)], rows)
        events_at = times(rows, context.layout.schema)
        # Mostly they rise. Asked of NumPy: a process that only plans reads would load kernels for nothing else.
        if not (events_at[1:] > events_at[:-1]).all():
            rows = sorted_rows([rows], context.layout.schema, context.layout.stored)
        if record is not None:
            next_seq, unseen = record.next_seq, _rest(record.block, record.next_seq)
            if manifest.tail_block is not None and manifest.tail_block != record.block:
                unseen += (manifest.tail_block,)  # reserved just now, and nothing in it was published yet
        else:  # what the writer has not left behind will never be there
            next_seq = max(numbers)
            unseen = _rest(manifest.tail_block, next_seq)
        open_parts = [TreePart(tree, at) for tree, at in zip(trees, opened, strict=True)]
        memory = [rows] if rows.num_rows else []
        head = None
        if state.entries:
            last = state.entries[-1].head
            head = last._replace(
                splits={},
                next_seq=next_seq,
                producers=dict(state.producers),
                base=True,
                late=state.late,
                shares=state.shares.saved(),
                newest=state.newest,
            )
        snapshot = self._snapshot(context, manifest, open_parts, memory, next_seq, unseen)
        return replace(snapshot, journaled=journaled, head=head, late=state.late)

    def _snapshot(
        self,
        context: StreamContext,
        manifest: Manifest,
        open_parts: Sequence[Part],
        rows: Sequence[pa.RecordBatch],
        next_seq: int,
        unseen: tuple[Span, ...],
        view: TailView | None = None,
    ) -> Snapshot:
        layout = context.layout
        if len(manifest.schemas) > 1:
            open_parts = [under(part, layout) for part in open_parts]
        self._trees.give_up(lambda name: is_closed(name, manifest))
        self._parts = self._trees.parts(context, manifest, self._parts)
        closed: Collection[Part] = self._parts.parts.values()
        if manifest.deletions:
            # Deletions delete coarse splits as a whole. Their rows cannot be read, not even to leave them out.
            closed = [part for part in closed if not _is_hidden(manifest, part.info)]
        parts: list[Part] = [*closed, *open_parts]
        parts += [MemoryPart(layout, batch) for batch in rows]
        given_out = max(next_seq, manifest.next_seq)
        return Snapshot(manifest, layout, tuple(parts), given_out, unseen, view=view, version=context.version)
