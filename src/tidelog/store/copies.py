"""What copies of streams are written by: files as they are, rows as closed splits, a journal of what else counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final

import numpy as np

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import NotFoundError
from tidelog.storage.media.medium import Medium
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.sequence_set import Span
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.parts.part import Part
from tidelog.store.rows.merge import chained
from tidelog.store.rows.stored import times
from tidelog.store.split.context import StreamContext
from tidelog.store.split.split_sink import SplitSink
from tidelog.store.tail.journal import Head, TailJournal
from tidelog.store.tail.paths import published_path, tail_path
from tidelog.store.tail.record import Publisher, TailRecord

_CHUNK: Final = 8 << 20
"""Bytes that are copied at once."""


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
        publisher.publish(TailRecord(journal.name, journal.file.last, {}, head.next_seq, block))
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
    with SplitSink(context, "late") as late, SplitSink(context, "regular", width=width) as regular:
        for batch in chained(runs, layout.time, layout.sequence):
            count = 0 if sealed is None else int(np.searchsorted(times(batch, layout.schema), sealed))
            late.append(batch.slice(0, count))
            regular.append(batch.slice(count))
        return [*late.finish(), *regular.finish()]
