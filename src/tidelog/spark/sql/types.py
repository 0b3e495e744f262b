"""Types of DuckDB, and the types of Spark that stand for them.

Nanoseconds, which Spark does not have, are numbers since 1970 while a query is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

INTEGERS: Final[Mapping[str, int]] = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
UNSIGNED: Final[Mapping[str, int]] = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
WHOLE: Final = frozenset({*INTEGERS, *UNSIGNED, "HUGEINT"})
FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
PLAIN_TIMES: Final = frozenset({"TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S"})
"""Times without a zone that Spark counts in microseconds."""
ZONED: Final = "TIMESTAMP WITH TIME ZONE"
NANOSECONDS: Final = frozenset({"TIMESTAMP_NS", "TIMESTAMPTZ_NS"})

_SPARK: Final[Mapping[str, str]] = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_MS": "TIMESTAMP_NTZ",
    "TIMESTAMP_S": "TIMESTAMP_NTZ",
    "TIMESTAMP_NS": "BIGINT",
    "TIMESTAMPTZ_NS": "BIGINT",
    ZONED: "TIMESTAMP",
    "INTERVAL": "INTERVAL DAY TO SECOND",
    "NULL": "VOID",
}


class Unwritable(Exception):
    """Something cannot be written for Spark with the meaning that it has; the text says what."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of DuckDB."""

    id: str
    width: int = 0
    scale: int = 0
    child: Type | None = None
    """Of the elements of a list."""
    fields: tuple[tuple[str, Type], ...] = ()

    @property
    def is_decimal(self) -> bool:
        """Whether values have digits behind the point, as many in all."""
        return self.id == "DECIMAL"

    @property
    def spark(self) -> str | None:
        """What Spark calls it; None if there is nothing like it."""
        if self.is_decimal:
            return f"DECIMAL({self.width},{self.scale})"
        if self.id == "LIST" and self.child is not None:
            inner = self.child.spark
            return None if inner is None else f"ARRAY<{inner}>"
        if self.id == "STRUCT" and self.fields:
            inner_types = [(name, kind.spark) for name, kind in self.fields]
            if any(each is None for _, each in inner_types):
                return None
            return "STRUCT<" + ", ".join(f"{quoted(name)}: {each}" for name, each in inner_types) + ">"
        return _SPARK.get(self.id)

    @property
    def has_nanoseconds(self) -> bool:
        """Whether values, or some inside of them, are numbers that stand for times."""
        inside = [self.child] if self.child is not None else [kind for _, kind in self.fields]
        return self.id in NANOSECONDS or any(each.has_nanoseconds for each in inside)

    @property
    def name(self) -> str:
        """What DuckDB calls it."""
        if self.is_decimal:
            return f"DECIMAL({self.width},{self.scale})"
        if self.child is not None:
            return f"{self.child.name}[]"
        if self.fields:
            return "STRUCT(" + ", ".join(f"{name} {kind.name}" for name, kind in self.fields) + ")"
        return self.id


def type_of(told: Any) -> Type:
    """A type as DuckDB's plans tell it."""
    info = told.get("type_info") or {}
    if told["id"] == "DECIMAL":
        return Type("DECIMAL", int(info["width"]), int(info["scale"]))
    if told["id"] == "LIST":
        return Type("LIST", child=type_of(info["child_type"]))
    if told["id"] == "STRUCT":
        fields = info.get("child_types") or ()
        return Type("STRUCT", fields=tuple((each["first"], type_of(each["second"])) for each in fields))
    return Type(str(told["id"]))


def limits(kind: Type) -> tuple[int, int] | None:
    """The least and the greatest whole number of a type; None if it has others."""
    if kind.id in INTEGERS:
        bits = INTEGERS[kind.id]
        return -(1 << bits - 1), (1 << bits - 1) - 1
    if kind.id in UNSIGNED:
        return 0, (1 << UNSIGNED[kind.id]) - 1
    return None


def quoted(name: str) -> str:
    """A name as Spark reads it. Raises :class:`Unwritable` for what it would put a setting into."""
    if "${" in name or "\0" in name:
        raise Unwritable(f"the name {name!r}")
    return "`" + name.replace("`", "``") + "`"
