"""Writing whole splits beside the tail: any number of writers make files, one commit makes all of them visible.

Neither takes the tail lock (docs/design/004-spark.md). The rows of a file are numbered from 0; the commit gives each
file a base, and a row's sequence number is the base plus its number in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Literal, Self

import pyarrow as pa

from tidelog.model.errors import ClosedError, InputError
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.storage.rows.ordered import gathered
from tidelog.store.manifest.deletions import drop_deleted
from tidelog.store.manifest.manifest import Change, Deletion, Manifest, ManifestLog, SplitInfo
from tidelog.store.manifest.sequence_set import EMPTY
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.rows.memory import MemoryRows, split_late
from tidelog.store.rows.stored import as_stored, is_sorted, times, with_seq
from tidelog.store.split.context import StreamContext
from tidelog.store.split.removal import give_up
from tidelog.store.split.split_sink import LEAVES, SplitSink
from tidelog.store.upkeep.coarsening import refuse_overwrite

MEMORY: Final = 64 << 20
"""Bytes of rows, copies made for sorting included, that a writer holds at most unless told otherwise."""


class BulkWriter:
    """Writes rows in any order of time into closed splits that nobody can see yet. One thread at a time.

    Rows in order of time go straight into one split. Rows that come a little late are sorted in memory; those that come
    after newer ones were written are gathered and become splits of their own, so that there are as few splits that
    overlap as memory allows. As a context manager it removes its files unless :meth:`finish` was reached.
    """

    def __init__(self, context: StreamContext, *, memory: int = MEMORY) -> None:
        if memory < 1:
            raise InputError(f"found {memory} bytes of memory for a writer; expected some")
        self._context = context
        self._schema = context.layout.schema
        self._stored = context.layout.stored
        # Late rows, the two copies that sorting takes, and the others together fit the memory.
        self._most_late = max(memory // 4, 1)
        self._most_fresh = max(memory // 8, 1)
        self._fresh = MemoryRows(self._schema, self._stored)
        """Rows not before those written in order."""
        self._late = MemoryRows(self._schema, self._stored)
        self._arrived = 0
        self._in_order = SplitSink(context, "loaded", numbered=True)
        self._out_of_order = SplitSink(context, "loaded", numbered=True)
        self._sealed: int | None = None
        """The time of the last row written in order."""
        self._over = False

    @property
    def rows(self) -> int:
        """How many rows were appended."""
        return self._arrived

    def append(self, batch: pa.RecordBatch) -> None:
        """Write rows of the stream's schema, in any order; their memory must not change before :meth:`finish`.

        After an error nothing can be appended any more: :meth:`abandon` the writer.
        """
        self._check_open()
        if not batch.schema.equals(self._schema.arrow):
            raise InputError(
                f"found a batch of {_fields(batch.schema)}; expected those of the stream, "
                f"{_fields(self._schema.arrow)}: use tidelog.model.to_batches to convert it"
            )
        if self._can_pass(batch):
            self._append(batch)
            return
        step = max(batch.num_rows * self._most_fresh // max(batch.nbytes, 1), 1)
        for first in range(0, batch.num_rows, step):
            self._append(batch.slice(first, step))

    def _can_pass(self, batch: pa.RecordBatch) -> bool:
        """Whether a batch is small, or can be written as it is: others are taken in parts, to be sorted."""
        return batch.nbytes <= self._most_fresh or (self._fresh.is_sorted and self._follows(batch))

    def _follows(self, batch: pa.RecordBatch) -> bool:
        """Whether rows are sorted, and none is before what is written or at hand."""
        at = times(batch, self._schema)
        last = self._sealed if self._fresh.last_time is None else self._fresh.last_time
        return (last is None or bool(at[0] >= last)) and is_sorted(at)

    def _append(self, batch: pa.RecordBatch) -> None:
        rows = with_seq(batch, self._arrived, self._stored)
        self._arrived += batch.num_rows
        timely, late, _ = split_late(rows, self._schema, self._stored, self._sealed)
        fresh = as_stored(timely, self._stored)
        if late is not None:
            self._late.add(gathered([rows], late, self._stored))
            if self._late.bytes >= self._most_late:
                self._write_late()
        if not fresh.num_rows:
            return
        if (
            fresh.num_rows >= LEAVES * self._context.options.leaf_rows
            and self._fresh.is_sorted
            and self._follows(fresh)
        ):
            if self._fresh.rows:
                self._write(self._fresh.take())
            self._write(fresh)  # as it is, without a copy
            return
        self._fresh.add(fresh)
        self._write_fresh()

    def _write_fresh(self) -> None:
        """Write the older ones of the rows at hand, if there are enough."""
        fresh, leaf = self._fresh, self._context.options.leaf_rows
        if fresh.bytes >= self._most_fresh:
            # Those that come a little late can still be put in their place among the other half.
            self._write(fresh.take(_whole(fresh.rows // 2, leaf)))
        elif fresh.is_sorted and fresh.rows >= LEAVES * leaf:
            self._write(fresh.take(_whole(fresh.rows - leaf, leaf)))

    def _write(self, batch: pa.RecordBatch) -> None:
        """Write sorted rows, none of which is before the last one written."""
        self._in_order.write(batch)
        self._sealed = int(times(batch, self._schema)[-1])

    def _write_late(self) -> None:
        """Make a split of the late rows."""
        if self._late.rows:
            self._out_of_order.write(self._late.take())
            self._out_of_order.end_split()

    def finish(self) -> list[SplitInfo]:
        """Write what is left; returns the splits, closed and durable, for :func:`commit_bulk`. Empty without rows."""
        self._check_open()
        if self._fresh.rows:
            self._write(self._fresh.take())
        self._write_late()
        # A late row comes behind all those of its time that were written before it came.
        infos = self._in_order.finish() + self._out_of_order.finish()
        self._over = True
        return infos

    def abandon(self) -> None:
        """Give up and remove the files, which must not have been handed to a commit."""
        self._over = True
        self._in_order.abandon()
        self._out_of_order.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._over:
            self.abandon()

    def _check_open(self) -> None:
        if self._over:
            raise ClosedError("the writer was finished or abandoned; make another one")


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _whole(rows: int, leaf: int) -> int:
    """So many rows, without a leaf that is not full; one leaf at least."""
    return max(rows // leaf * leaf, leaf)


def commit_bulk(
    manifests: ManifestLog,
    infos: Sequence[SplitInfo],
    *,
    transaction: tuple[str, int] | None = None,
    overwrite: Interval | Literal["all"] | None = None,
    outside: Literal["refuse", "append"] = "refuse",
) -> bool:
    """Make the splits of any number of writers visible, all at once and durably.

    ``transaction`` is the name of a producer and a number greater than that of its last one. If it is not greater, the
    same was committed before: nothing happens, the files are removed unless it was they, and False is returned.
    ``overwrite`` deletes what can be seen of a time interval at this moment, in the same commit. What the tail
    publishes later stays, whatever the order of events. Splits with events outside of it are an :class:`InputError`,
    unless ``outside`` says that such events are added.

    Raises :class:`ConflictError` if a file was given up because it was not committed in time.
    """
    infos = list(infos)
    for info in infos:
        if info.seq_base or info.seq_min:
            raise InputError(
                f"split {info.name} has the sequence numbers {info.seq_min} to {info.seq_max} already; expected "
                "splits as BulkWriter.finish returned them"
            )
    interval = ALL_TIME if overwrite == "all" else overwrite
    if interval is not None and interval.is_empty:
        raise InputError(f"found the empty interval {interval} to overwrite; leave it out, to only add rows")
    if interval is not None and outside == "refuse":
        _refuse_outside(infos, interval)
    is_new = True

    def newest() -> Snapshot:
        return Snapshots(StreamContext.of(manifests), manifests).newest()

    def change(manifest: Manifest) -> Change | None:
        nonlocal is_new
        last = None if transaction is None else manifest.transactions.get(transaction[0])
        is_new = last is None or transaction is None or transaction[1] > last
        names = [info.name for info in infos]
        if not is_new or (infos and all(name in manifest.splits for name in names)):
            return None
        visible, first = EMPTY, manifest.next_seq
        if interval is not None:
            # Of this manifest, or of a newer one: then this change comes too late, and is asked for again.
            visible = newest().visible
            first = max(first, visible.stop)
        # What is deleted already is not overwritten: whoever has not seen it has lost it.
        alive = None if interval is None else interval.intersect(Interval(manifest.deleted_before, None))
        deletions = () if alive is None or alive.is_empty or not visible else (Deletion(alive, visible),)
        for deletion in deletions:
            refuse_overwrite(manifest, deletion)
        return Change(
            add=tuple(_based(infos, first)),
            delete=deletions,
            undelete=tuple(old for old in manifest.deletions if any(deletion.includes(old) for deletion in deletions)),
            transactions={} if transaction is None else {transaction[0]: transaction[1]},
        )

    manifests.commit(change)
    if not is_new:
        remove_files(manifests, infos)
        return False
    if interval is not None:
        drop_deleted(manifests, newest().unlisted)
    return True


def _refuse_outside(infos: Iterable[SplitInfo], interval: Interval) -> None:
    for info in infos:
        if not (interval.contains(info.time_min) and interval.contains(info.time_max)):
            raise InputError(
                f"split {info.name} has events from {info.time_min} to {info.time_max}, not all inside of {interval}, "
                "which is overwritten; leave the others out, or say that they are added"
            )


def _based(infos: Iterable[SplitInfo], first: int) -> Iterable[SplitInfo]:
    """Splits with the sequence numbers from ``first`` on."""
    for info in infos:
        yield replace(info, seq_base=first, seq_min=info.seq_min + first, seq_max=info.seq_max + first)
        first += info.seq_max + 1


def remove_files(manifests: ManifestLog, infos: Iterable[SplitInfo]) -> list[str]:
    """Remove the files of splits that will not be committed; returns the names of those that were.

    Safe even if they were committed, or are just now: see :func:`tidelog.store.split.removal.give_up`.
    """
    return give_up(manifests, [info.name for info in infos])
