"""What the inputs of a merge have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelog.model.errors import InputError, SchemaError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Shape
from tidelog.operators.merge.algorithms import Algorithm
from tidelog.operators.merge.columns import COLUMNS
from tidelog.operators.merge.payloads.hashing import check_hashable
from tidelog.operators.merge.ports import Input


def plain_shape(shape: Shape) -> Shape:
    """Plain events without numbers of arrival."""
    return Shape(pa.schema([each for each in shape.schema if each.name != SEQUENCE_COLUMN]), shape.time)


def agreed(inputs: Sequence[Input]) -> tuple[pa.DataType, list[pa.Field]]:
    """The type of time and the columns of payloads that all inputs have."""
    found: tuple[pa.DataType, list[pa.Field]] | None = None
    names: set[str] = set()
    for each in inputs:
        if each.name in names:
            raise InputError(f"there are two inputs {each.name!r}; give each a name of its own")
        names.add(each.name)
        shape = each.shape
        own = set(COLUMNS) if each.is_elements else {shape.time}
        payload = [field for field in shape.schema if field.name not in own and field.name != SEQUENCE_COLUMN]
        known = [(field.name, field.type) for field in payload]
        if found is None:
            for field in payload:
                check_hashable(field.type, field.name)
            found = shape.time_type, payload
        elif found[0] != shape.time_type or [(field.name, field.type) for field in found[1]] != known:
            expected = ", ".join(f"{field.name} {field.type}" for field in found[1])
            told = ", ".join(f"{name} {type_}" for name, type_ in known)
            raise SchemaError(
                f"input {each.name!r} has the payload {told}, with times of {shape.time_type}; expected that of the "
                f"first input, {expected}, with times of {found[0]}"
            )
    assert found is not None
    return found


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
