"""What statements may change, in the words of the store: the engine does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa


class Changes(ABC):
    """Changes of the streams of a store. Each is durable on return, and done whole or not at all."""

    @abstractmethod
    def create(
        self,
        name: str,
        schema: pa.Schema,
        time: str,
        options: Mapping[str, Any],
        rows: pa.Table | None,
        *,
        may_exist: bool,
    ) -> int:
        """Create a stream, with rows if some are given; returns how many were stored."""

    @abstractmethod
    def insert(self, name: str, rows: pa.Table) -> int:
        """Append rows; returns how many."""

    @abstractmethod
    def delete_before(self, name: str, time: Any) -> None:
        """Delete all events before a time."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Drop a stream."""

    @abstractmethod
    def rename(self, name: str, new: str) -> None:
        """Give a stream another name."""

    @abstractmethod
    def evolve(
        self, name: str, *, add: Sequence[pa.Field], widen: Mapping[str, pa.DataType], names: Mapping[str, str]
    ) -> None:
        """Add, widen and rename columns."""

    @abstractmethod
    def configure(self, name: str, options: Mapping[str, Any]) -> None:
        """Change options."""

    @abstractmethod
    def attach(self, name: str, aggregates: Sequence[str]) -> None:
        """Have further aggregates kept."""

    @abstractmethod
    def detach(self, name: str, aggregates: Sequence[str]) -> None:
        """Stop keeping aggregates."""
