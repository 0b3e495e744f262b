"""Types and batches between streams and Spark."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from tidelog.model.errors import InputError, NotFoundError, SchemaError
from tidelog.model.schema import Schema
from tidelog.spark.datasource.types import (
    FromSpark,
    NsRule,
    ToSpark,
    arrow_schema,
    check_declared,
    folded_duplicates,
    spark_schema,
    stored_schema,
)
from tidelog.spark.runtime.errors import UnrepresentableError

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)

TABLE: list[tuple[pa.DataType, str, list[Any], list[Any]]] = [
    (pa.bool_(), "boolean", [True, None], [True, None]),
    (pa.int8(), "tinyint", [-128, None], [-128, None]),
    (pa.int16(), "smallint", [-(2**15)], [-(2**15)]),
    (pa.int32(), "int", [2**31 - 1], [2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63)], [-(2**63)]),
    (pa.uint8(), "smallint", [255, None], [255, None]),
    (pa.uint16(), "int", [65535], [65535]),
    (pa.uint32(), "bigint", [2**32 - 1], [2**32 - 1]),
    (pa.uint64(), "decimal(20,0)", [2**64 - 1, None, 0], [Decimal(2**64 - 1), None, Decimal(0)]),
    (pa.float32(), "float", [1.5], [1.5]),
    (pa.float64(), "double", [0.1, None], [0.1, None]),
    (pa.decimal128(38, 10), "decimal(38,10)", [Decimal("1.25")], [Decimal("1.2500000000")]),
    (pa.string(), "string", ["ä", None], ["ä", None]),
    (pa.large_string(), "string", ["ä", None], ["ä", None]),
    (pa.binary(), "binary", [b"\0", None], [b"\0", None]),
    (pa.large_binary(), "binary", [b"\0", None], [b"\0", None]),
    (pa.date32(), "date", [MOMENT.date(), None], [MOMENT.date(), None]),
    (pa.date64(), "date", [MOMENT.date(), None, BEFORE.date()], [MOMENT.date(), None, BEFORE.date()]),
    (
        pa.timestamp("s"),
        "timestamp_ntz",
        [1, None, -1],
        [datetime.datetime(1970, 1, 1, 0, 0, 1), None, BEFORE.replace(microsecond=0)],
    ),
    (pa.timestamp("ms"), "timestamp_ntz", [-1], [BEFORE.replace(microsecond=999000)]),
    (pa.timestamp("us"), "timestamp_ntz", [MOMENT], [MOMENT]),
    (pa.timestamp("s", "UTC"), "timestamp", [0], [datetime.datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.timestamp("us", "Europe/Berlin"), "timestamp", [MOMENT.replace(tzinfo=UTC)], [MOMENT.replace(tzinfo=UTC)]),
]


@pytest.mark.parametrize(("stored", "name", "values", "expected"), TABLE, ids=[str(row[0]) for row in TABLE])
def test_every_type_there_and_back(stored: pa.DataType, name: str, values: list[Any], expected: list[Any]) -> None:
    schema = Schema(pa.schema([("t", pa.int64()), ("a", stored)]), "t")
    declared = spark_schema(schema)
    assert declared["a"].dataType.simpleString() == name
    assert (declared["t"].nullable, declared["a"].nullable) == (False, True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(values)), pa.int64()), pa.array(values, stored)], schema=schema.arrow
    )
    (found,) = pickle.loads(pickle.dumps(ToSpark(schema.arrow, declared))).convert(batch)
    # Exactly what Spark compares the first batch with.
    assert to_arrow_schema(declared, timezone="UTC").equals(found.schema)
    assert found.column(1).to_pylist() == expected
    found.validate(full=True)
    (back,) = FromSpark(schema, declared).convert(found)
    assert back.equals(batch)


def test_equal_types_share_memory() -> None:
    schema = Schema(
        pa.schema([("t", pa.timestamp("us", "Europe/Berlin")), ("a", pa.float64()), ("s", pa.string())]), "t"
    )
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]).view(schema.time_type), pa.array([1.0, 2.0]), pa.array(["x", "y"])], schema=schema.arrow
    )
    (found,) = ToSpark(schema.arrow, spark_schema(schema)).convert(batch)
    for before, after in zip(batch.columns, found.columns, strict=True):
        assert [each and each.address for each in before.buffers()] == [
            each and each.address for each in after.buffers()
        ]


@pytest.mark.parametrize(
    ("ns", "expected"), [("truncate", [-2, None, -1, 0, 1]), ("long", [-1001, None, -1, 999, 1000])]
)
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_nanoseconds(ns: NsRule, expected: list[Any], zone: str | None) -> None:
    type_ = pa.timestamp("ns", zone)
    schema = Schema(pa.schema([("t", pa.int64()), ("a", type_)]), "t")
    with pytest.raises(SchemaError, match=r"column 'a': found type timestamp\[ns.*set the option ns to 'truncate'"):
        spark_schema(schema)
    declared = spark_schema(schema, ns=ns)
    ticks = pa.array([-1001, None, -1, 999, 1000])
    batch = pa.RecordBatch.from_arrays([pa.array(range(5), pa.int64()), ticks.view(type_)], schema=schema.arrow)
    (found,) = ToSpark(schema.arrow, declared, ns).convert(batch)
    assert to_arrow_schema(declared, timezone="UTC").equals(found.schema)
    assert found.column(1).view(pa.int64()).to_pylist() == expected
    assert spark_schema(schema, ["t"]).names == ["t"]  # nothing to refuse if it is left out


def test_a_time_beyond_microseconds_is_refused_by_name() -> None:
    schema = Schema(pa.schema([("t", pa.timestamp("s"))]), "t")
    batch = pa.RecordBatch.from_arrays([pa.array([0, 2**62]).view(pa.timestamp("s"))], schema=schema.arrow)
    with pytest.raises(
        UnrepresentableError, match=r"column 't' has a value that Spark's type timestamp\[us\] cannot hold"
    ):
        ToSpark(schema.arrow, spark_schema(schema)).convert(batch)


def test_columns_are_chosen_by_name() -> None:
    schema = Schema(pa.schema([("t", pa.int64()), ("b", pa.uint8()), ("a", pa.string())]), "t")
    stored = pa.schema([*schema.arrow, pa.field("_seq", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.array([2], pa.uint8()), pa.array(["x"]), pa.array([9])], schema=stored
    )
    declared = spark_schema(schema, ["a", "b"], seq=True)
    assert declared.simpleString() == "struct<a:string,b:smallint,_seq:bigint>"
    (found,) = ToSpark(stored, declared).convert(batch)
    assert found.to_pydict() == {"a": ["x"], "b": [2], "_seq": [9]}
    with pytest.raises(NotFoundError, match="there is no column 'c'"):
        spark_schema(schema, ["c"])
    with pytest.raises(InputError, match="column 'a' was asked for twice"):
        spark_schema(schema, ["a", "a"])


DECLARED = Schema(pa.schema([("t", pa.int64()), ("b", pa.uint8()), ("n", pa.timestamp("ns"))]), "t")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("x", spark.LongType(), True)], r"does not fit the stream: there is no column 'x'"),
        ([("T", spark.LongType(), True)], r"there is no column 'T'; did you mean 't'\?"),
        ([("b", spark.ByteType(), True)], r"column 'b' as tinyint, expected smallint; declare that, and cast it"),
        ([("b", spark.ShortType(), False)], r"column 'b' as NOT NULL, but the stream may have nulls"),
        ([("b", spark.ShortType(), True)] * 2, r"names column 'b' twice"),
        ([("n", spark.TimestampNTZType(), True)], r"set the option ns"),
    ],
)
def test_a_schema_given_must_be_made_of_the_streams_columns(
    fields: list[tuple[str, spark.DataType, bool]], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        check_declared(spark.StructType([spark.StructField(*field) for field in fields]), DECLARED)


def test_a_schema_given_may_be_a_part_in_another_order() -> None:
    fields = [("_seq", spark.LongType(), True), ("b", spark.ShortType(), True), ("t", spark.LongType(), True)]
    check_declared(spark.StructType([spark.StructField(*field) for field in fields]), DECLARED)


def test_names_that_differ_by_case() -> None:
    assert folded_duplicates(["a", "b", "A"]) == ("a", "A")
    assert folded_duplicates(["a", "b"]) is None


def test_the_schema_of_a_new_stream() -> None:
    fields = [
        ("at", spark.TimestampType(), True),
        ("b", spark.BooleanType(), False),
        ("d", spark.DecimalType(10, 2), True),
        ("s", spark.StringType("UTF8_LCASE"), True),
        ("n", spark.TimestampNTZType(), True),
        ("day", spark.DateType(), True),
        ("x", spark.BinaryType(), True),
    ]
    schema = stored_schema(spark.StructType([spark.StructField(*field) for field in fields]), "at")
    assert schema == Schema(
        pa.schema(
            [
                ("at", pa.timestamp("us", "UTC")),
                ("b", pa.bool_()),
                ("d", pa.decimal128(10, 2)),
                ("s", pa.string()),
                ("n", pa.timestamp("us")),
                ("day", pa.date32()),
                ("x", pa.binary()),
            ]
        ),
        "at",
    )


UNSUPPORTED: list[tuple[spark.DataType, str]] = [
    (spark.ArrayType(spark.IntegerType()), r"array<int>.*explode it"),
    (spark.MapType(spark.StringType(), spark.IntegerType()), r"map<string,int>.*to_json"),
    (spark.StructType([spark.StructField("x", spark.IntegerType())]), r"struct<x:int>.*each field"),
    (spark.VariantType(), r"variant.*to_json"),
    (spark.TimeType(), r"time\(6\).*as text"),
    (spark.DayTimeIntervalType(), r"interval day to second.*bigint of microseconds"),
    (spark.YearMonthIntervalType(), r"interval year to month.*int of months"),
    (spark.CalendarIntervalType(), r"interval.*integer columns"),
    (spark.NullType(), r"void.*cast it"),
]


@pytest.mark.parametrize(("type_", "message"), UNSUPPORTED, ids=[each[0].simpleString() for each in UNSUPPORTED])
def test_types_that_no_stream_can_hold(type_: spark.DataType, message: str) -> None:
    brought = spark.StructType([spark.StructField("t", spark.LongType()), spark.StructField("a", type_)])
    with pytest.raises(SchemaError, match=f"column 'a' has the Spark type {message}"):
        stored_schema(brought, "t")
    if not isinstance(type_, spark.NullType):  # which fits any nullable column
        with pytest.raises(SchemaError, match=f"column 'a' has the Spark type {message}"):
            FromSpark(Schema(pa.schema([("t", pa.int64()), ("a", pa.string())]), "t"), brought)


SINK = Schema(
    pa.schema(
        [
            ("t", pa.timestamp("ms", "UTC")),
            ("u", pa.uint8()),
            ("w", pa.uint64()),
            ("f", pa.float32()),
            ("z", pa.timestamp("s", "Europe/Berlin")),
        ]
    ),
    "t",
)


def brought(**types: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, type_) for name, type_ in types.items()])


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (brought(u=spark.LongType()), r"'t'"),
        (brought(t=spark.TimestampType(), v=spark.LongType()), r"'v'"),
        (brought(t=spark.StringType()), r"column 't': found type string"),
        (brought(t=spark.TimestampType(), z=spark.TimestampNTZType()), r"column 'z': .*zone"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_at_once(declared: spark.StructType, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FromSpark(SINK, declared)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_what_spark_brings_is_converted(zone: str) -> None:
    """Spark's batches carry the session's time zone."""
    declared = brought(t=spark.TimestampType(), u=spark.LongType(), w=spark.DecimalType(20, 0), f=spark.FloatType())
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1_000]).view(pa.timestamp("us", zone)),
            pa.array([255]),
            pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)),
            pa.array([1.5], pa.float32()),
        ],
        names=declared.names,
    )
    (found,) = pickle.loads(pickle.dumps(FromSpark(SINK, declared))).convert(batch)
    assert found.schema.equals(SINK.arrow)
    assert found.column("t").view(pa.int64()).to_pylist() == [1]
    assert found.column("w").to_pylist() == [2**64 - 1]
    assert found.column("z").null_count == 1


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("u", pa.array([0, 256]), r"column 'u', row 1: found 256, expected uint8 from 0 to 255"),
        ("u", pa.array([-1]), r"column 'u', row 0: found -1"),
        (
            "w",
            pa.array([Decimal(-1)], pa.decimal128(20, 0)),
            r"column 'w': found a decimal128\(20, 0\) that uint64 cannot",
        ),
        ("w", pa.array([Decimal("1.5")]), r"column 'w': found a decimal128\(2, 1\) that uint64 cannot hold"),
        ("f", pa.array([0.1]), r"column 'f', row 0: found 0.1, which float32 can only hold rounded"),
        ("t", pa.array([1]).view(pa.timestamp("us", "UTC")), r"column 't', row 0: .*finer"),
        ("t", pa.array([None], pa.timestamp("us", "UTC")), r"column 't', row 0: found a null"),
    ],
)
def test_values_that_would_change_are_refused_by_name(name: str, array: pa.Array, message: str) -> None:
    columns = {"t": pa.array([1_000] * len(array)).view(pa.timestamp("us", "UTC")), name: array}
    with pytest.raises(InputError, match=message):
        FromSpark(SINK, brought(t=spark.TimestampType())).convert(pa.RecordBatch.from_pydict(columns))


@given(st.lists(st.integers(0, 2**64 - 1) | st.none()))
def test_unsigned_numbers_survive_both_ways(values: list[int | None]) -> None:
    schema = Schema(pa.schema([("t", pa.int64()), ("a", pa.uint64())]), "t")
    declared = spark_schema(schema)
    columns = [pa.array(range(len(values)), pa.int64()), pa.array(values, pa.uint64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    (found,) = ToSpark(schema.arrow, declared).convert(batch)
    assert [None if each is None else int(each) for each in found.column(1).to_pylist()] == values
    assert [row for part in FromSpark(schema, declared).convert(found) for row in part.column(1).to_pylist()] == values


def test_arrow_schema_is_sparks_own() -> None:
    declared = brought(a=spark.StringType(), b=spark.TimestampType())
    assert arrow_schema(declared).equals(to_arrow_schema(declared, timezone="UTC"))
