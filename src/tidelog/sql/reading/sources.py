"""What a statement may read: streams, each at one moment, and tables that the caller gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelog.model.arguments import found
from tidelog.model.errors import InputError
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StreamAt:
    """A stream at one moment."""

    name: str
    snapshot: Snapshot
    numbers: SeqSet | None
    """The sequence numbers of the rows that count; None if all do."""
    options: StreamOptions

    @property
    def time(self) -> str:
        """The column of event times."""
        return self.snapshot.layout.schema.time


class Streams(ABC):
    """The streams of a store, as SQL sees them."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of all streams."""

    @abstractmethod
    def at(self, name: str, version: int | None) -> StreamAt:
        """A stream now, or as of a sequence number. Raises :class:`NotFoundError` if there is none of that name."""


class NoStreams(Streams):
    """What there is without a store."""

    def names(self) -> Sequence[str]:
        """None."""
        return ()

    def at(self, name: str, version: int | None) -> StreamAt:
        """Is never called for a name that is not there."""
        raise NotImplementedError


def checked_tables(tables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Tables by name, as DuckDB takes them. Raises :class:`InputError` for what is no table.

    Readers, which can be read once, become tables in memory: a query may be fetched again.
    """
    if tables is None:
        return {}
    if not isinstance(tables, Mapping):
        raise found("tables", tables, "a dict of names and tables")
    return {_name(name): _table(name, value) for name, value in tables.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise found("the name of a table", name, "a text")
    return name


def _table(name: str, value: Any) -> pa.Table:
    table = _taken(name, value)
    if not table.num_columns:
        raise InputError(f"table {name!r} has no columns; expected one at least")
    return table


def _taken(name: str, value: Any) -> pa.Table:
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, Mapping):
        return _made(name, pa.table, value)
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        return _made(name, pa.Table.from_pylist, value)
    if hasattr(value, "__arrow_c_stream__"):
        return _made(name, pa.table, value)
    if type(value).__module__.startswith("pandas") and hasattr(value, "columns"):
        return _made(name, pa.Table.from_pandas, value)
    raise found(f"table {name!r}", value, "an Arrow, pandas or Polars table, or anything with __arrow_c_stream__")


def _made(name: str, make: Any, value: Any) -> pa.Table:
    try:
        return make(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"table {name!r} cannot be taken as one: {error}") from error
