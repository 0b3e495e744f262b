"""What every input format offers, and how a bad row is told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from tidelog.model import Schema, to_batches
from tidelog.model.errors import InputError, did_you_mean


class BadRowError(InputError):
    """A row of an input does not fit; ``row`` counts the input's rows from 0, the message from 1.

    Raised by a source after it has handed out every row before this one.
    """

    def __init__(self, name: str, reason: str, *, row: int, column: str | None = None) -> None:
        where = f"{name}, row {row + 1}" + (f", column {column!r}" if column is not None else "")
        super().__init__(f"{where}: {reason}", column=column, row=row)


class Source(Protocol):
    """One input of any format. Read once: first, if need be, its schema, then its batches."""

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """The schema of the input, from its first part when the format has none of its own.

        ``types`` has the last word. Raises :class:`SchemaError` for columns that cannot be stored, or none called
        ``time``, and :class:`InputError` for an empty input.
        """

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """All rows as batches of exactly ``schema.arrow``, of any size.

        Raises :class:`BadRowError` for the first row that does not fit, after all rows before it were handed out,
        and :class:`InputError` for an input that does not fit as a whole.
        """


def fitted(batch: pa.RecordBatch, schema: Schema, name: str, first_row: int) -> Iterator[pa.RecordBatch]:
    """A batch under the stream's schema, up to its first bad row if it has one, which is then raised."""
    try:
        yield from to_batches(batch, schema, validate=True)
    except InputError as error:
        if error.row is None:
            raise InputError(f"{name}: {error}", column=error.column) from None
        yield from to_batches(batch.slice(0, error.row), schema)
        raise located(error, name, first_row) from None


def located(error: InputError, name: str, first_row: int) -> BadRowError:
    """The error of a conversion, whose rows count from ``first_row`` of the input, as the input's."""
    row = error.row or 0
    reason = str(error).removeprefix(f"column {error.column!r}, row {row}: ").removeprefix(f"row {row}: ")
    return BadRowError(name, reason, row=first_row + row, column=error.column)


def taken(names: Sequence[str], columns: Collection[str] | None, name: str) -> list[str]:
    """The names of an input's columns that are to be taken, in their order; raises if one of these is not there."""
    if columns is None:
        return list(names)
    for column in columns:
        if column not in names:
            raise InputError(f"{name}: there is no column {column!r}; {did_you_mean(column, names)}", column=column)
    return [each for each in names if each in columns]
