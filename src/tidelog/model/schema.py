"""The schema of a stream: an Arrow schema with a named event-time column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, final

import pyarrow as pa

from tidelog.model.arguments import names as listed_names
from tidelog.model.errors import NotFoundError, SchemaError, did_you_mean
from tidelog.model.times.clock import Clock
from tidelog.model.types import is_known_zone, storable, type_from_dict, type_name, type_to_dict

SEQUENCE_COLUMN: Final = "_seq"
"""The hidden column of arrival order; no column of a user may have this name."""

MOST_COLUMNS: Final = 16_384
"""Columns that a stream may have. Every leaf, node and manifest says something of each of them."""

_JSON_VERSION = 1
_KNOWN_SCHEMAS = 64


@final
class Schema:
    """What the events of a stream look like. Immutable, hashable, equal to any schema of the same columns.

    ``arrow`` is normalised: dictionaries become their value type, views the type they view, the time column is
    not nullable, and key-value metadata is dropped, because it would travel with every batch, says nothing
    about the events themselves, and (pandas' above all) goes stale when columns are selected. Other
    nullability flags are kept. Storable types are listed in :mod:`tidelog.model.types`.

    The time column is int64 or a timestamp of any unit, with or without a zone. Raises :class:`SchemaError`
    for columns that cannot be stored, names that are empty, repeated or reserved, and unknown time zones.
    """

    __slots__ = ("_arrow", "_clock", "_hash", "_positions", "_time")

    def __init__(self, arrow: pa.Schema, time: str) -> None:
        if not isinstance(arrow, pa.Schema):
            raise SchemaError(f"found a {type(arrow).__name__} for a schema; expected a pyarrow.Schema")
        for field in arrow:
            if pa.types.is_timestamp(field.type) and field.type.tz and not is_known_zone(field.type.tz):
                raise SchemaError(
                    f"column {field.name!r} has the unknown time zone {field.type.tz!r}; "
                    "expected an IANA name such as 'Europe/Berlin', or an offset such as '+01:00'"
                )
        self._set(arrow, time)

    def _set(self, arrow: pa.Schema, time: str) -> None:
        if len(arrow) > MOST_COLUMNS:
            raise SchemaError(
                f"found {len(arrow)} columns; expected at most {MOST_COLUMNS}: keep what belongs together in several "
                "streams, or as rows with a column that says what they are of"
            )
        self._time = time
        self._positions = _positions(arrow.names)
        if not isinstance(time, str) or time not in self._positions:
            raise SchemaError(
                f"there is no column {time!r} to take the event time from; {did_you_mean(str(time), self._positions)}"
            )
        self._arrow = pa.schema([_normalised(field, is_time=field.name == time) for field in arrow])
        self._clock = Clock(self.time_type)
        columns = tuple((field.name, field.type, field.nullable) for field in self._arrow)
        self._hash = hash((time, columns))

    @property
    def arrow(self) -> pa.Schema:
        """The normalised Arrow schema; batches of the stream have exactly this one."""
        return self._arrow

    @property
    def time(self) -> str:
        """The name of the event-time column."""
        return self._time

    @property
    def time_index(self) -> int:
        """The position of the event-time column."""
        return self._positions[self._time]

    @property
    def time_type(self) -> pa.DataType:
        """The Arrow type of the event-time column."""
        return self._arrow.field(self.time_index).type

    @property
    def clock(self) -> Clock:
        """What instants, bounds and durations mean for this stream."""
        return self._clock

    @property
    def unit(self) -> str | None:
        """The unit of event time: ``s``, ``ms``, ``us``, ``ns``, or None when the column is int64."""
        return self._clock.unit

    @property
    def timezone(self) -> str | None:
        """The zone of event time, or None when it has none."""
        return self._clock.zone

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(self._positions)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of all columns but the time column, in order."""
        return tuple(name for name in self._positions if name != self._time)

    def index(self, name: str) -> int:
        """The position of a column. Raises :class:`NotFoundError` for an unknown name."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise NotFoundError(f"there is no column {name!r}; {did_you_mean(str(name), self.names)}") from None

    def field(self, name: str) -> pa.Field:
        """The Arrow field of a column. Raises :class:`NotFoundError` for an unknown name."""
        return self._arrow.field(self.index(name))

    def renamed(self, names: Sequence[str]) -> Schema:
        """The same columns under other names, given for all of them in their order."""
        names = listed_names("names", names)
        if tuple(names) == self.names:
            return self
        if len(names) != len(self):
            raise SchemaError(f"found {len(names)} new names for {len(self)} columns; expected one for each")
        try:
            fields = [field.with_name(name) for field, name in zip(self, names, strict=True)]
        except UnicodeEncodeError as error:
            raise SchemaError(f"found the name {error.object!r}, which is not Unicode text: {error.reason}") from None
        schema = object.__new__(Schema)  # zones are taken as they are, see from_dict
        schema._set(pa.schema(fields), names[self.time_index])
        return schema

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._positions

    def __iter__(self) -> Iterator[pa.Field]:
        return iter(self._arrow)

    def __len__(self) -> int:
        return len(self._arrow)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self._hash == other._hash and self._time == other._time and self._arrow.equals(other._arrow)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        columns = (f"{field.name}: {type_name(field.type)}{'' if field.nullable else ' not null'}" for field in self)
        return f"Schema(time={self._time!r}, {', '.join(columns)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON values, for documents that contain schemas; see :meth:`to_json`."""
        columns = [{"name": field.name, **type_to_dict(field.type), "nullable": field.nullable} for field in self]
        return {"version": _JSON_VERSION, "time": self._time, "columns": columns}

    def to_json(self) -> str:
        """The schema as JSON text, the same for equal schemas, and read back by :meth:`from_json`.

        An object of ``version`` (1), ``time`` (the name of the time column) and ``columns``, a list of objects
        with ``name``, ``type``, ``nullable`` and, by type, ``unit`` and ``zone`` (timestamp; no ``zone`` when
        there is none) or ``precision`` and ``scale`` (decimal128).
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """The schema that :meth:`to_dict` described; mostly the same object for the same description.

        Time zones are taken as they are: a log must open on machines that do not know all of its zones.
        """
        try:
            text = json.dumps(values)
        except (TypeError, ValueError):  # no JSON, so nothing that was ever written
            return cls._described(values)
        return _known(text)

    @classmethod
    def _described(cls, values: Mapping[str, Any]) -> Schema:
        version = values.get("version") if isinstance(values, Mapping) else None
        if version != _JSON_VERSION:
            raise SchemaError(
                f"found a stored schema of version {version!r}, expected version {_JSON_VERSION}; "
                "it may have been written by a newer tidelog"
            )
        try:
            time, columns = values["time"], [dict(column) for column in values["columns"]]
            fields = [_field_from_dict(column) for column in columns]
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"found a damaged stored schema: {error}") from error
        schema = object.__new__(cls)
        schema._set(pa.schema(fields), time)
        return schema

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """The schema that :meth:`to_json` wrote. Raises :class:`SchemaError` for any other text."""
        try:
            values = json.loads(text)
        except (ValueError, TypeError) as error:
            raise SchemaError(f"found a stored schema that is not JSON: {error}") from error
        return cls.from_dict(values)


@lru_cache(_KNOWN_SCHEMAS)
def _known(text: str) -> Schema:
    """The schema in a JSON text. Thousands of streams, and all splits of each, have the same few."""
    return Schema._described(json.loads(text))


def _positions(names: list[str]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name:
            raise SchemaError(f"column {index} has an empty name; expected every column to have one")
        if name in positions:
            raise SchemaError(f"columns {positions[name]} and {index} are both called {name!r}; rename one")
        if name == SEQUENCE_COLUMN:
            raise SchemaError(f"the name {name!r} is reserved for the order of arrival; rename the column")
        positions[name] = index
    return positions


def _normalised(field: pa.Field, *, is_time: bool) -> pa.Field:
    try:
        type_ = storable(field.type)
    except SchemaError as error:
        raise SchemaError(f"column {field.name!r}: {error}") from None
    if is_time and not (type_ == pa.int64() or pa.types.is_timestamp(type_)):
        raise SchemaError(
            f"the time column {field.name!r} has type {type_name(type_)}; "
            "expected int64, or a timestamp in s, ms, us or ns"
        )
    return pa.field(field.name, type_, nullable=field.nullable and not is_time)


def _field_from_dict(column: dict[str, Any]) -> pa.Field:
    name, nullable = column.pop("name"), column.pop("nullable")
    if not isinstance(nullable, bool):
        raise TypeError(f"'nullable' of column {name!r} is {nullable!r}, not true or false")
    return pa.field(name, type_from_dict(column), nullable)
