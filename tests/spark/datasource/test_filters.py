"""Filters that Spark offers, against Spark's own answers for the same rows."""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from support.profiles import scaled
from tidelog.expr import predicate
from tidelog.model.schema import Schema
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.spark.datasource.filters import NO_TIME, literal, translate
from tidelog.spark.datasource.types import NsRule, ToSpark, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = datetime.UTC
COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, EqualNullSafe)
TEXT_TESTS = (StringStartsWith, StringEndsWith, StringContains)

FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 1e300, 5e-324, 0.1]
NARROW = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, struct.unpack("<f", struct.pack("<f", 0.1))[0], 2.0**-149]
TEXTS = [
    "",
    "a",
    "ab",
    "it's",
    "\\",
    "\\n",
    "%",
    "_",
    "a%b",
    '"',
    "--x",
    "/*",
    "ä",
    "\U0001f30a",
    "\n\t\r",
    "\0",
    "'';",
    "{{x}}",
    "$1",
]
BYTES = [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0", b"'", b"abc"]
DATES = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)]
MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1582, 10, 10, 1, 2, 3),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 1),
    datetime.datetime(2024, 2, 29, 12, 30),
    datetime.datetime(9999, 12, 31, 23, 59, 59),
]
WHOLE_SECONDS = [moment.replace(microsecond=0) for moment in MOMENTS]
ZONED = [moment.replace(tzinfo=UTC) for moment in MOMENTS]


def integers(bits: int) -> list[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [low, low + 1, -1, 0, 1, 5, high - 1, high]


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), integers(8)),
    "i16": (pa.int16(), integers(16)),
    "i32": (pa.int32(), integers(32)),
    "i64": (pa.int64(), integers(64)),
    "u8": (pa.uint8(), [0, 1, 127, 128, 255]),
    "u16": (pa.uint16(), [0, 1, 65535]),
    "u32": (pa.uint32(), [0, 1, 2**31, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    "f32": (pa.float32(), NARROW),
    "f64": (pa.float64(), FLOATS),
    "small": (pa.decimal128(5, 2), [Decimal(x) for x in ("0.00", "1.25", "-1.25", "999.99", "-999.99")]),
    "wide": (pa.decimal128(38, 0), [Decimal(x) for x in (0, 1, -1, 10**37, 10**38 - 1)]),
    "deep": (pa.decimal128(38, 38), [Decimal(f"0.{x:038d}") for x in (0, 1, 5, 10**27, 10**38 - 1)]),
    'a "b" C': (pa.string(), TEXTS),
    "text": (pa.large_string(), TEXTS),
    "bytes": (pa.binary(), BYTES),
    "more": (pa.large_binary(), BYTES),
    "day": (pa.date32(), DATES),
    "midnight": (pa.date64(), DATES),
    "naive": (pa.timestamp("us"), MOMENTS),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), ZONED),
    "seconds": (pa.timestamp("s"), WHOLE_SECONDS),
    "zoned_ms": (pa.timestamp("ms", "UTC"), [moment.replace(microsecond=0) for moment in ZONED]),
    "fine": (pa.timestamp("ns"), [datetime.datetime(2024, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
}
"""Columns, and values that are in them and that they are compared with."""

SCHEMA = Schema(pa.schema([("ts", pa.int64()), *((name, type_) for name, (type_, _) in COLUMNS.items())]), "ts")


def table(seed: int, rows: int) -> pa.RecordBatch:
    choose = random.Random(seed)
    columns = [pa.array(range(rows), pa.int64())]
    for type_, values in COLUMNS.values():
        picked = [choose.choice([*values, None]) for _ in range(rows)]
        columns.append(pa.array(picked, type_))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow)


def constants(type_: pa.DataType, values: list[Any]) -> list[Any]:
    """The values as Spark hands them over, and a few that are near them."""
    if type_ == pa.uint64():
        return [Decimal(value) for value in values]
    if pa.types.is_timestamp(type_):
        return [*values, *(ZONED if type_.tz else MOMENTS)]
    if pa.types.is_decimal(type_):
        return [value for value in values if len(value.as_tuple().digits) < 28]
    return values


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(COLUMNS)))
    type_, values = COLUMNS[name]
    value = st.sampled_from(constants(type_, values))
    kinds: list[st.SearchStrategy[Filter]] = [
        st.builds(lambda kind, value: kind((name,), value), st.sampled_from(COMPARISONS), value),
        st.builds(lambda members: In((name,), tuple(members)), st.lists(value | st.none(), min_size=1, max_size=14)),
        st.just(IsNull((name,))),
        st.just(IsNotNull((name,))),
        st.just(EqualNullSafe((name,), None)),
    ]
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        kinds += [st.builds(lambda kind, text: kind((name,), text), st.sampled_from(TEXT_TESTS), value)] * 2
    found = draw(st.one_of(kinds))
    return Not(found) if draw(st.booleans()) else found


def constant(value: Any, sql_type: str) -> Column:
    """A constant of Spark, made without what is tested."""
    if value is None:
        return fn.lit(None).cast(sql_type)
    if isinstance(value, datetime.datetime):
        origin = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
        moment = fn.timestamp_micros(fn.lit((value - origin) // datetime.timedelta(microseconds=1)))
        return moment.cast("timestamp_ntz") if value.tzinfo is None else moment
    if isinstance(value, Decimal | datetime.date):
        return fn.lit(str(value)).cast(sql_type)
    return fn.lit(value).cast(sql_type)


def meaning(found: Filter, types: dict[str, str]) -> Column:
    """What a filter says, in Spark's own terms."""
    if isinstance(found, Not):
        return ~meaning(found.child, types)
    name: str = found.attribute[0]  # type: ignore[attr-defined]
    column = fn.col(f"`{name}`")
    if isinstance(found, IsNull):
        return column.isNull()
    if isinstance(found, IsNotNull):
        return column.isNotNull()
    if isinstance(found, In):
        return column.isin([constant(value, types[name]) for value in found.value])
    value: Any = found.value  # type: ignore[attr-defined]
    right = constant(value, types[name])
    makers: dict[type[Filter], Callable[[], Column]] = {
        EqualTo: lambda: column == right,
        EqualNullSafe: lambda: column.eqNullSafe(right),
        GreaterThan: lambda: column > right,
        GreaterThanOrEqual: lambda: column >= right,
        LessThan: lambda: column < right,
        LessThanOrEqual: lambda: column <= right,
        StringStartsWith: lambda: column.startswith(right),
        StringEndsWith: lambda: column.endswith(right),
        StringContains: lambda: column.contains(right),
    }
    return makers[type(found)]()


def test_conditions_say_what_spark_says(session: SparkSession) -> None:
    batch = table(7, 300)
    declared = spark_schema(SCHEMA, ns="truncate")
    types = {field.name: field.dataType.simpleString() for field in declared}
    (converted,) = ToSpark(SCHEMA.arrow, declared, "truncate").convert(batch)
    rows = (
        session.createDataFrame(pa.Table.from_batches([converted]), declared).repartition(1).sortWithinPartitions("ts")
    )

    cases: list[Filter] = []

    @settings(max_examples=scaled(200), database=None)
    @given(filters())
    def gather(found: Filter) -> None:
        cases.append(found)

    gather()
    distinct = list({repr(case): case for case in cases}.values())
    taken = 0
    for first in range(0, len(distinct), 100):
        some = distinct[first : first + 100]
        answers = rows.select(*[meaning(case, types).alias(f"c{index}") for index, case in enumerate(some)]).toArrow()
        for index, case in enumerate(some):
            found, left = translate([case], SCHEMA, "truncate")
            if left:
                assert left == [case]
                continue
            taken += 1
            assert found.interval == ALL_TIME
            assert found.where is not None
            expected = answers.column(index).fill_null(False).to_numpy(zero_copy_only=False)
            ours = predicate(found.where, SCHEMA.arrow).mask(batch)
            assert np.array_equal(ours, expected), (case, found.where)
    assert taken > len(distinct) * 0.8


TIME_TYPES: list[tuple[pa.DataType, NsRule]] = [
    (pa.int64(), "error"),
    (pa.timestamp("s"), "error"),
    (pa.timestamp("ms", "UTC"), "error"),
    (pa.timestamp("us"), "error"),
    (pa.timestamp("us", "America/New_York"), "error"),
    (pa.timestamp("ns"), "truncate"),
    (pa.timestamp("ns", "UTC"), "truncate"),
    (pa.timestamp("ns", "UTC"), "long"),
]


def seen_by_spark(tick: int, type_: pa.DataType, ns: NsRule) -> int:
    if not pa.types.is_timestamp(type_) or ns == "long":
        return tick
    return {"s": tick * 1_000_000, "ms": tick * 1000, "us": tick, "ns": tick // 1000}[type_.unit]


@pytest.mark.parametrize(("type_", "ns"), TIME_TYPES, ids=str)
@given(data=st.data())
def test_bounds_of_time_are_exact(type_: pa.DataType, ns: NsRule, data: st.DataObject) -> None:
    schema = Schema(pa.schema([("t", type_), ("a", pa.int32())]), "t")
    tick = data.draw(st.integers(-5_000_000_000, 5_000_000_000))
    is_number = not pa.types.is_timestamp(type_) or ns == "long"

    def constant_near(near: int) -> Any:
        number = seen_by_spark(tick, type_, ns) + near
        if is_number:
            return number
        origin = datetime.datetime(1970, 1, 1, tzinfo=UTC if type_.tz else None)
        return origin + datetime.timedelta(microseconds=number)

    kind = data.draw(st.sampled_from(COMPARISONS))
    near = data.draw(st.integers(-1001, 1001) | st.sampled_from([0, 1, -1, 1_000_000, -999_999]))
    taken, left = translate([kind(("t",), constant_near(near))], schema, ns)
    assert (taken.conditions, left) == ((), [])
    mine = seen_by_spark(tick, type_, ns)
    other = mine + near
    expected = {
        EqualTo: mine == other,
        EqualNullSafe: mine == other,
        GreaterThan: mine > other,
        GreaterThanOrEqual: mine >= other,
        LessThan: mine < other,
        LessThanOrEqual: mine <= other,
    }[kind]
    assert taken.interval.contains(tick) == expected


@pytest.mark.parametrize(
    ("found", "interval"),
    [
        (GreaterThan(("ts",), INT64_MAX), NO_TIME),
        (GreaterThanOrEqual(("ts",), INT64_MAX), Interval(INT64_MAX, None)),
        (LessThan(("ts",), INT64_MIN), NO_TIME),
        (LessThanOrEqual(("ts",), INT64_MIN), Interval(None, INT64_MIN + 1)),
        (LessThanOrEqual(("ts",), INT64_MAX), ALL_TIME),
        (GreaterThanOrEqual(("ts",), INT64_MIN), ALL_TIME),
        (EqualTo(("ts",), INT64_MAX), Interval(INT64_MAX, None)),
        (IsNotNull(("ts",)), ALL_TIME),
        (In(("ts",), (5, None)), Interval(5, 6)),
    ],
)
def test_bounds_at_the_ends_of_time(found: Filter, interval: Interval) -> None:
    taken, left = translate([found], SCHEMA)
    assert (taken.interval, taken.where, left) == (interval, None, [])


def test_bounds_meet_and_conditions_add_up() -> None:
    many = [GreaterThan(("ts",), 5), LessThan(("ts",), 10), EqualTo(("i8",), 3), In(("ts",), (7, 9)), IsNull(("u8",))]
    taken, left = translate(many, SCHEMA)
    assert taken.interval == Interval(7, 10)
    assert taken.where == """("i8" = 3) AND ("ts" IN (7, 9)) AND ("u8" IS NULL)"""
    assert left == []
    assert translate([GreaterThan(("ts",), 5), LessThan(("ts",), 5)], SCHEMA)[0].interval == NO_TIME


@pytest.mark.parametrize(
    "found",
    [
        EqualTo(("f32",), 0.1),  # no float32
        EqualTo(("wide",), Decimal(10**37 + 1)),  # PySpark may have rounded it
        EqualTo(("small",), Decimal("1.255")),
        EqualTo(("midnight",), datetime.date(2024, 1, 1)),
        EqualTo(("fine",), datetime.datetime(2024, 1, 1)),
        EqualTo(("naive",), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        EqualTo(("i8",), None),
        EqualTo(("i8",), True),
        EqualTo(("u64",), Decimal("1.5")),
        EqualTo(("unknown",), 1),
        EqualTo(("i8", "x"), 1),
        In(("i8",), ()),
        In(("i32",), tuple(range(1001))),
        Not(EqualTo(("fine",), datetime.datetime(2024, 1, 1))),
    ],
    ids=repr,
)
def test_what_cannot_be_answered_goes_back(found: Filter) -> None:
    taken, left = translate([found], SCHEMA, "truncate")
    assert taken.where is None
    assert left[0] is found


def test_a_list_of_times_bounds_what_is_read_even_if_spark_decides() -> None:
    schema = Schema(pa.schema([("t", pa.timestamp("ns"))]), "t")
    days = [datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 5)]
    found = In(("t",), tuple(days))
    taken, left = translate([found], schema, "truncate")
    assert left == [found]
    day = 86_400_000_000_000
    assert taken.interval == Interval(day, 4 * day + 1000)


def test_filters_of_arrival() -> None:
    taken, left = translate([LessThan(("_seq",), 5)], SCHEMA)
    assert (taken.where, left) == ('("_seq" < 5)', [])


@given(st.text())
def test_any_text_comes_through(text: str) -> None:
    schema = pa.schema([("a", pa.string())])
    batch = pa.RecordBatch.from_pydict({"a": [text, text + "x", "x" + text, None]}, schema=schema)
    found = predicate(f'"a" = {literal(text, pa.string())}', schema)
    assert found.mask(batch).tolist() == [True, False, False, False]


@given(st.binary())
def test_any_bytes_come_through(value: bytes) -> None:
    schema = pa.schema([("a", pa.binary())])
    batch = pa.RecordBatch.from_pydict({"a": [value, value + b"x", None]}, schema=schema)
    found = predicate(f'"a" = {literal(value, pa.binary())}', schema)
    assert found.mask(batch).tolist() == [True, False, False]


@given(st.floats(allow_nan=False), st.floats())
def test_any_float_comes_through(value: float, other: float) -> None:
    schema = pa.schema([("a", pa.float64())])
    batch = pa.RecordBatch.from_pydict({"a": [value, other]}, schema=schema)
    found = predicate(f'"a" = {literal(value, pa.float64())}', schema)
    assert found.mask(batch).tolist() == [True, value == other]
