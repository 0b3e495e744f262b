"""JSON lines: one object on each line.

Blocks of whole lines go through Arrow's parser. A block that it refuses is read again line by line with the rules that
hold for lists of dicts everywhere in tidelog: these take a little more (2.0 for an integer column, times in several
forms), and where they refuse too, they know the row, the column and the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.json

from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.source import BadRowError, fitted, located
from tidelog.cli.reading.texts import inferred_type, typed
from tidelog.model import Schema, to_batches
from tidelog.model.errors import InputError
from tidelog.model.instants import shown
from tidelog.model.misfit import Misfit

BLOCK_BYTES = 4 << 20
_BLANKS = b" \t\r\n"
_ROW_OF_ARROW = re.compile(r" in row (\d+)$")


class JsonLinesSource:
    """An input of JSON objects, one on each line; blank lines are passed over."""

    def __init__(self, content: Input) -> None:
        self._input = content
        self._blocks = self._read()
        self._first: bytes | None = None

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """From the first block of lines; texts of days and times become dates and timestamps."""
        self._first = next(self._blocks, None)
        if self._first is None:
            raise InputError(f"{self._input.name}: found nothing; expected an object on each line")
        found = self._parsed_for_inference(self._first, {})
        # Arrow itself sees times only in some texts: have it read all texts as such, and judge them here.
        texts = [field.name for field in found.schema if _is_text(field.type)]
        if texts:
            order = found.schema.names
            found = self._parsed_for_inference(self._first, dict.fromkeys(texts, pa.string())).select(order)
        fields = []
        for field in found.schema:
            type_ = field.type
            if field.name in types:
                type_ = types[field.name]
            elif field.name in texts:
                column = found[field.name].combine_chunks()
                type_ = inferred_type(column, is_time=field.name == time, times_only=True)
            fields.append((field.name, type_))
        fields.extend((name, type_) for name, type_ in types.items() if name not in found.schema.names)
        return Schema(pa.schema(fields), time)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Block by block."""
        plan = _text_plan(schema)
        row = 0
        while (block := self._next()) is not None:
            rows = self._parsed(block, schema, plan)
            if rows is None:
                values = yield from self._line_by_line(block, schema, row)
                row += len(values)
                plan = _plan_like(values, schema)  # the next block is probably of the same kind
                continue
            yield from rows
            row += sum(batch.num_rows for batch in rows)

    def _next(self) -> bytes | None:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._blocks, None)

    def _read(self) -> Iterator[bytes]:
        """Blocks of whole lines that are not all blank."""
        block = self._input.read(BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
        while following := self._input.read(BLOCK_BYTES):
            lines, newline, after = block.rpartition(b"\n")
            if lines.strip(_BLANKS):
                yield lines + newline
            block = after + following
        if block.strip(_BLANKS):
            yield block

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
            (batch,) = _parse(block, plan).combine_chunks().to_batches()
            columns = [
                typed(column, schema.field(name)) if name in schema and pa.types.is_string(column.type) else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            return list(fitted(pa.RecordBatch.from_arrays(columns, batch.schema.names), schema, "", 0))
        except (pa.ArrowInvalid, UnicodeDecodeError, Misfit, InputError):
            return None

    def _line_by_line(
        self, block: bytes, schema: Schema, first_row: int
    ) -> Generator[pa.RecordBatch, None, list[dict[str, Any]]]:
        """The rows of a block; returns their objects."""
        fault: BadRowError | None = None
        values: list[dict[str, Any]] = []
        for line in block.split(b"\n"):
            if line.strip(_BLANKS):
                try:
                    values.append(_object(line, schema))
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


def _parse(block: bytes, types: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(block),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pa.json.ParseOptions(explicit_schema=types, unexpected_field_behavior="infer"),
    )


def _is_text(type_: pa.DataType) -> bool:
    """Whether Arrow's parser saw texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_timestamp(type_))


def _text_plan(schema: Schema) -> pa.Schema:
    """What to ask of Arrow's parser: numbers and truth values as they are to be, all else as text."""
    return pa.schema([(field.name, _parsed_type(field.type)) for field in schema])


def _parsed_type(type_: pa.DataType) -> pa.DataType:
    as_is = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)
    return type_ if as_is or pa.types.is_decimal(type_) else pa.string()


def _plan_like(values: list[dict[str, Any]], schema: Schema) -> pa.Schema:
    """A plan for rows like these, where timestamps may be integers."""
    plan = _text_plan(schema)
    for index, field in enumerate(schema):
        sample = next((row[field.name] for row in values if row.get(field.name) is not None), None)
        if pa.types.is_timestamp(field.type) and isinstance(sample, int):
            plan = plan.set(index, pa.field(field.name, pa.int64()))
    return plan


def _object(line: bytes, schema: Schema) -> dict[str, Any]:
    """The object on a line, with binary values unpacked."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f'found {shown(value)}, expected an object on each line, such as {{"time": 1}}')
    for field in schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            text = value.get(field.name)
            if isinstance(text, str):
                value[field.name] = typed(pa.array([text]), field)[0].as_py()
    return value


def _with_row(error: InputError, values: list[dict[str, Any]]) -> InputError:
    """The same error at the first row that has, or lacks, the column it is about."""
    column = error.column
    known = [column in row for row in values]
    row = known.index(True) if True in known else 0
    return InputError(str(error), column=column, row=row)
