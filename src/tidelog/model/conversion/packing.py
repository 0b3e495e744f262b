"""Batches of a single event, made in a few microseconds.

Building an Arrow array costs several microseconds however short it is, and a batch needs one per column. Reading
a batch from an Arrow IPC message costs as much in all. So Arrow is made to write such a message once for every
pattern of nulls; after that only the values in its body are replaced. Where in the body they stand is found by
reading the message and asking for the addresses of its buffers, so nothing here depends on the layout of messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidelog.model.conversion.families import Family, family

_FORMATS: dict[pa.DataType, str] = {
    pa.bool_(): "?",
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint8(): "B",
    pa.uint16(): "H",
    pa.uint32(): "I",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.date32(): "i",
    pa.date64(): "q",
    pa.string(): "i",
    pa.binary(): "i",
    pa.large_string(): "q",
    pa.large_binary(): "q",
}
"""How :mod:`struct` writes a value, or, of strings and bytes, an offset. Timestamps are like int64."""

_ROOM = (64, 512, 4096)
"""Bytes kept for each string or binary value; a message is made for the least of these that is enough."""

_KEPT_TEMPLATES = 64
"""How many patterns of nulls and room are remembered; streams rarely have more than a few."""


class RowPacker:
    """Makes batches of one event from its canonical values (see :mod:`tidelog.model.conversion.values`)."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        prepared = [(i, _preparation(field.type)) for i, field in enumerate(schema)]
        self._prepared = [(i, prepare) for i, prepare in prepared if prepare is not None]
        self._variable = [i for i, field in enumerate(schema) if _is_variable(field.type)]
        self._templates: dict[tuple[Any, ...], _Template] = {}

    def batch(self, row: tuple[Any, ...]) -> pa.RecordBatch:
        """A batch of one event."""
        message = self.message(row)
        if message is None:
            arrays = [pa.array([value], field.type) for value, field in zip(row, self._schema, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def message(self, row: tuple[Any, ...]) -> bytes | None:
        """The Arrow IPC message of a batch of one event; None if it has long texts."""
        values = list(row)
        for i, prepare in self._prepared:
            if values[i] is not None:
                values[i] = prepare(values[i])
        longest = max([len(values[i] or b"") for i in self._variable]) if self._variable else 0
        if longest > _ROOM[-1]:
            return None
        room = next(each for each in _ROOM if each >= longest) if longest else _ROOM[0]
        key = (room, *[value is None for value in values])
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _KEPT_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = _Template(self._schema, values, room)
        return template.fill(values)


class _Template:
    """An IPC message for batches of one row with nulls in certain columns and some room for strings and bytes."""

    def __init__(self, schema: pa.Schema, values: list[Any], room: int) -> None:
        samples = [
            pa.nulls(1, field.type) if value is None else _sample(field.type, room)
            for value, field in zip(values, schema, strict=True)
        ]
        message = pa.RecordBatch.from_arrays(samples, schema=schema).serialize()
        slots: list[tuple[int, str]] = []
        for value, column in zip(values, pa.ipc.read_record_batch(message, schema).columns, strict=True):
            if value is not None:
                slots += _slots(column, message.address, room)
        start = slots[0][0]
        self._head: bytes = message.slice(0, start).to_pybytes()
        self._pack = struct.Struct(_format(slots, start, message.size)).pack
        self._present = [(i, _is_variable(schema.field(i).type)) for i, each in enumerate(values) if each is not None]
        self._is_plain = len(self._present) == len(values) and not any(variable for _, variable in self._present)

    def fill(self, values: list[Any]) -> bytes:
        """The message with values that are null in the same places, and no longer than the room."""
        if self._is_plain:
            return self._head + self._pack(*values)
        flat: list[Any] = []
        for i, is_variable in self._present:
            value = values[i]
            if is_variable:
                flat.append(len(value))
            flat.append(value)
        return self._head + self._pack(*flat)


def _is_variable(type_: pa.DataType) -> bool:
    return family(type_) in (Family.STRING, Family.BINARY)


def _preparation(type_: pa.DataType) -> Callable[[Any], Any] | None:
    """What must be done to a canonical value before it is packed."""
    if family(type_) is Family.STRING:
        return str.encode
    if pa.types.is_decimal128(type_):
        scale = type_.scale
        return lambda value: _unscaled(value, scale).to_bytes(16, "little", signed=True)
    return None


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    # Canonical decimals have the exponent of their column, so there is nothing to round.
    assert exponent == -scale
    magnitude = int("".join(map(str, digits)))
    return -magnitude if sign else magnitude


def _sample(type_: pa.DataType, room: int) -> pa.Array:
    """Some value of a type; of strings and bytes, one that takes all the room."""
    if _is_variable(type_):
        return pa.array([b"x" * room], pa.binary()).cast(type_)
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(bytes(16))])


def _slots(column: pa.Array, origin: int, room: int) -> list[tuple[int, str]]:
    """Where in the message what is to be written for the value of a column."""
    position = column.buffers()[1].address - origin
    if pa.types.is_decimal128(column.type):
        return [(position, "16s")]
    format_ = "q" if pa.types.is_timestamp(column.type) else _FORMATS[column.type]
    if not _is_variable(column.type):
        return [(position, format_)]
    # The first offset is 0, the second the length of the value.
    return [(position + struct.calcsize(format_), format_), (column.buffers()[2].address - origin, f"{room}s")]


def _format(slots: list[tuple[int, str]], start: int, end: int) -> str:
    """The format of everything from ``start`` to ``end``, with zeros between the slots."""
    text = "<"
    position = start
    for slot, format_ in slots:
        text += f"{slot - position}x{format_}"
        position = slot + struct.calcsize("<" + format_)
    return f"{text}{end - position}x"
