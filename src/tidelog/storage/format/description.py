"""What a container says about itself in its preface, as JSON: the columns of its leaves and its creator's notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidelog.model.errors import NONSENSE, CorruptionError, SchemaError
from tidelog.model.types import storable, type_from_dict, type_to_dict
from tidelog.storage.format.commit import Preface


def describe(schema: pa.Schema, notes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The description of a container of leaves with ``schema``; refuses types that cannot be stored."""
    columns = []
    for field in schema:
        if storable(field.type) != field.type:
            raise SchemaError(
                f"column {field.name!r} has type {field.type}, which is stored as {storable(field.type)}; "
                "give the container a schema of stored types (tidelog.model.Schema makes one)"
            )
        columns.append({"name": field.name, "nullable": field.nullable, **type_to_dict(field.type)})
    return {"columns": columns, "notes": dict(notes or {})}


def schema_of(preface: Preface) -> pa.Schema:
    """The schema of the leaves of a container."""
    try:
        fields = []
        for column in preface.description["columns"]:
            members = dict(column)
            name, nullable = members.pop("name"), members.pop("nullable")
            fields.append(pa.field(name, type_from_dict(members), nullable))
        return pa.schema(fields)
    except (SchemaError, *NONSENSE) as error:
        raise CorruptionError(f"the description of the container makes no sense: {error}") from error
