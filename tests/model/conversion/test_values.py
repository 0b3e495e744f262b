"""What Python values mean, whichever way they come: an event, a list of events, a dict of columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, Inexact, localcontext
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.conversion.convert import to_batches
from tidelog.model.errors import InputError
from tidelog.model.schema import Schema

PLUS_TWO = timezone(timedelta(hours=2))
NOON = datetime(2024, 5, 6, 12, 30, 15, 250_000)


def schema_of(type_: pa.DataType, *, nullable: bool = True) -> Schema:
    return Schema(pa.schema([("ts", pa.int64()), pa.field("x", type_, nullable)]), "ts")


def read_back(batches: Any, schema: Schema) -> list[Any]:
    """The values of column x, counted in ticks if they are timestamps; every batch must be sound."""
    values = []
    for batch in batches:
        assert batch.schema.equals(schema.arrow, check_metadata=True)
        batch.validate(full=True)
        column = batch["x"]
        values += (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def as_event(values: list[Any], schema: Schema) -> list[Any]:
    return [read_back(to_batches({"ts": 0, "x": value}, schema), schema)[0] for value in values]


def as_rows(values: list[Any], schema: Schema) -> list[Any]:
    return read_back(to_batches([{"ts": 0, "x": value} for value in values], schema), schema)


def as_columns(values: list[Any], schema: Schema) -> list[Any]:
    return read_back(to_batches({"ts": [0] * len(values), "x": values}, schema), schema)


def as_objects(values: list[Any], schema: Schema) -> list[Any]:
    objects = np.empty(len(values), object)
    objects[:] = values
    return read_back(to_batches({"ts": np.zeros(len(values), int), "x": objects}, schema), schema)


def as_repeated(values: list[Any], schema: Schema) -> list[Any]:
    return [read_back(to_batches({"ts": [0, 1], "x": value}, schema), schema)[1] for value in values]


WAYS = [as_event, as_rows, as_columns, as_objects, as_repeated]
Way = Callable[[list[Any], Schema], list[Any]]

ACCEPTED: list[tuple[pa.DataType, list[tuple[Any, Any]]]] = [
    (pa.bool_(), [(True, True), (np.bool_(False), False), (pa.scalar(True), True)]),
    (pa.int8(), [(-128, -128), (np.int64(127), 127), (5.0, 5), (np.float32(5), 5), (np.uint64(7), 7)]),
    (pa.int64(), [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (pa.scalar(3, pa.int8()), 3), (-(2.0**63), -(2**63))]),
    (pa.uint64(), [(2**64 - 1, 2**64 - 1), (0, 0), (2.0**63, 2**63)]),
    (
        pa.float64(),
        [
            (0.1, 0.1),
            (3, 3.0),
            (2**53, 2.0**53),
            (2**60, 2.0**60),
            (math.inf, math.inf),
            (np.float32(0.1), float(np.float32(0.1))),
        ],
    ),
    (
        pa.float32(),
        [
            (0.5, 0.5),
            (0.1, float(np.float32(0.1))),
            (2**24, 2.0**24),
            (2**30, 2.0**30),
            (-math.inf, -math.inf),
            (np.int8(3), 3.0),
        ],
    ),
    (
        pa.string(),
        [
            ("", ""),
            ("abc", "abc"),
            ("größe ☃ 𝄞", "größe ☃ 𝄞"),
            (np.str_("x"), "x"),
            ("\0", "\0"),
            (pa.scalar("y"), "y"),
            ("long" * 2000, "long" * 2000),
        ],
    ),
    (pa.large_string(), [("ü" * 100, "ü" * 100)]),
    (
        pa.binary(),
        [
            (b"", b""),
            (b"\xff\0", b"\xff\0"),
            (bytearray(b"a"), b"a"),
            (memoryview(b"abc")[::2], b"ac"),
            (np.bytes_(b"n"), b"n"),
        ],
    ),
    (pa.large_binary(), [(b"x" * 600, b"x" * 600)]),
    (
        pa.date32(),
        [
            (date(2024, 2, 29), date(2024, 2, 29)),
            ("2024-02-29", date(2024, 2, 29)),
            (datetime(1, 1, 1), date(1, 1, 1)),
            (np.datetime64("1969-12-31"), date(1969, 12, 31)),
            (pd.Timestamp("2024-02-29"), date(2024, 2, 29)),
            (pa.scalar(date(2024, 1, 1)), date(2024, 1, 1)),
        ],
    ),
    (pa.date64(), [(date(1600, 2, 29), date(1600, 2, 29)), ("9999-12-31", date(9999, 12, 31))]),
    (
        pa.decimal128(5, 2),
        [
            (Decimal("1.1"), Decimal("1.10")),
            (Decimal("-999.99"), Decimal("-999.99")),
            (7, Decimal("7.00")),
            (Decimal("1E+2"), Decimal(100)),
            (Decimal("-0.0"), Decimal(0)),
            (np.int16(-3), Decimal("-3.00")),
        ],
    ),
    (
        pa.decimal128(38, 10),
        [(Decimal("1234567890123456789012345678.0123456789"), Decimal("1234567890123456789012345678.0123456789"))],
    ),
    (
        pa.timestamp("us"),
        [
            (5, 5),
            (np.int32(5), 5),
            (NOON, 1_714_998_615_250_000),
            (NOON.replace(tzinfo=UTC), 1_714_998_615_250_000),
            (NOON.replace(tzinfo=PLUS_TWO), 1_714_991_415_250_000),
            ("2024-05-06T12:30:15.25", 1_714_998_615_250_000),
            ("2024-05-06 12:30:15.25+02:00", 1_714_991_415_250_000),
            (date(1970, 1, 2), 86_400_000_000),
            (np.datetime64(5, "ms"), 5000),
            (pd.Timestamp(5000), 5),
            (pa.scalar(5, pa.timestamp("s")), 5_000_000),
        ],
    ),
    (
        pa.timestamp("s", "Europe/Berlin"),
        [
            (5, 5),
            (datetime(2024, 5, 6, 12, tzinfo=PLUS_TWO), 1_714_989_600),
            ("2024-05-06T12:00:00+02:00", 1_714_989_600),
            (pd.Timestamp("2024-05-06T10:00", tz="UTC"), 1_714_989_600),
        ],
    ),
    (
        pa.timestamp("ns", "UTC"),
        [
            (NOON, 1_714_998_615_250_000_000),
            ("2024-05-06T12:30:15.123456789", 1_714_998_615_123_456_789),
            (pd.Timestamp(7), 7),
            ("1677-09-21T00:12:43.145224192Z", -(2**63)),
        ],
    ),
]

NOT_A_NUMBER = "expected a number"
REFUSED: list[tuple[pa.DataType, list[tuple[Any, str]]]] = [
    (pa.bool_(), [(1, "found 1 .int., expected a bool"), ("true", "expected a bool"), (0.0, "expected a bool")]),
    (
        pa.int8(),
        [
            (128, "found 128, expected int8 from -128 to 127"),
            (1.5, "found 1.5, which is no integer"),
            (math.nan, "found nan"),
            (math.inf, "found inf"),
            (1e300, "from -128 to 127"),
            (True, "found True .bool., expected an integer"),
            (np.bool_(True), "expected an integer"),
            ("5", "expected an integer"),
            (Decimal(5), "Decimal"),
            (NOON, "datetime"),
        ],
    ),
    (
        pa.int64(),
        [
            (2**63, "from -9223372036854775808"),
            (2.0**63, "from -9223372036854775808"),
            (np.datetime64(5, "s"), "expected an integer"),
            (np.timedelta64(5, "s"), "expected an integer"),
        ],
    ),
    (pa.uint64(), [(-1, "found -1, expected uint64 from 0"), (2**64, "18446744073709551615")]),
    (
        pa.float64(),
        [
            (2**53 + 1, "which float64 can only hold rounded"),
            (10**400, "only hold rounded"),
            (True, NOT_A_NUMBER),
            ("1.5", NOT_A_NUMBER),
            (Decimal("1.5"), NOT_A_NUMBER),
            (1j, NOT_A_NUMBER),
        ],
    ),
    (
        pa.float32(),
        [
            (1e300, "found 1e.300, outside the range of float32"),
            (2**24 + 1, "only hold rounded"),
            (10**39, "outside the range|only hold rounded"),
            (False, NOT_A_NUMBER),
        ],
    ),
    (
        pa.string(),
        [
            (b"x", "expected a str; decode it first"),
            (5, "found 5 .int., expected a str"),
            ("a\ud800", "lone surrogate"),
            (math.nan, "expected a str"),
        ],
    ),
    (pa.binary(), [("x", "expected bytes; encode it first"), (5, "expected bytes")]),
    (
        pa.date32(),
        [
            (NOON, "time of day and the zone would be lost"),
            (datetime(2024, 1, 1, tzinfo=UTC), "zone would be lost"),
            (5, "no point in time"),
            ("2024-02-30", "no day"),
            (True, "no point in time"),
        ],
    ),
    (
        pa.decimal128(5, 2),
        [
            (Decimal("1.234"), "found Decimal..1.234.., expected at most 5 digits, 2 of them behind"),
            (1000, "at most 5 digits"),
            (1.5, "Decimal.str.x.."),
            (Decimal("NaN"), "at most 5"),
            (Decimal("Infinity"), "at most"),
            (True, "expected a Decimal or int"),
        ],
    ),
    (
        pa.timestamp("us"),
        [
            (1.5, "no point in time"),
            (True, "no point in time"),
            ("yesterday", "no ISO 8601"),
            (pd.Timestamp(5), "between two microseconds"),
            (2**63, "outside the range"),
            (time(12), "no point in time"),
            ("2024-05-06T12:30:15.1234567", "between two"),
        ],
    ),
    (pa.timestamp("s"), [(NOON, "between two seconds"), ("0000-01-01", "no day")]),
    (
        pa.timestamp("ns"),
        [(datetime(2300, 1, 1), "outside the range of a clock of nanoseconds"), ("2300-01-01", "outside the range")],
    ),
    (
        pa.timestamp("us", "Europe/Berlin"),
        [
            (NOON, "names no time zone"),
            ("2024-05-06T12:30:15", "names no time zone"),
            (date(2024, 1, 1), "names no time zone"),
            (np.datetime64(5, "s"), "names no time zone"),
        ],
    ),
]

MISSING = [None, pd.NA, pd.NaT, np.datetime64("NaT", "us"), pa.scalar(None, pa.int64())]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("type_", "pairs"), ACCEPTED, ids=[str(type_) for type_, _ in ACCEPTED])
def test_accepts(way: Way, type_: pa.DataType, pairs: list[tuple[Any, Any]]) -> None:
    schema = schema_of(type_)
    values, expected = [value for value, _ in pairs], [each for _, each in pairs]
    assert way(values, schema) == expected
    for value, meant in pairs:
        assert way([value], schema) == [meant]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("type_", "pairs"), REFUSED, ids=[str(type_) for type_, _ in REFUSED])
def test_refuses(way: Way, type_: pa.DataType, pairs: list[tuple[Any, str]]) -> None:
    schema = schema_of(type_)
    for value, reason in pairs:
        several = way in (as_rows, as_columns, as_objects)
        with pytest.raises(InputError, match=reason) as caught:
            way([None, None, value, value] if several else [value], schema)
        assert "column 'x'" in str(caught.value)
        assert caught.value.column == "x"
        assert caught.value.row == (2 if several else 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type_", [type_ for type_, _ in ACCEPTED], ids=str)
def test_missing_values_are_null_or_refused(way: Way, type_: pa.DataType) -> None:
    assert way(MISSING, schema_of(type_)) == [None] * len(MISSING)
    for value in MISSING:
        with pytest.raises(InputError, match=r"column 'x'.* not nullable"):
            way([value], schema_of(type_, nullable=False))


def test_nan_is_a_number() -> None:
    for way in WAYS:
        for type_ in (pa.float32(), pa.float64()):
            (result,) = way([math.nan], schema_of(type_, nullable=False))
            assert math.isnan(result)


def test_the_decimal_context_of_the_user_does_not_matter() -> None:
    with localcontext(prec=3, traps=[Inexact]):
        value = Decimal("12345678901234567890.12")
        for way in WAYS:
            assert way([value], schema_of(pa.decimal128(38, 4))) == [value]


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers(-300, 300)
    | st.sampled_from([2**power + step for power in (24, 53, 60, 63, 64) for step in (-1, 0, 1)])
    | st.floats()
    | st.floats(width=32)
    | st.integers(-10, 10).map(float)
    | st.text(max_size=3)
    | st.sampled_from(
        ["2024-01-01", "2024-01-01T00:00Z", "2024-01-01T00:00:00.0000001", "0000-01-01", "2024-01-01T10Z"]
    )
    | st.binary(max_size=3)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(PLUS_TWO))
    | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
    | st.decimals(-2000, 2000, places=2)
    | st.decimals()
    | st.sampled_from([np.bool_(True), np.int8(5), np.uint64(2**63), np.float32(0.1), np.float64(0.1), np.float16(0.5)])
    | st.sampled_from([np.str_("s"), np.bytes_(b"b"), np.datetime64(10, "ns"), pd.Timestamp(1500), pa.scalar(5)])
)


@settings(max_examples=scaled(400))
@given(
    st.sampled_from([type_ for type_, _ in ACCEPTED]),
    st.one_of([st.lists(branch, min_size=1, max_size=3) for branch in [ANYTHING, *ANYTHING.branches]]),
)
def test_all_ways_agree(type_: pa.DataType, values: list[Any]) -> None:
    """Whole columns take shortcuts through Arrow; they must decide like the reading of single values."""
    schema = schema_of(type_)
    expected, first_bad = [], None
    for row, value in enumerate(values):
        try:
            expected += as_event([value], schema)
        except InputError:
            first_bad = row
            break
    for way in (as_rows, as_columns, as_objects):
        if first_bad is None:
            assert repr(way(values, schema)) == repr(expected)
        else:
            with pytest.raises(InputError) as caught:
                way(values, schema)
            assert caught.value.row == first_bad
