"""Steps that are continuous queries: windows, joins by time, and what else docs/continuous.md lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from sqlglot import exp

from tidelog.model.errors import TimeError
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.description.relations import Columns, Relation, columns_of_struct
from tidelog.spark.pipeline.description.steps import Fault, Reference, Step, StepError, register_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KINDS: Final[Mapping[exp.DType, pa.DataType]] = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.VARCHAR: pa.string(),
    exp.DataType.Type.BINARY: pa.binary(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: pa.timestamp("us", "UTC"),
    exp.DataType.Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    exp.DataType.Type.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    exp.DataType.Type.TIMESTAMPNTZ: pa.timestamp("us"),
}


@register_step("continuous")
@dataclass(frozen=True, kw_only=True)
class Continuous(Step):
    """A continuous query, in tidelog's SQL, over sources and earlier steps.

    Rows may be as late as the watermark of their source says, or ``lateness``; later ones are dropped, and counted.
    """

    has_own_time: ClassVar[bool] = True

    query: str
    lateness: str = ""

    def references(self) -> Sequence[Reference]:
        """The streams and tables that it mentions."""
        from tidelog.sql.clauses.syntax import parsed
        from tidelog.sql.database import shared
        from tidelog.sql.errors import SqlError
        from tidelog.sql.text.tree import nodes, place

        database = shared("UTC")
        try:
            with database.mutex:
                tree = parsed(database.parser, self.query)
        except SqlError as error:
            raise StepError(Fault("query", error.message, error.position)) from None
        found: dict[str, Reference] = {}
        for node in nodes(tree):
            if node["type"] == "BASE_TABLE":
                name = str(node["table_name"])
                found.setdefault(name.lower(), Reference(name, "query", place(node, self.query)))
        return list(found.values())

    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """Those of the query, if all types of what it reads are known here, and which columns are times."""
        from tidelog.operators.base import Shape
        from tidelog.spark.operators.columns import declared
        from tidelog.spark.sql.continuous import ContinuousText
        from tidelog.sql.errors import SqlError

        try:
            if self.lateness and not self.lateness.isdigit():  # else ticks of a clock of integers
                read_duration(self.lateness)
        except TimeError as error:
            raise StepError(Fault("lateness", str(error))) from None
        if not any(each.is_streaming for each in inputs.values()):
            return None
        shapes: dict[str, Shape] = {}
        tables: dict[str, Any] = {}
        for name, relation in inputs.items():
            schema = _schema(relation.columns)
            if schema is None:
                return None
            times = [each.name for each in schema if pa.types.is_timestamp(each.type)]
            if not relation.is_streaming:
                tables[name] = schema.empty_table()
            elif len(times) != 1:
                return None  # the watermark says which, and is known to Spark
            else:
                at = schema.get_field_index(times[0])
                shapes[name] = Shape(schema.set(at, schema.field(at).with_nullable(False)), times[0])
        try:
            query = ContinuousText(self.query, None, "UTC", shapes, tables).read()
        except SqlError as error:
            raise StepError(Fault("query", error.message, error.position)) from None
        output = query.make().output.schema
        return columns_of_struct(declared(pa.schema([output.field(name) for name in query.columns])))

    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The query in Spark; over tables alone it is a statement."""
        from tidelog.spark.sql.continuous import continuous
        from tidelog.spark.sql.statement import sql

        streams = {name: frame for name, frame in inputs.items() if frame.isStreaming}
        if not streams:
            return sql(session, self.query, tables=dict(inputs))
        tables = {name: frame for name, frame in inputs.items() if name not in streams}
        lateness = self.lateness or None
        return continuous(self.query, None, "UTC", streams, tables, lateness=lateness, metrics=f"tidelog.{self.name}")

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """The text: a query goes on with what it has seen."""
        return f"continuous {self.query}" if any(each.is_streaming for each in inputs.values()) else None


def _schema(columns: Columns | None) -> pa.Schema | None:
    """Columns as Arrow has them; None if one of them is of a type that is not known here."""
    if columns is None:
        return None
    kinds = {name: _kind(type_) for name, type_ in columns.items()}
    known = [(name, kind) for name, kind in kinds.items() if kind is not None]
    return pa.schema(known) if len(known) == len(kinds) else None


def _kind(type_: exp.DataType) -> pa.DataType | None:
    if type_.this == exp.DataType.Type.DECIMAL:
        sizes = [int(each.name) for each in type_.expressions] or [10, 0]
        return pa.decimal128(sizes[0], sizes[1] if len(sizes) > 1 else 0)
    return _KINDS.get(type_.this)
