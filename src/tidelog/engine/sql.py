"""SQL over the streams of a store: what the layer of SQL needs of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model.arguments import integer
from tidelog.model.arguments import text as checked_text
from tidelog.sql.database import Database
from tidelog.sql.result import Result
from tidelog.sql.sources import StreamAt, Streams
from tidelog.sql.statements import run
from tidelog.store.manifest.sequence_set import SeqSet

if TYPE_CHECKING:
    from tidelog.engine.store import Store


class StoreSql:
    """What answers the statements of one store. It has a DuckDB for each time zone that was asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._databases: dict[str, Database] = {}
        self._mutex = threading.Lock()

    def run(self, text: str, params: Any, tables: Mapping[str, Any] | None, as_of: int | None, timezone: str) -> Result:
        """See :meth:`tidelog.engine.store.Store.sql`."""
        return run(
            text,
            params,
            streams=_StoreStreams(self._store),
            changes=None,
            database=self._database(checked_text("timezone", timezone)),
            tables=tables,
            as_of=None if as_of is None else integer("as_of", as_of, 0),
            timezone=timezone,
        )

    def _database(self, timezone: str) -> Database:
        with self._mutex:
            if timezone not in self._databases:
                self._databases[timezone] = Database(timezone)
            return self._databases[timezone]

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
