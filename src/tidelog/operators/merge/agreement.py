"""What the inputs of a merge have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidelog.model.errors import InputError, SchemaError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Shape
from tidelog.operators.merge.algorithms import Algorithm
from tidelog.operators.merge.columns import COLUMNS, FROM, KIND_COLUMN, OLD_TO, TO
from tidelog.operators.merge.payloads.hashing import check_hashable
from tidelog.operators.merge.ports import Input


def plain_shape(shape: Shape, payload: Sequence[pa.Field]) -> Shape:
    """Plain events with the columns of a payload, which stand where those of the same names do."""
    fields = {field.name: field for field in payload}
    columns = [fields.get(each.name, each) for each in shape.schema if each.name != SEQUENCE_COLUMN]
    return Shape(pa.schema(columns), shape.time)


def agreed(inputs: Sequence[Input]) -> tuple[pa.DataType, list[pa.Field]]:
    """The type of time and the columns of payloads that all inputs have; nulls are where any of them may have some."""
    found: tuple[pa.DataType, list[pa.Field]] | None = None
    names: set[str] = set()
    for each in inputs:
        if each.name in names:
            raise InputError(f"there are two inputs {each.name!r}; give each a name of its own")
        names.add(each.name)
        shape = each.shape
        if each.is_elements:
            _check_elements(each)
        own = set(COLUMNS) if each.is_elements else {shape.time}
        payload = [field for field in shape.schema if field.name not in own and field.name != SEQUENCE_COLUMN]
        known = [(field.name, field.type) for field in payload]
        if found is None:
            for field in payload:
                check_hashable(field.type, field.name)
            found = shape.time_type, payload
        else:
            _check_same(each.name, (shape.time_type, dict(known)), found)
            expected = [field.name for field in found[1]]
            if expected != list(dict(known)):
                raise SchemaError(
                    f"input {each.name!r} has the columns {', '.join(dict(known))}; expected the order of the first "
                    f"input, {', '.join(expected)}"
                )
    assert found is not None
    time, columns = found
    return time, [
        field.with_nullable(any(each.shape.schema.field(field.name).nullable for each in inputs)) for field in columns
    ]


def _check_same(name: str, own: tuple[pa.DataType, dict[str, pa.DataType]], first: tuple[pa.DataType, Any]) -> None:
    """Raise :class:`SchemaError` for the first thing in which an input is not like the first one."""
    time, payload = own
    if time != first[0]:
        raise SchemaError(f"input {name!r} has times of {time}; expected {first[0]}, as of the first input: cast them")
    expected = {field.name: field.type for field in first[1]}
    for column, type_ in expected.items():
        if column not in payload:
            raise SchemaError(
                f"input {name!r} has no column {column!r}, which the first input has; {did_you_mean(column, payload)}"
            )
        if payload[column] != type_:
            raise SchemaError(
                f"column {column!r} of input {name!r} has the type {payload[column]}; expected {type_}, as of the "
                "first input: cast it"
            )
    for column in payload:
        if column not in expected:
            raise SchemaError(f"input {name!r} has a column {column!r}, which the first input does not have: drop it")


def _check_elements(input: Input) -> None:
    """Raise :class:`SchemaError` unless the columns of elements have types that they can have."""
    schema, time = input.shape.schema, input.shape.time_type
    for name in (TO, OLD_TO):
        if schema.field(name).type != time:
            raise SchemaError(
                f"column {name!r} of input {input.name!r} has the type {schema.field(name).type}; expected {time}, as "
                f"{FROM!r} has: cast it"
            )
    kind = schema.field(KIND_COLUMN).type
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(own) or pa.types.is_large_string(own) or pa.types.is_integer(kind)):
        raise SchemaError(
            f"column {KIND_COLUMN!r} of input {input.name!r} has the type {kind}; expected texts (insert, adjust or "
            "stable)"
        )


def key_columns(algorithm: Algorithm, payload: pa.Schema, key: Sequence[str] | None) -> tuple[str, ...]:
    """The columns by which an algorithm tells events of one start apart."""
    if key is None:
        return tuple(payload.names)
    if not algorithm.is_keyed:
        raise InputError(
            f"found a key for {algorithm.name} ({algorithm.text}), which counts events that are equal; expected R0, "
            "R2, R2d or R3"
        )
    for name in key:
        if name not in payload.names:
            raise SchemaError(f"there is no column {name!r} for a key; {did_you_mean(name, payload.names)}")
    return tuple(key)


def is_nested(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Whether one of some columns has parts."""
    return any(pa.types.is_nested(schema.field(name).type) for name in names)
