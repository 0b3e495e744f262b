"""A query that several answer, and whether they answer the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from machines import START_MICROS, TICK_MICROS


class Kind(Enum):
    """How a query is answered, and so what is asked of ourselves."""

    INDEX = "from the index"
    NEWEST = "one end of the stream"
    OTHER = "the events"


@dataclass(frozen=True)
class Query:
    """A query in SQL, and in Polars if it is written for that."""

    name: str
    text: str
    kind: Kind = Kind.OTHER
    frames: Callable[[Mapping[str, Any]], Any] | None = None
    has_tables: bool = False


@dataclass(frozen=True)
class Span:
    """The times of a stream of machines: whole ticks."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, rows: int, machines: int) -> Span:
        """The times of so many rows of so many machines that report in turns."""
        start = datetime.fromtimestamp(START_MICROS // 1_000_000, UTC).replace(tzinfo=None)
        return cls(start, start + timedelta(microseconds=-(-rows // machines) * TICK_MICROS))

    def part(self, length: timedelta, at: float = 0.5) -> Span:
        """A part of some length, as far as there is so much: the last one for 1, else somewhere before."""
        free = max((self.end - self.start) - length, timedelta())
        ticks = int(free * at / timedelta(microseconds=TICK_MICROS))
        start = self.start + ticks * timedelta(microseconds=TICK_MICROS)
        return Span(start, min(start + length, self.end))

    @property
    def sql(self) -> str:
        """The condition on the time."""
        return f"ts >= TIMESTAMP '{self.start}' AND ts < TIMESTAMP '{self.end}'"


def expect_same(query: Query, name: str, found: pa.Table, expected: pa.Table) -> None:
    """Raise unless two contestants give the same rows, in any order, floats but for what their order of adding does."""
    if found.num_rows != expected.num_rows or found.num_columns != expected.num_columns:
        raise AssertionError(
            f"{query.name}: {name} gave {found.num_rows} rows of {found.num_columns} columns, "
            f"expected {expected.num_rows} of {expected.num_columns}"
        )
    for index, (mine, other) in enumerate(zip(_columns(found), _columns(expected), strict=True)):
        same = np.isclose(mine, other, rtol=1e-9, atol=1e-9) if mine.dtype.kind == "f" else mine == other
        if not same.all():
            row = int(np.argmin(same))
            raise AssertionError(f"{query.name}: {name} gave {mine[row]!r} in column {index}, expected {other[row]!r}")


def _columns(table: pa.Table) -> list[Any]:
    """The columns in comparable types, with rows in an order of their own."""
    columns = [_comparable(column) for column in table.columns]
    exact = [column for column in columns if column.dtype.kind != "f"]
    keys = [*(np.round(column, 6) for column in columns if column.dtype.kind == "f"), *exact]
    order = np.lexsort(keys) if keys else np.empty(0, np.int64)
    return [column[order] for column in columns]


def _comparable(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if column.null_count:
        raise AssertionError("a result has nulls, which are not compared")
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string()).to_numpy().astype(str)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64()).to_numpy()
    return column.cast(pa.int64()).to_numpy()
