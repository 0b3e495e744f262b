"""What copies of streams are written by: files as they are, rows as closed splits, a journal of what else counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import NotFoundError
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.interval import Interval
from tidelog.storage.media.medium import Medium
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.sequence_set import Span
from tidelog.store.manifest.split_info import SplitInfo, SplitKind
from tidelog.store.read.parts.part import Part
from tidelog.store.rows.memory import MemoryRows
from tidelog.store.rows.merge import chained
from tidelog.store.rows.stored import times
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import OpenSplit
from tidelog.store.tail.journal import Head, TailJournal
from tidelog.store.tail.paths import published_path, tail_path
from tidelog.store.tail.record import Publisher, TailRecord

_CHUNK: Final = 8 << 20
"""Bytes that are copied at once."""

_LEAVES: Final = 16
"""Leaves of rows that are gathered before they are encoded together."""


def copy_file(source: Medium, target: Medium, name: str) -> Iterator[int]:
    """Copy a file, durably but for its name; yields numbers of bytes as they are copied."""
    with source.open(name) as file:
        size = file.size()
        with suppress(NotFoundError):  # what an attempt before has left
            target.remove(name)
        with target.create(name) as copy:
            for offset in range(0, size, _CHUNK):
                content = file.read(offset, min(_CHUNK, size - offset))
                copy.write(offset, content)
                yield len(content)
            copy.sync()


def write_journal(target: Medium, stream: str, head: Head, block: Span | None) -> None:
    """The first journal of a copied stream, in the directory ``stream``, and the tail record that names it."""
    directory = tail_path(stream)
    target.make_directory(directory)
    journal = TailJournal(target, directory, head, None, 1)
    journal.close()
    with closing(Publisher(target, published_path(stream))) as publisher:
        publisher.publish(TailRecord(journal.name, journal.records, {}, head.next_seq, block))
        publisher.sync()
    target.sync_names(directory)


def split_rows(context: StreamContext, manifest: Manifest, parts: Sequence[Part]) -> list[SplitInfo]:
    """The rows of parts as closed splits, cut as the tail would have done it.

    Rows older than what closed splits of the tail have are late, and become splits of their own.
    """
    layout = context.layout
    sealed = max((info.time_max for info in manifest.splits.values() if info.kind == "regular"), default=None)
    runs = [
        (part.first, part.last, partial(part.scan, None, None, layout.stored.names, None, ReadCounters()))
        for part in parts
    ]
    width = context.options.split_ticks(layout.schema.clock)
    with _SplitWriter(context, "late", None) as late, _SplitWriter(context, "regular", width) as regular:
        for batch in chained(runs, layout.time, layout.sequence):
            count = 0 if sealed is None else int(np.searchsorted(times(batch, layout.schema), sealed))
            late.append(batch.slice(0, count))
            regular.append(batch.slice(count))
        return [*late.finish(), *regular.finish()]


class _SplitWriter:
    """Writes sorted rows, with the sequence numbers they have, to splits that end by time and size."""

    def __init__(self, context: StreamContext, kind: SplitKind, width: int | None) -> None:
        self._context = context
        self._kind: SplitKind = kind
        self._width = width
        self._rows = MemoryRows(context.layout.schema, context.layout.stored)
        self._split: OpenSplit | None = None
        self._infos: list[SplitInfo] = []

    def append(self, batch: pa.RecordBatch) -> None:
        """Take rows, none of which is before the last."""
        while batch.num_rows:
            at = times(batch, self._context.layout.schema)
            first = int(at[0])
            if self._split is not None and not self._split.takes(first):
                self._close()
            if self._split is None:
                self._split = OpenSplit.create(self._context, self._boundary(first))
            end = None if self._split.boundary is None else self._split.boundary.end
            count = len(at) if end is None or end > INT64_MAX else int(np.searchsorted(at, end))
            self._rows.add(batch.slice(0, count))
            batch = batch.slice(count)
            leaf = self._context.options.leaf_rows
            if self._rows.rows >= _LEAVES * leaf:
                self._split.extend(self._rows.take(self._rows.rows // leaf * leaf))
                if self._split.bytes >= self._context.options.split_bytes:
                    self._close()

    def _boundary(self, time: int) -> Interval | None:
        if self._width is None:
            return None
        start = time // self._width * self._width
        return Interval(start, start + self._width)

    def _close(self) -> None:
        split, self._split = self._split, None
        if split is not None:
            try:
                if self._rows.rows:
                    split.extend(self._rows.take())
                self._infos.append(split.close(self._kind))
            except BaseException:
                split.abandon()
                raise

    def finish(self) -> list[SplitInfo]:
        """Close the last split; returns all."""
        self._close()
        return self._infos

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._split is not None:
            self._split.abandon()
