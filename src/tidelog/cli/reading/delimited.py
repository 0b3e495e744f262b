"""CSV: values separated by commas or another sign, with a line of names at the top.

Values are read as bytes and converted here, so that the first value that does not fit is known with its row and column,
and every row before it can be kept.
"""

from __future__ import annotations

import csv
import io
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.quotes import QuoteWatch
from tidelog.cli.reading.seconds import holds_seconds
from tidelog.cli.reading.source import BadRowError, fitted, taken
from tidelog.cli.reading.texts import decoded, inferred_type, typed
from tidelog.cli.telling.units import count, size
from tidelog.model import Schema
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.errors import InputError, TidelogError

BLOCK_BYTES = 4 << 20

_SEPARATORS: Final = ",;|\t"

_PATIENCE: Final = 5.0
"""Seconds that the parser gets at most to let go of what it has read."""


class DelimitedSource:
    """A CSV input. Empty values are null, but empty texts when in quotes; ``nulls`` are further texts for null.

    ``columns`` are the only ones that are taken. Numbers of a column must be what their texts say, unless its type was
    ``told``.
    """

    def __init__(
        self,
        content: Input,
        *,
        delimiter: str = ",",
        nulls: Sequence[str] = (),
        columns: Collection[str] | None = None,
        told: Collection[str] = (),
    ) -> None:
        self._input = content
        names = _header(content, delimiter)
        self._names = taken(names, columns, content.name) if names else []
        self._told = frozenset(told)
        self._in_seconds: dict[str, bool] = {}
        """Columns of times, and whether their numbers are seconds, as soon as it is known."""
        self._delimiter = delimiter
        self._quotes = QuoteWatch(delimiter)
        self._nulls = ["", *nulls]
        self._bad_row: tuple[int, str] | None = None
        """The first row that is none, and why."""
        self._short_rows = 0
        self._last_short_row = -1
        self._first: pa.RecordBatch | None = None
        self._blocks = self._read() if self._names else iter(())
        self._reader: pa.csv.CSVStreamingReader | None = None
        self._held: weakref.ref[_WatchedContent] | None = None
        """What the parser reads, as long as it holds it."""
        content.on_close(self._end)

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """From the first block of rows."""
        if not self._names:
            raise InputError(f"{self._input.name}: found nothing; expected a line of column names and then rows")
        self._check_separated(time)
        self._first = next(self._blocks, None)
        if self._bad_row is not None and not (self._first and self._first.num_rows):  # no value tells a type
            raise BadRowError(self._input.name, self._bad_row[1], row=self._bad_row[0])
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
        self._check_separated(schema.time)
        row = 0
        while (block := self._next()) is not None:
            end = row + block.num_rows
            # The parser runs ahead: a row of the wrong length may be known before the blocks in front of it are here.
            bad = self._bad_row if self._bad_row is not None and self._bad_row[0] <= end else None
            if bad is not None:
                block = block.slice(0, bad[0] - row)
            batch, fault = self._typed(block, schema, row)
            yield from fitted(batch, schema, self._input.name, row)
            if fault is not None:
                raise fault
            if bad is not None:
                break
            row = end
        if self._bad_row is not None:
            raise BadRowError(self._input.name, self._bad_row[1], row=self._bad_row[0])

    def _check_separated(self, time: str) -> None:
        """Raise if the line of names is one name, in which another sign seems to separate them."""
        if self._names != [time] and len(self._names) == 1 and any(sign in self._names[0] for sign in _SEPARATORS):
            raise InputError(
                f"{self._input.name}: found one column, {self._names[0]!r}; if another sign than "
                f"{self._delimiter!r} separates its names, say so with --delimiter"
            )

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
                columns.append(self._typed_column(text, schema.field(name)) if name in schema else text)
            except Misfit as misfit:
                reason = misfit.reason
                if "--type" not in reason:
                    reason += "; mend the row, or if the value stands for null, say so with --null"
                fault = BadRowError(self._input.name, reason, row=first_row + misfit.row, column=name)
                # Columns to come may have a fault further up: begin again with the rows above this one.
                block, columns = block.slice(0, misfit.row), []
        return pa.RecordBatch.from_arrays(columns, names=self._names), fault

    def _typed_column(self, text: pa.Array, field: pa.Field) -> pa.Array:
        name = field.name
        if pa.types.is_timestamp(field.type) and name not in self._in_seconds:
            found = holds_seconds(text)
            if found is not None:
                self._in_seconds[name] = found
        return typed(text, field, in_seconds=self._in_seconds.get(name, False), as_told=name in self._told)

    def _text(self, block: pa.RecordBatch, index: int) -> pa.Array:
        try:
            return decoded(block.column(index))
        except Misfit as misfit:
            raise BadRowError(self._input.name, misfit.reason, row=misfit.row, column=self._names[index]) from None

    def _read(self) -> Iterator[pa.RecordBatch]:
        """The blocks of the parser, without what a quote that is not closed has swallowed."""
        rows = 0
        waiting: pa.RecordBatch | None = None  # the last one is not known to be right before the end is seen
        try:
            for block in self._parsed():
                if not block.num_rows:
                    continue
                if waiting is not None:
                    yield waiting
                waiting = block
                rows += block.num_rows
        except pa.ArrowInvalid as error:
            if waiting is not None:
                yield waiting
            if not self._quotes.is_open:
                raise self._input.broken(error) from error
            self._note_bad_row(rows + self._short_rows, self._open_quote(f"within {size(BLOCK_BYTES)}"))
            return
        if self._quotes.is_open and rows + self._short_rows:
            last = rows + self._short_rows - 1
            if self._last_short_row == last and self._bad_row is not None and self._bad_row[0] == last:
                self._bad_row = None
            elif waiting is not None and self._last_short_row != last:
                waiting = waiting.slice(0, waiting.num_rows - 1)
            self._note_bad_row(last, self._open_quote("up to the end"))
        if waiting is not None:
            yield waiting

    def _end(self) -> None:
        """Let the parser come to its end: the thread in which it reads ahead must hold nothing when Python ends.

        Having read everything, it lets go of the content a little later, for which it needs Python once more.
        """
        self._input.abandon()
        reader, self._reader = self._reader, None
        if reader is None:
            return
        with suppress(pa.ArrowException, TidelogError, OSError, ValueError):
            for _ in reader:
                pass
        del reader
        self._blocks = iter(())
        deadline = time.monotonic() + _PATIENCE
        while self._held is not None and self._held() is not None and time.monotonic() < deadline:
            time.sleep(0.001)

    def _parsed(self) -> pa.csv.CSVStreamingReader:
        content = _WatchedContent(self._input, self._quotes)
        self._held = weakref.ref(content)
        self._reader = pa.csv.open_csv(
            pa.PythonFile(content, mode="r"),
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),  # else rows have no numbers
            parse_options=pa.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._note_short_row
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=self._names,
                column_types=dict.fromkeys(self._names, pa.binary()),
                null_values=self._nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return self._reader

    def _open_quote(self, how_far: str) -> str:
        return (
            f"found a quote in line {count(self._quotes.line)} that is not closed {how_far}; close it, or if it means "
            'itself, write it twice and put the value into quotes: "5"" pipe"'
        )

    def _note_short_row(self, row: Any) -> str:
        """Called by the parser for rows of the wrong length; only the first matters."""
        shown = row.text if len(row.text) <= 80 else row.text[:77] + "..."
        self._short_rows += 1
        self._last_short_row = row.number - 2  # the parser counts from 1, and the line of names too
        self._note_bad_row(
            self._last_short_row, f"found {row.actual_columns} values, expected {row.expected_columns}: {shown!r}"
        )
        return "skip"

    def _note_bad_row(self, row: int, reason: str) -> None:
        if self._bad_row is None:
            self._bad_row = (row, reason)


class _WatchedContent:
    """An input for the parser, which would close it, and what its quotes are up to."""

    closed = False

    def __init__(self, content: Input, quotes: QuoteWatch) -> None:
        self._content = content
        self._quotes = quotes

    def read(self, length: int = -1) -> bytes:
        data = self._content.read(length)
        self._quotes.feed(data)
        return data

    def close(self) -> None:
        """Left to who opened the input."""


def _header(content: Input, delimiter: str) -> list[str]:
    """The column names; none if there is no content."""
    head = content.peek()
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # What was looked at may end inside of a character; the names may not.
        text = head[: error.start].decode("utf-8-sig")
        if not text.strip("\r\n").count("\n"):
            raise content.broken(
                "its line of column names is no text in UTF-8; convert the file, as `iconv -t UTF-8` does"
            ) from error
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names = next((row for row in rows if row), [])
    except csv.Error as error:
        reason = "a quote in it is not closed" if "end of data" in str(error) else error
        raise content.broken(f"its line of column names is damaged: {reason}") from error
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{content.name}: found two columns called {name!r}; rename one", column=name)
    return names
