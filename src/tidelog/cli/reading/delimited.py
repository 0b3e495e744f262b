"""CSV: values separated by commas or another sign, with a line of names at the top.

Values are read as bytes and converted here, so that the first value that does not fit is known with its row and column,
and every row before it can be kept.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.source import BadRowError, fitted
from tidelog.cli.reading.texts import decoded, inferred_type, typed
from tidelog.model import Schema
from tidelog.model.errors import InputError
from tidelog.model.misfit import Misfit

BLOCK_BYTES = 4 << 20


class DelimitedSource:
    """A CSV input. Empty values are null, but empty texts when in quotes; ``nulls`` are further texts for null."""

    def __init__(self, content: Input, *, delimiter: str = ",", nulls: Sequence[str] = ()) -> None:
        self._input = content
        self._names = _header(content, delimiter)
        self._delimiter = delimiter
        self._nulls = ["", *nulls]
        self._short_row: tuple[int, str] | None = None
        self._first: pa.RecordBatch | None = None
        self._blocks = self._read() if self._names else iter(())

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """From the first block of rows."""
        if not self._names:
            raise InputError(f"{self._input.name}: found nothing; expected a line of column names and then rows")
        self._first = next(self._blocks, None)
        fields = []
        for index, name in enumerate(self._names):
            if name in types or self._first is None:
                fields.append((name, types.get(name, pa.null())))
            else:
                text = self._text(self._first, index)
                fields.append((name, inferred_type(text, is_time=name == time)))
        return Schema(pa.schema(fields), time)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Block by block."""
        row = 0
        while (block := self._next()) is not None:
            end = row + block.num_rows
            # The parser runs ahead: a row of the wrong length may be known before the blocks in front of it are here.
            short = self._short_row if self._short_row is not None and self._short_row[0] <= end else None
            if short is not None:
                block = block.slice(0, short[0] - row)
            batch, fault = self._typed(block, schema, row)
            yield from fitted(batch, schema, self._input.name, row)
            if fault is not None:
                raise fault
            if short is not None:
                break
            row = end
        if self._short_row is not None:
            raise BadRowError(self._input.name, self._short_row[1], row=self._short_row[0])

    def _next(self) -> pa.RecordBatch | None:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._blocks, None)

    def _typed(
        self, block: pa.RecordBatch, schema: Schema, first_row: int
    ) -> tuple[pa.RecordBatch, BadRowError | None]:
        """The block with typed columns, and the first fault, if there is one: then only the rows before it."""
        fault: BadRowError | None = None
        columns: list[pa.Array] = []
        while len(columns) < len(self._names):
            name = self._names[len(columns)]
            try:
                text = decoded(block.column(len(columns)))
                columns.append(typed(text, schema.field(name)) if name in schema else text)
            except Misfit as misfit:
                reason = f"{misfit.reason}; mend the row, or if the value stands for null, say so with --null"
                fault = BadRowError(self._input.name, reason, row=first_row + misfit.row, column=name)
                # Columns to come may have a fault further up: begin again with the rows above this one.
                block, columns = block.slice(0, misfit.row), []
        return pa.RecordBatch.from_arrays(columns, names=self._names), fault

    def _text(self, block: pa.RecordBatch, index: int) -> pa.Array:
        try:
            return decoded(block.column(index))
        except Misfit as misfit:
            raise BadRowError(self._input.name, misfit.reason, row=misfit.row, column=self._names[index]) from None

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from pa.csv.open_csv(
                self._input.for_arrow(),
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),  # else rows have no numbers
                parse_options=pa.csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._note_short_row
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.binary()),
                    null_values=self._nulls,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._input.broken(error) from error

    def _note_short_row(self, row: Any) -> str:
        """Called by the parser for rows of the wrong length; only the first matters."""
        if self._short_row is None:
            shown = row.text if len(row.text) <= 80 else row.text[:77] + "..."
            reason = f"found {row.actual_columns} values, expected {row.expected_columns}: {shown!r}"
            self._short_row = (row.number - 2, reason)  # the parser counts from 1, and the line of names too
        return "skip"


def _header(content: Input, delimiter: str) -> list[str]:
    """The column names; none if there is no content."""
    head = content.peek()
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # What was looked at may end inside of a character; the names may not.
        text = head[: error.start].decode("utf-8-sig")
    try:
        names = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    except csv.Error as error:
        raise content.broken(f"its line of column names is damaged: {error}") from error
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{content.name}: found two columns called {name!r}; rename one", column=name)
    return names
