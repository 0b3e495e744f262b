"""Do the columns of some input belong to a schema? Names only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.model.errors import InputError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN, Schema


def check_names(names: Sequence[Any], schema: Schema, what: str) -> None:
    """Raise :class:`InputError` for the first unknown, repeated or missing column of ``what``.

    Nullable columns may be missing.
    """
    seen: set[str] = set()
    for name in names:
        if name == SEQUENCE_COLUMN:
            raise InputError(
                f"{what} has a column {name!r}, which is assigned on arrival; leave it out", column=SEQUENCE_COLUMN
            )
        if name not in schema:
            hint = did_you_mean(name, schema.names) if isinstance(name, str) else "names are strings"
            raise InputError(f"{what} has an unknown column {name!r}; {hint}", column=str(name))
        if name in seen:
            raise InputError(f"{what} has several columns {name!r}; leave one", column=name)
        seen.add(name)
    for field in schema:
        if not field.nullable and field.name not in seen:
            raise InputError(
                f"{what} has no column {field.name!r}, which is not nullable and so must be given", column=field.name
            )
