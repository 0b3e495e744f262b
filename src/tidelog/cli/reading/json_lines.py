"""JSON: one object on each line, or one array of objects, which is turned into lines.

Blocks of whole lines go through Arrow's parser. A block that it refuses is read again line by line with the rules that
hold for lists of dicts everywhere in tidelog: these take a little more (2.0 for an integer column, times in several
forms), and where they refuse too, they know the row, the column and the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json

from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.json_arrays import ArrayLines
from tidelog.cli.reading.seconds import DECIMAL, DIGITS, from_decimals, holds_seconds, mixed_numbers, ticks_of
from tidelog.cli.reading.source import BadRowError, fitted, located, taken
from tidelog.cli.reading.texts import inferred_type, typed
from tidelog.model import Schema, to_batches
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.errors import InputError
from tidelog.model.times.instants import shown

BLOCK_BYTES = 4 << 20
_BLANKS = b" \t\r\n"
_ROW_OF_ARROW = re.compile(r" in row (\d+)$")


class JsonLinesSource:
    """An input of JSON objects, one on each line, or all in one array; blank lines are passed over.

    ``columns`` are the only members of objects that are taken.
    """

    def __init__(self, content: Input, *, columns: Collection[str] | None = None) -> None:
        self._input = content
        self._columns = None if columns is None else frozenset(columns)
        self._blocks = self._read()
        self._first: bytes | None = None
        self._in_seconds: dict[str, bool] = {}
        """Columns of times, and whether their numbers are seconds, as soon as it is known."""

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """From the first block of lines; texts of days and times become dates and timestamps."""
        self._first = next(self._blocks, None)
        if self._first is None:
            raise InputError(f"{self._input.name}: found nothing; expected JSON objects")
        found = self._parsed_for_inference(self._first, {})
        # Arrow itself sees times only in some texts: have it read all texts as such, and judge them here.
        texts = [field.name for field in found.schema if _is_text(field.type)]
        if texts:
            order = found.schema.names
            found = self._parsed_for_inference(self._first, dict.fromkeys(texts, pa.string())).select(order)
        fields = []
        for name in taken(
            [*found.schema.names, *(set(types) - set(found.schema.names))], self._columns, self._input.name
        ):
            if name in types:
                type_ = types[name]
            elif name in texts:
                column = found[name].combine_chunks()
                type_ = inferred_type(column, is_time=name == time, times_only=True)
            else:
                type_ = found.schema.field(name).type
                if name == time and pa.types.is_floating(type_):
                    type_ = self._seconds_type(self._first, name) or type_
            fields.append((name, type_))
        return Schema(pa.schema(fields), time)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Block by block."""
        plan = _text_plan(schema, self._columns)
        row = 0
        while (block := self._next()) is not None:
            plan = self._decided(block, schema, plan)
            rows = self._parsed(block, schema, plan)
            if rows is None:
                values = yield from self._line_by_line(block, schema, row)
                row += len(values)
                plan = self._plan_like(values, plan, schema)  # the next block is probably of the same kind
                continue
            yield from rows
            row += sum(batch.num_rows for batch in rows)

    def _decided(self, block: bytes, schema: Schema, plan: pa.Schema) -> pa.Schema:
        """The plan, with numbers for columns of times that have some in this block, if no block before told."""
        open_ones = [
            (index, field.name)
            for index, field in enumerate(plan)
            if pa.types.is_timestamp(schema.field(field.name).type) and field.name not in self._in_seconds
        ]
        if not open_ones:
            return plan
        try:
            found = _parse(block, pa.schema([])).schema
        except pa.ArrowInvalid:
            return plan
        for index, name in open_ones:
            type_ = found.field(name).type if name in found.names else pa.null()
            if pa.types.is_integer(type_) or pa.types.is_floating(type_):
                self._in_seconds[name] = pa.types.is_floating(type_)
                plan = plan.set(index, pa.field(name, DIGITS if self._in_seconds[name] else pa.int64()))
        return plan

    def _plan_like(self, values: list[dict[str, Any]], plan: pa.Schema, schema: Schema) -> pa.Schema:
        """A plan for rows like these, where timestamps may be numbers."""
        for index, field in enumerate(plan):
            if not pa.types.is_timestamp(schema.field(field.name).type):
                continue
            sample = next((row[field.name] for row in values if row.get(field.name) is not None), None)
            if isinstance(sample, str):
                plan = plan.set(index, pa.field(field.name, pa.string()))
            elif sample is not None:
                in_seconds = self._in_seconds.get(field.name, False)
                plan = plan.set(index, pa.field(field.name, DIGITS if in_seconds else pa.int64()))
        return plan

    def _seconds_type(self, block: bytes, name: str) -> pa.DataType | None:
        """The timestamp that holds the numbers of a column exactly, as seconds; None if there is none."""
        try:
            column = _parse(block, pa.schema([(name, DIGITS)]))[name].combine_chunks()
        except pa.ArrowInvalid:
            return None
        for unit in ("us", "ns"):
            with suppress(Misfit):
                from_decimals(column, pa.timestamp(unit))
                return pa.timestamp(unit)
        return None

    def _next(self) -> bytes | None:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._blocks, None)

    def _read(self) -> Iterator[bytes]:
        """Blocks of whole lines that are not all blank."""
        block = self._input.read(BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
        array = ArrayLines() if block.lstrip(_BLANKS).startswith(b"[") else None
        block = block if array is None else array.feed(block)
        while following := self._input.read(BLOCK_BYTES):
            lines, newline, after = block.rpartition(b"\n")
            if lines.strip(_BLANKS):
                yield lines + newline
            block = after + (following if array is None else array.feed(following))
        if block.strip(_BLANKS):
            yield block
        if array is not None and (fault := array.fault()) is not None:
            raise InputError(f"{self._input.name}: {fault}")

    def _parsed_for_inference(self, block: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        try:
            return _parse(block, pa.schema(list(types.items())))
        except pa.ArrowInvalid as error:
            place = _ROW_OF_ARROW.search(str(error))
            if place is None:
                raise self._input.broken(error) from error
            reason = str(error)[: place.start()].removeprefix("JSON parse error: ")
            raise BadRowError(self._input.name, reason, row=int(place[1])) from error

    def _parsed(self, block: bytes, schema: Schema, plan: pa.Schema) -> list[pa.RecordBatch] | None:
        """The block's rows by Arrow's parser, or None if they have to be looked at more closely."""
        try:
            block.decode()  # Arrow's parser takes any bytes for text
            (batch,) = _parse(block, plan, only=self._columns is not None).combine_chunks().to_batches()
            columns = [
                self._typed(column, schema.field(name)) if name in schema else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            return list(fitted(pa.RecordBatch.from_arrays(columns, batch.schema.names), schema, "", 0))
        except (pa.ArrowInvalid, UnicodeDecodeError, Misfit, InputError):
            return None

    def _typed(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if pa.types.is_timestamp(field.type) and column.type == DIGITS:
            return from_decimals(column, field.type)
        if not pa.types.is_string(column.type):
            return column
        if pa.types.is_timestamp(field.type) and field.name not in self._in_seconds:
            found = holds_seconds(column)
            if found is not None:
                self._in_seconds[field.name] = found
        return typed(column, field, in_seconds=self._in_seconds.get(field.name, False), as_told=True)

    def _object(self, line: bytes, schema: Schema) -> dict[str, Any]:
        """The object on a line, with binary values unpacked, and seconds as ticks."""
        value = json.loads(line, parse_float=Decimal if any(self._in_seconds.values()) else float)
        if not isinstance(value, dict):
            raise ValueError(f'found {shown(value)}, expected an object, such as {{"time": 1}}')
        if self._columns is not None:
            value = {name: each for name, each in value.items() if name in self._columns}
        for name, each in value.items():
            if isinstance(each, Decimal) and not self._in_seconds.get(name, False):
                value[name] = float(each)
        for field in schema:
            each = value.get(field.name)
            if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
                if isinstance(each, str):
                    value[field.name] = typed(pa.array([each]), field)[0].as_py()
            elif pa.types.is_timestamp(field.type):
                value[field.name] = self._time(each, field)
        return value

    def _time(self, value: Any, field: pa.Field) -> Any:
        """A time as it is, or in ticks if it is one of a column in seconds."""
        in_seconds = self._in_seconds.get(field.name)
        if in_seconds and isinstance(value, Decimal | int) and not isinstance(value, bool):
            return ticks_of(value, field.type)
        if in_seconds and isinstance(value, str) and DECIMAL.fullmatch(value):
            return ticks_of(Decimal(value.strip()), field.type)
        if in_seconds is False and isinstance(value, float):
            raise Misfit(mixed_numbers(value, field.type))
        return value

    def _line_by_line(
        self, block: bytes, schema: Schema, first_row: int
    ) -> Generator[pa.RecordBatch, None, list[dict[str, Any]]]:
        """The rows of a block; returns their objects."""
        fault: BadRowError | None = None
        values: list[dict[str, Any]] = []
        for line in block.split(b"\n"):
            if line.strip(_BLANKS):
                try:
                    values.append(self._object(line, schema))
                except (ValueError, Misfit) as error:
                    fault = BadRowError(self._input.name, str(error), row=first_row + len(values))
                    break
        try:
            yield from to_batches(values, schema)
        except InputError as error:
            if error.row is None:
                error = _with_row(error, values)
            yield from to_batches(values[: error.row], schema)
            raise located(error, self._input.name, first_row) from None
        if fault is not None:
            raise fault
        return values


def _parse(block: bytes, types: pa.Schema, *, only: bool = False) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(block),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=types, unexpected_field_behavior="ignore" if only else "infer"
        ),
    )


def _is_text(type_: pa.DataType) -> bool:
    """Whether Arrow's parser saw texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_timestamp(type_))


def _text_plan(schema: Schema, columns: Collection[str] | None) -> pa.Schema:
    """What to ask of Arrow's parser: numbers and truth values as they are to be, all else as text."""
    names = [name for name in schema.names if columns is None or name in columns]
    return pa.schema([(name, _parsed_type(schema.field(name).type)) for name in names])


def _parsed_type(type_: pa.DataType) -> pa.DataType:
    as_is = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)
    return type_ if as_is or pa.types.is_decimal(type_) else pa.string()


def _with_row(error: InputError, values: list[dict[str, Any]]) -> InputError:
    """The same error at the first row that has, or lacks, the column it is about."""
    column = error.column
    known = [column in row for row in values]
    row = known.index(True) if True in known else 0
    return InputError(str(error), column=column, row=row)
