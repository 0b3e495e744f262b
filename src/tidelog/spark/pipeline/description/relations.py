"""What is known of sources and steps before Spark runs: their columns and types, and whether rows keep arriving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import ParseError, SqlglotError

from tidelog.model.errors import InputError, SchemaError

if TYPE_CHECKING:
    from tidelog.model.schema import Schema
    from tidelog.spark.datasource.types import NsRule

Columns: TypeAlias = Mapping[str, exp.DataType]
"""Names and types of columns, in order."""

DIALECT: Final = "spark"

_TIMES: Final = frozenset(
    {
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
        exp.DataType.Type.TIMESTAMPNTZ,
    }
)


@dataclass(frozen=True)
class Relation:
    """A source or a step, as far as it is known."""

    columns: Columns | None
    """None: known to Spark alone."""
    is_streaming: bool
    delay: Fraction | None = None
    """The longest delay of the watermarks that its rows have, in seconds; None: no watermark."""


def folded(names: Mapping[str, Any]) -> dict[str, str]:
    """Names by what they are to Spark, which does not look at case."""
    return {name.lower(): name for name in names}


def is_time(type_: exp.DataType) -> bool:
    """Whether a type is one of points in time."""
    return type_.this in _TIMES


def type_text(type_: exp.DataType) -> str:
    """A type as Spark writes it."""
    return type_.sql(DIALECT).lower()


def columns_of_ddl(text: str) -> Columns:
    """The columns of a schema as Spark writes it. Raises :class:`InputError` for what is none."""
    try:
        table = parse_one(f"CREATE TABLE t (\n{text}\n)", read=DIALECT)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise InputError(f"found {text!r}, which is no schema{near}; {_EXPECTED}") from None
    found: dict[str, exp.DataType] = {}
    definitions = table.this.expressions if isinstance(table, exp.Create) and table.this is not None else []
    for column in definitions:
        kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
        if kind is None:
            raise InputError(f"found {column.sql(DIALECT)!r} in a schema, which has no type; {_EXPECTED}")
        if kind.this == exp.DataType.Type.USERDEFINED:
            raise InputError(f"column {column.name!r} has the type {kind.sql(DIALECT)!r}, which is none; {_EXPECTED}")
        if column.name.lower() in folded(found):
            raise InputError(f"the schema names column {column.name!r} twice; name it once")
        found[column.name] = kind
    if not found:
        raise InputError(f"found {text!r}, which has no columns; {_EXPECTED}")
    return found


_EXPECTED: Final = "expected names and types as Spark writes them, such as 'ts timestamp, symbol string, price double'"


def columns_of_stream(schema: Schema, options: Mapping[str, str]) -> Columns:
    """The columns that a stream has in Spark, with the options of the source. Raises as the source would."""
    from tidelog.spark.datasource.options import SourceOptions
    from tidelog.spark.datasource.types import spark_schema

    chosen = SourceOptions.read(options)
    return columns_of_struct(spark_schema(schema, chosen.columns, seq=chosen.seq, ns=chosen.ns))


def columns_of_struct(struct: Any) -> Columns:
    """The columns of a schema of Spark's."""
    return {each.name: _built(each.dataType.simpleString()) for each in struct}


def columns_of_arrow(schema: pa.Schema) -> Columns | None:
    """The columns that Spark finds in a file with an Arrow schema; None if it has types that Spark does not."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return columns_of_struct(from_arrow_schema(schema, prefer_timestamp_ntz=True))
    except (PySparkException, SqlglotError):
        return None


def ddl_of(columns: Columns) -> str:
    """Columns as Spark writes a schema."""
    return ", ".join(f"`{name.replace('`', '``')}` {type_.sql(DIALECT)}" for name, type_ in columns.items())


def misfit(found: exp.DataType, stored: pa.DataType, ns: NsRule = "long") -> str | None:
    """Why values of one type cannot become those of a stream's column, as far as types tell; None if they may."""
    from tidelog.spark.datasource.types import spark_type

    try:
        wanted = _built(spark_type(stored, ns).simpleString())
    except (SchemaError, KeyError):
        return None
    families = family(found), family(wanted)
    if None in families or families[0] == families[1] or families == ("number", "time"):
        return None
    return f"{type_text(found)} cannot become {type_text(wanted)}"


def unlike(one: str | None, other: str | None) -> bool:
    """Whether values of two families cannot become one type, as in a UNION; None stands for what is not known."""
    if one is None or other is None or one == other:
        return False
    return "text" not in (one, other) or {one, other} & {"array", "map", "struct", "interval"} != set()


def unstorable(type_: exp.DataType) -> str | None:
    """Why values of a type cannot be in a stream, and what to do; None if they can, or if that is not known."""
    from pyspark.sql import types as spark

    from tidelog.spark.datasource.types import advice

    kinds = {
        "array": spark.ArrayType,
        "map": spark.MapType,
        "struct": spark.StructType,
        "interval": spark.DayTimeIntervalType,
        "variant": spark.VariantType,
        "time of day": spark.TimeType,
    }
    kind = kinds.get(_UNSTORED.get(type_.this) or family(type_) or "")
    return None if kind is None else f"{type_text(type_)}, which no stream can hold; {advice(kind)}"


def family(type_: exp.DataType) -> str | None:
    """What kind of values a type has; None if that is not known."""
    if type_.this in exp.DataType.NUMERIC_TYPES:
        return "number"
    if type_.this in exp.DataType.TEXT_TYPES:
        return "text"
    if is_time(type_) or type_.this in exp.DataType.TEMPORAL_TYPES:
        return "time"
    if type_.this in _INTERVALS:
        return "interval"
    return _FAMILIES.get(type_.this)


_FAMILIES: Final = {
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.BINARY: "binary",
    exp.DataType.Type.ARRAY: "array",
    exp.DataType.Type.LIST: "array",
    exp.DataType.Type.MAP: "map",
    exp.DataType.Type.STRUCT: "struct",
}
_INTERVALS: Final = frozenset(each for each in exp.DataType.Type if each.name.startswith("INTERVAL"))
_UNSTORED: Final = {exp.DataType.Type.VARIANT: "variant", exp.DataType.Type.TIME: "time of day"}


def _built(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect=DIALECT)
