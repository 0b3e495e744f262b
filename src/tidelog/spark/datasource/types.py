"""Arrow types of streams and types of Spark: which stands for which, and batches on their way between the two.

========================================  ====================  ==========================================
stored                                    in Spark              on the way
========================================  ====================  ==========================================
bool, int8, int16, int32, int64           the same              as they are
uint8, uint16, uint32                     short, int, bigint    widened
uint64                                    decimal(20,0)         every value fits
float32, float64                          float, double         as they are
decimal128(p, s)                          decimal(p,s)          as they are
string, large_string                      string                as they are; large ones get small offsets
binary, large_binary                      binary                likewise
date32, date64                            date                  date64 as the day it falls on
timestamp s, ms, us, with a zone          timestamp             in microseconds, range checked
timestamp s, ms, us, without a zone       timestamp_ntz         likewise
timestamp ns                              see :data:`NS_RULES`
``_seq``                                  bigint                as it is
========================================  ====================  ==========================================

The other way, a column that Spark brings becomes what the stream's column is, if no value changes; see
:mod:`tidelog.model.conversion.convert`. A new stream gets the stored types of the table's first choice: ``timestamp``
becomes ``timestamp[us, UTC]``, ``timestamp_ntz`` ``timestamp[us]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from tidelog.model import to_batches
from tidelog.model.conversion.casts import cast
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.errors import InputError, NotFoundError, SchemaError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.model.types import type_name
from tidelog.spark.runtime.errors import UnrepresentableError

NsRule: TypeAlias = Literal["error", "truncate", "long"]

NS_RULES: Final[tuple[NsRule, ...]] = ("error", "truncate", "long")
"""What becomes of nanoseconds, which Spark does not have: they are refused; cut to whole microseconds (to the earlier
one), or counted in a bigint since 1970."""

TIME_MARK: Final = "tidelog.time"
"""The key in the metadata of a Spark field that tells the time column from others."""

_PLAIN: Final[dict[pa.DataType, spark.DataType]] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.large_binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.DateType(),
}

_STORED: Final[dict[spark.DataType, pa.DataType]] = {
    spark.BooleanType(): pa.bool_(),
    spark.ByteType(): pa.int8(),
    spark.ShortType(): pa.int16(),
    spark.IntegerType(): pa.int32(),
    spark.LongType(): pa.int64(),
    spark.FloatType(): pa.float32(),
    spark.DoubleType(): pa.float64(),
    spark.StringType(): pa.string(),
    spark.BinaryType(): pa.binary(),
    spark.DateType(): pa.date32(),
    spark.TimestampType(): pa.timestamp("us", "UTC"),
    spark.TimestampNTZType(): pa.timestamp("us"),
}

_ADVICE: Final[tuple[tuple[type[spark.DataType], str], ...]] = (
    (spark.ArrayType, "explode it into one event for each element, or store to_json of it"),
    (spark.MapType, "store to_json of it, or make a column of each key"),
    (spark.StructType, "make a column of each field, e.g. with select('name.*')"),
    (spark.VariantType, "store to_json of it"),
    (spark.TimeType, "store it as text, or as a bigint of nanoseconds"),
    (spark.DayTimeIntervalType, "store a bigint of microseconds"),
    (spark.YearMonthIntervalType, "store an int of months"),
    (spark.CalendarIntervalType, "store its parts as integer columns"),
    (spark.NullType, "cast it to the type its values will have"),
)

_COUNTED_AT_ONCE = 1 << 18
"""Rows of a batch without columns."""

_MILLISECONDS_PER_DAY = 86_400_000

Convert: TypeAlias = Callable[[pa.Array], "pa.Array | pa.ChunkedArray"]


def spark_type(type_: pa.DataType, ns: NsRule = "error") -> spark.DataType:
    """The Spark type of a stored one. Raises :class:`SchemaError`, without naming a column, for refused nanoseconds."""
    if pa.types.is_timestamp(type_):
        if type_.unit == "ns":
            if ns == "error":
                raise SchemaError(
                    f"found type {type_name(type_)}, and Spark's times have microseconds only; set the option ns to "
                    "'truncate' to cut them, to 'long' to get a bigint of nanoseconds, or leave the column out"
                )
            if ns == "long":
                return spark.LongType()
        return spark.TimestampNTZType() if type_.tz is None else spark.TimestampType()
    if pa.types.is_decimal128(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    return _PLAIN[type_]


def spark_schema(
    schema: Schema, columns: Sequence[str] | None = None, *, seq: bool = False, ns: NsRule = "error"
) -> spark.StructType:
    """The Spark schema of a stream, or of some of its columns in the order given; with ``seq`` ``_seq`` comes last.

    Raises :class:`NotFoundError` for unknown columns, :class:`InputError` for one named twice, :class:`SchemaError` for
    what Spark cannot hold.
    """
    names = list(schema.names if columns is None else columns)
    if seq and SEQUENCE_COLUMN not in names:
        names.append(SEQUENCE_COLUMN)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"column {name!r} was asked for twice; name it once")
    return spark.StructType([_spark_field(schema, name, ns) for name in names])


def _spark_field(schema: Schema, name: str, ns: NsRule) -> spark.StructField:
    if name == SEQUENCE_COLUMN:
        return spark.StructField(name, spark.LongType(), nullable=False)
    if name not in schema:
        raise NotFoundError(f"there is no column {name!r}; {did_you_mean(name, (*schema.names, SEQUENCE_COLUMN))}")
    field = schema.field(name)
    try:
        mark = {TIME_MARK: True} if name == schema.time else None
        return spark.StructField(name, spark_type(field.type, ns), field.nullable, mark)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


def check_declared(declared: spark.StructType, schema: Schema, ns: NsRule = "error") -> None:
    """Raise :class:`SchemaError` unless a schema that a user gave to a read is made of the stream's columns.

    It may have fewer columns, in any order, and ``_seq``. Types must be those of :func:`spark_schema`; a column may be
    declared nullable that is not, but not the other way round.
    """
    for index, field in enumerate(declared):
        if any(field.name == earlier.name for earlier in declared.fields[:index]):
            raise SchemaError(f"the schema given names column {field.name!r} twice; name it once")
        try:
            own = _spark_field(schema, field.name, ns)
        except NotFoundError as error:
            raise SchemaError(f"the schema given does not fit the stream: {error}") from None
        if field.dataType != own.dataType:
            raise SchemaError(
                f"the schema given has column {field.name!r} as {field.dataType.simpleString()}, expected "
                f"{own.dataType.simpleString()}; declare that, and cast it in a select"
            )
        if own.nullable and not field.nullable:
            raise SchemaError(f"the schema given has column {field.name!r} as NOT NULL, but the stream may have nulls")


def folded_duplicates(names: Sequence[str]) -> tuple[str, str] | None:
    """The first two names that differ by case only, which Spark takes for one unless told; None if none do."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return other, name
    return None


def arrow_schema(declared: spark.StructType) -> pa.Schema:
    """The Arrow schema that batches must have, exactly, to be rows of a Spark schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    found: pa.Schema = to_arrow_schema(declared, timezone="UTC")
    return found


def stored_schema(brought: spark.StructType, time: str) -> Schema:
    """The schema of a new stream for what Spark brings.

    All columns but the time column may be null: whether Spark says so depends on how a query was written. Raises
    :class:`SchemaError` for types that no stream can hold.
    """
    fields = [pa.field(field.name, _stored_type(field)) for field in brought]
    return Schema(pa.schema(fields), time)


def _stored_type(field: spark.StructField) -> pa.DataType:
    type_ = field.dataType
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, spark.StringType):  # whatever its collation: the bytes are stored
        return pa.string()
    found = _STORED.get(type_)
    if found is not None:
        return found
    raise SchemaError(
        f"column {field.name!r} has the Spark type {type_.simpleString()}, which no stream can hold; expected a "
        f"boolean, a number, a string, binary, a date or a timestamp. Instead, {advice(type(type_))}"
    )


def advice(kind: type[spark.DataType]) -> str:
    """What to do with values of a type that no stream can hold."""
    return next((text for each, text in _ADVICE if issubclass(kind, each)), "cast it to one of these")


class ToSpark:
    """Turns batches of a stream's columns into batches as Spark expects them, in the same memory where types allow.

    ``stored`` has the fields of the batches that come, with the names of ``declared`` among them. Picklable.
    """

    def __init__(self, stored: pa.Schema, declared: spark.StructType, ns: NsRule = "error") -> None:
        self.target = arrow_schema(declared)
        self._steps = [
            (stored.get_field_index(field.name), _outward(stored.field(field.name).type, field.type, ns))
            for field in self.target
        ]

    def convert(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of a batch; as several batches only if their text is too long for one.

        Raises :class:`UnrepresentableError` for a time beyond what Spark can count in microseconds.
        """
        if not self._steps:
            return [batch.select([])]  # which keeps the rows
        columns = []
        for field, (position, change) in zip(self.target, self._steps, strict=True):
            column = batch.column(position)
            try:
                columns.append(column if change is None else change(column))
            except (Misfit, pa.ArrowInvalid) as error:
                raise UnrepresentableError(
                    f"column {field.name!r} has a value that Spark's type {field.type} cannot hold: {error}. Leave the "
                    "column out, or the row, with the option where"
                ) from None
        return _assembled(columns, self.target)


def _outward(source: pa.DataType, target: pa.DataType, ns: NsRule) -> Convert | None:
    """What turns an array of a stored type into one of Spark's; None if nothing has to be done."""
    if source == target:
        return None
    if pa.types.is_timestamp(source) and source.unit == "ns":
        return partial(_viewed, target) if ns == "long" else partial(_floored, 1000, pa.int64(), target)
    if source == pa.date64():
        return partial(_floored, _MILLISECONDS_PER_DAY, pa.int32(), target)
    if pa.types.is_unsigned_integer(source):
        return partial(_widened, target)
    return partial(_cast, target)


def _viewed(target: pa.DataType, array: pa.Array) -> pa.Array:
    return array.view(target)


def _widened(target: pa.DataType, array: pa.Array) -> pa.Array:
    return array.cast(target)


def _cast(target: pa.DataType, array: pa.Array) -> pa.Array | pa.ChunkedArray:
    return cast(array, target)


def _floored(divisor: int, width: pa.DataType, target: pa.DataType, array: pa.Array) -> pa.Array:
    """The counts of an array divided, rounded down, nulls kept."""
    counts = array.view(pa.int64())
    whole = np.floor_divide(counts.fill_null(0).to_numpy(zero_copy_only=False), divisor)
    mask = None if array.null_count == 0 else pc.is_null(array).to_numpy(zero_copy_only=False)
    return pa.array(whole, pa.int64(), mask=mask).cast(width).view(target)


class FromSpark:
    """Turns batches that Spark brings into batches of a stream's schema. Picklable.

    Raises :class:`SchemaError` or :class:`InputError` at once for columns that are missing, unknown or of a type that
    cannot become the stream's.
    """

    def __init__(self, schema: Schema, brought: spark.StructType) -> None:
        self._schema = schema
        for field in brought:
            if not isinstance(field.dataType, spark.NullType):
                _stored_type(field)
        expected = arrow_schema(brought)
        # Not from lists of nothing: Arrow would load pandas to see whether they are of its kind.
        self.convert(pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in expected], schema=expected))

    def convert(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of a batch under the stream's schema. Raises :class:`InputError` that names the column at fault."""
        columns, fields = [], []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            changed = column
            if pa.types.is_decimal(field.type) and field.name in self._schema:
                target = self._schema.field(field.name).type
                if pa.types.is_integer(target):
                    changed = _decimals_as_integers(column, target, field.name)
            columns.append(changed)
            fields.append(pa.field(field.name, changed.type))
        return list(to_batches(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), self._schema))


def _decimals_as_integers(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    """What uint64 became on the way to Spark, on the way back: exact, or refused."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {name!r}: found a {array.type} that {type_name(target)} cannot hold ({error}); round it, or leave "
            "the row out",
            column=name,
        ) from None


def rows_without_columns(count: int) -> Iterator[pa.RecordBatch]:
    """So many rows, for those who only count them."""
    for first in range(0, count, _COUNTED_AT_ONCE):
        rows = min(count - first, _COUNTED_AT_ONCE)
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["none"]).select([])


def _assembled(columns: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema) -> list[pa.RecordBatch]:
    if all(isinstance(column, pa.Array) for column in columns):
        return [pa.RecordBatch.from_arrays(columns, schema=schema)]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=schema).to_batches()
    return batches
