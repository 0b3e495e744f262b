"""Streams and tables of a statement as DataFrames, whose columns are called by their places: ``f0``, ``f1``, ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from tidelog.expr import predicate
from tidelog.model.errors import InputError, NotFoundError, SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.spark.datasource.types import ToSpark, arrow_schema, spark_type
from tidelog.spark.runtime.workers import settle
from tidelog.spark.sql.planning import Part, Reading
from tidelog.sql.reading.dataset import PLACE_FIELD, STREAM_FIELD
from tidelog.storage import FileMedium
from tidelog.store.read.pieces import count_piece, scan_piece

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTED_AT_ONCE = 1 << 18
_PLACE = StructType([StructField("time", LongType()), StructField("seq", LongType())])
"""The place of a row among others: no task knows a number, but all can compare what it goes by."""
_PARTS_OF_TASK = 64
"""Parts that one task reads at the most, where there are many small ones."""


def name_of(place: int) -> str:
    """What the column at a place of a table is called."""
    return f"f{place}"


def frame_of_stream(spark: SparkSession, path: str, reading: Reading, rows_per_task: int) -> DataFrame:
    """The rows that a scan of a stream reads."""
    if reading.rows is not None:
        return _frame_of_rows(spark, reading)
    declared = _declared(reading.columns)
    if not reading.parts:
        return spark.createDataFrame([], declared)
    tasks = _tasks(reading.parts, rows_per_task)
    work = partial(_read, path, reading.columns, reading.where, tasks, declared)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, declared)


def _declared(columns: Mapping[int, pa.Field]) -> StructType:
    fields = [
        StructField(name_of(place), _PLACE if field.name == PLACE_FIELD.name else spark_type(field.type, "long"))
        for place, field in columns.items()
    ]
    return StructType(fields or [StructField("nothing", BooleanType())])


def _tasks(parts: Sequence[Part], rows_per_task: int) -> list[tuple[Part, ...]]:
    """Parts for as many tasks as they make: small ones go together."""
    found: list[tuple[Part, ...]] = []
    held: list[Part] = []
    for part in parts:
        if held and (
            sum(each.piece.rows for each in held) + part.piece.rows > rows_per_task or len(held) == _PARTS_OF_TASK
        ):
            found.append(tuple(held))
            held = []
        held.append(part)
    return [*found, tuple(held)]


def _read(
    path: str,
    columns: Mapping[int, pa.Field],
    where: str | None,
    tasks: Sequence[Sequence[Part]],
    declared: StructType,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What a task does with the numbers of what it shall read."""
    medium = FileMedium(path)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for part in tasks[number]:
                try:
                    yield from _rows(medium, part, columns, where, declared)
                except NotFoundError as error:
                    raise NotFoundError(
                        f"{error}. The stream has changed since the statement was planned, and its grace period, "
                        f"{part.piece.manifest.options.grace:g} s, is over: ask anew, or give it a longer one"
                    ) from None
    settle()


def _rows(
    medium: FileMedium, part: Part, columns: Mapping[int, pa.Field], where: str | None, declared: StructType
) -> Iterator[pa.RecordBatch]:
    layout = part.piece.layout
    own = stored_names(columns.values(), layout.schema.time)
    condition = None if where is None else predicate(where, layout.stored)
    if not own and condition is None and part.piece.numbers is None:
        counts = _counted(count_piece(medium, part.directory, part.piece))
    else:
        counts = None
    convert = _Converted(columns, declared, layout.schema.time) if columns else None
    scanned = scan_piece(medium, part.directory, part.piece, own or [layout.schema.time], condition)
    for rows in scanned if counts is None else counts:
        if convert is None:
            yield _nothing(rows.num_rows)
            continue
        yield from convert.batches(rows, part.stream)


def stored_names(columns: Iterable[pa.Field], time: str) -> list[str]:
    """The stored columns that are read for some of a relation."""
    names = [field.name for field in columns if field.name != STREAM_FIELD.name]
    if PLACE_FIELD.name in names:
        names = [*names, time, SEQUENCE_COLUMN]
    return [name for name in dict.fromkeys(names) if name != PLACE_FIELD.name]


class _Converted:
    """Rows of a stream as Spark takes them."""

    def __init__(self, columns: Mapping[int, pa.Field], declared: StructType, time: str) -> None:
        self._fields = list(columns.values())
        self._time = time
        plain = {place: field for place, field in columns.items() if field.name != PLACE_FIELD.name}
        self._stored = pa.schema([pa.field(name_of(place), field.type) for place, field in plain.items()])
        kept = StructType([declared[name_of(place)] for place in plain])
        self._convert = ToSpark(self._stored, kept, "long").convert
        self._target = arrow_schema(declared)

    def batches(self, rows: pa.RecordBatch, stream: str) -> Iterator[pa.RecordBatch]:
        """Batches of the columns that were declared."""
        names = pa.repeat(pa.scalar(stream), rows.num_rows)
        plain = [field for field in self._fields if field.name != PLACE_FIELD.name]
        arrays = [names if each.name == STREAM_FIELD.name else rows.column(each.name) for each in plain]
        if len(plain) == len(self._fields):
            yield from self._convert(pa.RecordBatch.from_arrays(arrays, schema=self._stored))
            return
        counts = [rows.column(name).view(pa.int64()) for name in (self._time, SEQUENCE_COLUMN)]
        (place,) = [field for field in self._target if pa.types.is_struct(field.type)]
        struct = pa.StructArray.from_arrays(counts, fields=list(place.type))
        if not plain:
            yield pa.RecordBatch.from_arrays([struct], schema=self._target)
            return
        before = 0
        for batch in self._convert(pa.RecordBatch.from_arrays(arrays, schema=self._stored)):
            own = struct.slice(before, batch.num_rows)
            before += batch.num_rows
            columns = [own if field.name == place.name else batch.column(field.name) for field in self._target]
            yield pa.RecordBatch.from_arrays(columns, schema=self._target)


def _counted(rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, _COUNTED_AT_ONCE):
        yield _nothing(min(rows - first, _COUNTED_AT_ONCE))


def _nothing(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, pa.bool_())], names=["nothing"])


def _frame_of_rows(spark: SparkSession, reading: Reading) -> DataFrame:
    assert reading.rows is not None
    if not reading.columns:
        return spark.createDataFrame(pa.Table.from_batches([_nothing(reading.rows.num_rows)]))
    declared = _declared(reading.columns)
    convert = _Converted(reading.columns, declared, "")
    batches = [each for rows in reading.rows.to_batches() for each in convert.batches(rows, "")]
    return spark.createDataFrame(pa.Table.from_batches(batches, arrow_schema(declared)), declared)


def frame_of_table(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """A table in memory. Raises :class:`SchemaError` for types that are not brought to Spark."""
    plain = plain_table(table)
    fields = []
    for place, field in enumerate(plain.schema):
        try:
            fields.append(StructField(name_of(place), spark_type(field.type, "long")))
        except (KeyError, SchemaError):
            raise SchemaError(
                f"column {field.name!r} of table {name!r} is {field.type}, which is not brought to Spark; leave it out"
            ) from None
    named = plain.rename_columns([name_of(place) for place in range(plain.num_columns)])
    return _frame(spark, named, StructType(fields))


def _frame(spark: SparkSession, table: pa.Table, declared: StructType) -> DataFrame:
    convert = ToSpark(table.schema, declared, "long")
    batches = [each for batch in table.to_batches() for each in convert.convert(batch)]
    return spark.createDataFrame(pa.Table.from_batches(batches, convert.target), declared)


def plain_table(table: pa.Table) -> pa.Table:
    """A table without dictionaries."""
    return table.cast(plain_schema(table.schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Columns without dictionaries, and without what pandas notes about them."""
    kinds = [each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in schema]
    return pa.schema([pa.field(field.name, kind) for field, kind in zip(schema, kinds, strict=True)])


def is_frame(value: Any) -> bool:
    """Whether something is a DataFrame of Spark's."""
    return hasattr(value, "mapInArrow") and hasattr(value, "toDF")  # with Spark Connect of another class


def frame_of_frame(value: DataFrame) -> DataFrame:
    """A DataFrame with the names that statements use."""
    return value.toDF(*(name_of(place) for place in range(len(value.columns))))


def schema_of_frame(name: str, value: DataFrame) -> pa.Schema:
    """The columns of a DataFrame. Raises :class:`InputError` for types that Arrow does not have."""
    try:
        return arrow_schema(value.schema)
    except Exception as error:
        raise InputError(f"table {name!r} cannot be taken as one: {error}") from error
