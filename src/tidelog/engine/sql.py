"""SQL over the streams of a store: what the layer of SQL needs of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.engine.altering import configuration
from tidelog.engine.online.inputs import stream_shape
from tidelog.engine.store import create_whole, manifests_of, refuse_read_only
from tidelog.engine.stream import writer_of
from tidelog.model import to_batches
from tidelog.model.arguments import integer
from tidelog.model.arguments import text as checked_text
from tidelog.model.errors import LockedError, StorageError
from tidelog.model.schema import Schema
from tidelog.sql.changing.changes import Changes
from tidelog.sql.continuous import Continuous, read_continuous
from tidelog.sql.database import Database
from tidelog.sql.reading.sources import StreamAt, Streams
from tidelog.sql.result import Result
from tidelog.sql.statements import run
from tidelog.storage.media.medium import Medium
from tidelog.store.bulk import BulkWriter, commit_bulk, remove_files
from tidelog.store.manifest.manifest import ManifestLog
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.split.context import StreamContext

if TYPE_CHECKING:
    from tidelog.engine.store import Store

_FEW_BYTES: Final = 1 << 20
"""Rows that go to the tail of a stream, as one record of its journal; more of them become splits of their own."""


class StoreSql:
    """What answers the statements of one store. It has a DuckDB for each time zone that was asked for."""

    def __init__(self, store: Store, medium: Medium | None, memory: int | None) -> None:
        """``medium`` is where it may spill what takes more bytes of memory; None: where the system has room."""
        self._store = store
        self._medium = medium
        self._memory = memory
        self._databases: dict[str, Database] = {}
        self._mutex = threading.Lock()

    def run(self, text: str, params: Any, tables: Mapping[str, Any] | None, as_of: int | None, timezone: str) -> Result:
        """See :meth:`tidelog.engine.store.Store.sql`."""
        return run(
            text,
            params,
            streams=_StoreStreams(self._store),
            changes=_StoreChanges(self._store),
            database=self._database(checked_text("timezone", timezone)),
            tables=tables,
            as_of=None if as_of is None else integer("as_of", as_of, 0),
            timezone=timezone,
        )

    def continuous(self, text: str, params: Any, tables: Mapping[str, Any] | None = None) -> Continuous:
        """A text as a continuous query of the streams of the store, and of tables that are looked up."""
        store = self._store
        return read_continuous(
            text, params, self._database("UTC"), store.streams(), lambda name: stream_shape(store.stream(name)), tables
        )

    def _database(self, timezone: str) -> Database:
        with self._mutex:
            if timezone not in self._databases:
                self._databases[timezone] = Database(timezone, self._memory, self._medium)
            return self._databases[timezone]

    def interrupt(self) -> None:
        """See :meth:`tidelog.engine.store.Store.interrupt`."""
        with self._mutex:
            databases = list(self._databases.values())
        for database in databases:
            database.interrupt()

    def close(self) -> None:
        """Results that were not fetched cannot be any more."""
        for database in self._databases.values():
            database.close()


class _StoreStreams(Streams):
    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self) -> Sequence[str]:
        return self._store.streams()

    def at(self, name: str, version: int | None) -> StreamAt:
        stream = self._store.stream(name)
        numbers = None if version is None else SeqSet.below(version)
        return StreamAt(name, stream.snapshot(), numbers, stream.options)


class _StoreChanges(Changes):
    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self) -> None:
        refuse_read_only(self._store)

    def create(self, name: str, schema: Schema, options: StreamOptions, rows: pa.RecordBatchReader | None) -> int:
        stored = 0

        def fill(manifests: ManifestLog) -> None:
            nonlocal stored
            if rows is not None:
                stored = _load(manifests, to_batches(rows, schema))

        create_whole(self._store, name, schema, options, fill)
        return stored

    def insert(self, name: str, rows: pa.RecordBatchReader) -> int:
        stream = self._store.stream(name)
        few: list[pa.RecordBatch] = []
        size = 0
        while (size <= _FEW_BYTES or stream.options.too_late != "accept") and (batch := next(rows, None)) is not None:
            few.append(batch)
            size += batch.nbytes
        table = pa.Table.from_batches(few, rows.schema)
        if size <= _FEW_BYTES or stream.options.too_late != "accept":
            try:
                writer_of(stream).append_whole(table)
                return int(table.num_rows)
            except LockedError:
                # Another process has the tail, where alone it is known what is too late; splits can be added beside it.
                if stream.options.too_late != "accept":
                    raise
        all_rows = pa.RecordBatchReader.from_batches(rows.schema, chain(few, rows))
        writer = writer_of(stream)
        return _load(writer.manifests, to_batches(all_rows, writer.schema))

    def delete_before(self, name: str, time: int) -> None:
        self._store.stream(name).delete_before(time)

    def drop(self, name: str) -> None:
        self._store.drop_stream(name)

    def rename(self, name: str, new: str) -> None:
        self._store.rename_stream(name, new)

    def evolve(
        self,
        name: str,
        *,
        add: Mapping[str, pa.DataType] | None = None,
        widen: Mapping[str, pa.DataType] | None = None,
        rename: Mapping[str, str] | None = None,
        loosen: Sequence[str] = (),
    ) -> None:
        self._store.stream(name).evolve(add=add or (), widen=widen, rename=rename, loosen=loosen)

    def check_configuration(self, name: str, options: Mapping[str, Any]) -> None:
        configuration(options, manifests_of(self._store, name).load())

    def configure(self, name: str, options: Mapping[str, Any]) -> None:
        self._store.stream(name).configure(**options)

    def attach(self, name: str, aggregates: Sequence[str], *, rebuild: bool) -> None:
        self._store.stream(name).attach(aggregates, "rebuild" if rebuild else "next_split")

    def detach(self, name: str, aggregates: Sequence[str]) -> None:
        self._store.stream(name).detach(aggregates)


def _load(manifests: ManifestLog, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows into splits, and commit all of them at once; returns how many."""
    with BulkWriter(StreamContext.of(manifests)) as writer:
        for batch in batches:
            writer.append(batch)
        infos = writer.finish()
    try:
        if infos:
            commit_bulk(manifests, infos)
    except BaseException:
        with suppress(StorageError):
            remove_files(manifests, infos)
        raise
    return writer.rows
