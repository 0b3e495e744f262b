"""What statements may change, in the words of the store: the engine does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidelog.model.schema import Schema
from tidelog.store.manifest.options import StreamOptions


class Changes(ABC):
    """Changes of the streams of a store. Each is durable on return, and done whole or not at all."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`ReadOnlyError` if nothing can be changed."""

    @abstractmethod
    def create(self, name: str, schema: Schema, options: StreamOptions, rows: pa.RecordBatchReader | None) -> int:
        """Create a stream, with rows if some are given; returns how many were stored.

        Raises :class:`ExistsError` if there is one of that name.
        """

    @abstractmethod
    def insert(self, name: str, rows: pa.RecordBatchReader) -> int:
        """Append rows; returns how many."""

    @abstractmethod
    def delete_before(self, name: str, time: int) -> None:
        """Delete all events before a time, given in ticks."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Drop a stream."""

    @abstractmethod
    def rename(self, name: str, new: str) -> None:
        """Give a stream another name."""

    @abstractmethod
    def evolve(
        self,
        name: str,
        *,
        add: Mapping[str, pa.DataType] | None = None,
        widen: Mapping[str, pa.DataType] | None = None,
        rename: Mapping[str, str] | None = None,
        loosen: Sequence[str] = (),
    ) -> None:
        """Add, widen and rename columns, and let them have nulls."""

    @abstractmethod
    def check_configuration(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise what :meth:`configure` would raise for these options."""

    @abstractmethod
    def configure(self, name: str, options: Mapping[str, Any]) -> None:
        """Change options."""

    @abstractmethod
    def attach(self, name: str, aggregates: Sequence[str], *, rebuild: bool) -> None:
        """Have further aggregates kept, from the next split on; with ``rebuild`` in those that are there as well."""

    @abstractmethod
    def detach(self, name: str, aggregates: Sequence[str]) -> None:
        """Stop keeping aggregates."""
