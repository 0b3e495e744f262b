"""pandas and Polars data frames on their way in."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidelog.model.conversion.convert import to_batches
from tidelog.model.errors import InputError
from tidelog.model.schema import Schema


def schema_of(type_: pa.DataType, *, nullable: bool = True) -> Schema:
    return Schema(pa.schema([("ts", pa.timestamp("us")), pa.field("x", type_, nullable)]), "ts")


def column(data: Any, type_: pa.DataType) -> list[Any]:
    schema = schema_of(type_)
    batches = to_batches(data, schema)
    for batch in batches:
        assert batch.schema.equals(schema.arrow, check_metadata=True)
        batch.validate(full=True)
    return [value for batch in batches for value in batch["x"].to_pylist()]


def pandas_frame(values: Any, dtype: Any = None) -> pd.DataFrame:
    series = values if isinstance(values, pd.Series) else pd.Series(values, dtype=dtype)
    return pd.DataFrame({"ts": pd.date_range("2024", periods=len(series)), "x": series})


NAN, NA = math.nan, pd.NA


@pytest.mark.parametrize(
    ("values", "dtype", "type_", "expected"),
    [
        ([1, 2], "int64", pa.int32(), [1, 2]),
        ([1, 2], "uint8", pa.float64(), [1.0, 2.0]),
        ([1.0, 2.0], "float64", pa.int64(), [1, 2]),
        ([1, None], "Int64", pa.int64(), [1, None]),
        ([1.5, None], "Float64", pa.float64(), [1.5, None]),
        ([True, None], "boolean", pa.bool_(), [True, None]),
        ([True, False], "bool", pa.bool_(), [True, False]),
        ([True, None], "object", pa.bool_(), [True, None]),
        (["a", None], "object", pa.string(), ["a", None]),
        (["a", NAN], "object", pa.string(), ["a", None]),
        (["a", NA], "object", pa.large_string(), ["a", None]),
        (["a", None], "string", pa.string(), ["a", None]),
        (["a", None], pd.StringDtype("pyarrow"), pa.string(), ["a", None]),
        (["a", "b", "a", None], "category", pa.string(), ["a", "b", "a", None]),
        ([3, 1, 3], "category", pa.int8(), [3, 1, 3]),
        ([b"a", None], "object", pa.binary(), [b"a", None]),
        ([date(2024, 1, 1), None], "object", pa.date32(), [date(2024, 1, 1), None]),
        ([Decimal("1.5"), None], "object", pa.decimal128(5, 2), [Decimal("1.50"), None]),
        ([2**70, None], "object", pa.decimal128(38, 0), [Decimal(2**70), None]),
        ([1, None], "object", pa.int64(), [1, None]),
        ([1, 2], pd.ArrowDtype(pa.int16()), pa.int64(), [1, 2]),
        (["a", None], pd.ArrowDtype(pa.large_string()), pa.string(), ["a", None]),
        (["2024-01-01", None], "datetime64[ns]", pa.timestamp("s"), [datetime(2024, 1, 1), None]),
        (["2024-01-01", None], "datetime64[s]", pa.date32(), [date(2024, 1, 1), None]),
        (
            ["2024-01-01T01:00"],
            "datetime64[us, Europe/Berlin]",
            pa.timestamp("us", "UTC"),
            [datetime(2024, 1, 1, tzinfo=UTC)],
        ),
        (["2024-01-01T01:00"], "datetime64[us, Europe/Berlin]", pa.timestamp("us"), [datetime(2024, 1, 1)]),
        ([datetime(2024, 1, 1), pd.NaT], "object", pa.timestamp("us"), [datetime(2024, 1, 1), None]),
        (["2024-01-01", NAN], "object", pa.timestamp("us"), [datetime(2024, 1, 1), None]),
        (pd.arrays.SparseArray([1.0, 0.0], fill_value=0.0), None, pa.float64(), [1.0, 0.0]),
    ],
)
def test_pandas_columns(values: Any, dtype: Any, type_: pa.DataType, expected: list[Any]) -> None:
    if str(dtype).startswith("datetime64[us, "):
        values, dtype = pd.Series(pd.to_datetime(values).tz_localize("Europe/Berlin")), None
    assert column(pandas_frame(values, dtype), type_) == expected


MISSING = {
    "float64": pd.Series([1.5, NAN, 2.0]),
    "float32": pd.Series([1.5, NAN, 2.0], dtype="float32"),
    "object": pd.Series([1.5, NAN, None, NA, 2.0], dtype="object"),
    "Float64": pd.Series([1.5, None, 2.0], dtype="Float64"),
    "NaN inside of Float64": pd.Series([0.0, 1.5, None], dtype="Float64") / pd.Series([0.0, 1.0, 1.0], dtype="Float64"),
    "arrow": pd.Series([1.5, None, 2.0], dtype=pd.ArrowDtype(pa.float64())),
    "category": pd.Series([1.5, NAN, 2.0, 1.5], dtype="category"),
    "index": pd.Index([1.5, NAN, 2.0]),
    "index of objects": pd.Index([1.5, NAN, None], dtype="object"),
    "array": pd.array([1.5, None, 2.0]),
    "slice": pd.Series([0.0, 1.5, NAN, 2.0, NAN])[1:4],
    "strided": pd.DataFrame(np.array([[1.5, 0.0], [NAN, 0.0], [2.0, 0.0]]))[0],
    "all": pd.Series([NAN, NAN]),
}


def as_pyarrow_does(values: Any) -> list[Any]:
    found = pa.array(values, from_pandas=True)
    return list(found.dictionary_decode().to_pylist() if pa.types.is_dictionary(found.type) else found.to_pylist())


@pytest.mark.parametrize("kind", MISSING)
def test_nan_of_pandas_is_missing_as_for_pyarrow(kind: str) -> None:
    values = MISSING[kind]
    expected = as_pyarrow_does(values)
    times = list(range(len(values)))
    found = column({"ts": times, "x": values}, pa.float64())
    assert repr(found) == repr(expected)  # NaN, where PyArrow leaves one, is not equal to itself
    if isinstance(values, pd.Series):
        frame = pd.DataFrame({"ts": pd.to_datetime(times, unit="us"), "x": values.reset_index(drop=True)})
        assert repr(column(frame, pa.float64())) == repr(expected)
        assert repr(column(frame.set_index("x"), pa.float64())) == repr(expected)
    if kind not in ("Float64", "NaN inside of Float64", "arrow", "array"):  # which Polars and DuckDB read by Arrow
        assert pl.from_pandas(pd.Series(values)).cast(pl.Float64).to_list() == expected


def test_nan_of_pandas_is_missing_as_for_duckdb() -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime([1, 2, 3], unit="us"), "x": [1.5, NAN, 2.5]})
    assert duckdb.sql("SELECT count(x), avg(x) FROM frame").fetchall() == [(2, 2.0)]
    assert column(frame, pa.float64()) == [1.5, None, 2.5]


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (pd.Series([1.0, NAN]), pa.int64(), [1, None]),
        (pd.Series([1.0, NAN], dtype="float32"), pa.float32(), [1.0, None]),
        (pd.Series([1, NAN], dtype="object"), pa.int8(), [1, None]),
        (pd.Series([Decimal(1), Decimal("NaN"), NAN]), pa.decimal128(3), [Decimal(1), None, None]),
        (pd.Series([True, NAN], dtype="object"), pa.bool_(), [True, None]),
        (pd.arrays.SparseArray([1.0, NAN]), pa.float64(), [1.0, None]),
    ],
)
def test_nan_of_pandas_is_missing_in_columns_of_any_type(values: Any, type_: pa.DataType, expected: list[Any]) -> None:
    assert column({"ts": range(len(values)), "x": values}, type_) == expected
    assert column(pandas_frame(values), type_) == expected


@pytest.mark.parametrize("values", [np.array([1.5, NAN]), [1.5, NAN], (1.5, NAN), pa.array([1.5, NAN])])
def test_nan_that_is_not_of_pandas_is_a_number(values: Any) -> None:
    first, second = column({"ts": [1, 2], "x": values}, pa.float64())
    assert first == 1.5
    assert math.isnan(second)


@pytest.mark.parametrize("values", [pd.Series([1.5, NAN]), pd.Series([1.5, NAN], dtype="object"), pd.Index([1.5, NAN])])
def test_nan_of_pandas_in_a_column_without_nulls(values: Any) -> None:
    with pytest.raises(InputError, match=r"column 'x', row 1: found a missing value of pandas, but .* not nullable"):
        to_batches({"ts": [1, 2], "x": values}, schema_of(pa.float64(), nullable=False))


@pytest.mark.parametrize(
    ("values", "dtype", "type_", "reason"),
    [
        ([1.5, 2.0], "float64", pa.int64(), "row 0: found 1.5, which is no integer"),
        (["a", 5], "object", pa.string(), "row 1: found 5 .int., expected a str"),
        ([0.1, 0.2], "float64", pa.float32(), "row 0: found 0.1, which float32 can only hold rounded"),
        ([1, 2], "timedelta64[ns]", pa.int64(), "found type duration"),
        (pd.Series(pd.period_range("2024", periods=2)), None, pa.date32(), "found type extension"),
        (["2024-01-01"], "datetime64[ns]", pa.timestamp("us", "Europe/Berlin"), "assume_timezone"),
        (
            pd.Series(pd.to_datetime([1, 2000], unit="ns")),
            None,
            pa.timestamp("us"),
            r"row 0: found 1970-01-01T00:00:00.000000001",
        ),
    ],
)
def test_pandas_columns_that_do_not_fit(values: Any, dtype: Any, type_: pa.DataType, reason: str) -> None:
    with pytest.raises(InputError, match=f"column 'x'.*{reason}"):
        column(pandas_frame(values, dtype), type_)


def test_pandas_memory_is_shared() -> None:
    frame = pd.DataFrame({"ts": np.arange(5).astype("M8[us]"), "x": np.arange(5.0)})
    (batch,) = to_batches(frame, schema_of(pa.float64()))
    for name in ("ts", "x"):
        assert batch[name].buffers()[1].address == frame[name].to_numpy().ctypes.data


def test_the_index_of_a_frame_is_ignored_unless_it_is_a_column() -> None:
    frame = pandas_frame([1, 2])
    frame.index = pd.Index([10, 20], name="other")
    assert column(frame, pa.int64()) == [1, 2]
    assert column(frame.set_index("ts"), pa.int64()) == [1, 2]
    assert column(frame.set_index(["ts", "x"]), pa.int64()) == [1, 2]
    assert column(frame.iloc[::-1], pa.int64()) == [2, 1]
    with pytest.raises(InputError, match="the data frame has no column 'ts'"):
        column(frame.drop(columns="ts"), pa.int64())


def test_odd_columns_of_a_frame_are_refused() -> None:
    frame = pandas_frame([1, 2])
    with pytest.raises(InputError, match="the data frame has several columns 'x'"):
        column(pd.concat([frame, frame["x"]], axis=1), pa.int64())
    with pytest.raises(InputError, match="unknown column 0; names are strings"):
        column(frame.rename(columns={"x": 0}), pa.int64())
    with pytest.raises(InputError, match=r"unknown column 'X'; did you mean 'x'\?"):
        column(frame.rename(columns={"x": "X"}), pa.int64())


def test_empty_frames() -> None:
    assert to_batches(pandas_frame([1, 2]).iloc[:0], schema_of(pa.int64())) == []
    assert to_batches(pd.DataFrame({"ts": [], "x": []}, dtype=object), schema_of(pa.string())) == []
    assert to_batches(pl.DataFrame({"ts": [], "x": []}), schema_of(pa.string())) == []


def test_pandas_and_polars_columns_in_a_dict() -> None:
    times = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    for x in (
        pd.Series([1, 2]),
        pd.Index([1, 2]),
        pd.array([1, 2]),
        pl.Series([1, 2]),
        pd.Series([1, 2], index=[5, 6]),
    ):
        assert column({"ts": times, "x": x}, pa.int64()) == [1, 2]
        assert column({"ts": pd.Series(times), "x": x}, pa.int64()) == [1, 2]
    assert column({"ts": pd.to_datetime(times), "x": pl.Series(["a", None])}, pa.string()) == ["a", None]


def polars_frame(series: pl.Series) -> pl.DataFrame:
    times = pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, len(series)), "1d", eager=True)
    return pl.DataFrame({"ts": times, "x": series})


@pytest.mark.parametrize(
    ("series", "type_", "expected"),
    [
        (pl.Series([1, None], dtype=pl.Int64), pa.int8(), [1, None]),
        (pl.Series([1, 2], dtype=pl.UInt8), pa.int64(), [1, 2]),
        (pl.Series([1.5, None]), pa.float64(), [1.5, None]),
        (pl.Series([True, None]), pa.bool_(), [True, None]),
        (
            pl.Series(["a", None, "a string that is not stored inline"]),
            pa.string(),
            ["a", None, "a string that is not stored inline"],
        ),
        (pl.Series(["a", None]), pa.large_string(), ["a", None]),
        (pl.Series(["a", "b", "a"], dtype=pl.Categorical), pa.string(), ["a", "b", "a"]),
        (pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), pa.string(), ["a", "b"]),
        (pl.Series([b"a", None]), pa.binary(), [b"a", None]),
        (pl.Series([date(2024, 1, 1), None]), pa.date32(), [date(2024, 1, 1), None]),
        (pl.Series([date(2024, 1, 1), None]), pa.timestamp("ms"), [datetime(2024, 1, 1), None]),
        (pl.Series([datetime(2024, 1, 1)], dtype=pl.Datetime("ns")), pa.timestamp("us"), [datetime(2024, 1, 1)]),
        (
            pl.Series([datetime(2024, 1, 1)]).dt.replace_time_zone("UTC"),
            pa.timestamp("us", "UTC"),
            [datetime(2024, 1, 1, tzinfo=UTC)],
        ),
        (pl.Series([Decimal("1.5"), None], dtype=pl.Decimal(10, 2)), pa.decimal128(5, 1), [Decimal("1.5"), None]),
        (pl.Series([None, None]), pa.string(), [None, None]),
    ],
)
def test_polars_columns(series: pl.Series, type_: pa.DataType, expected: list[Any]) -> None:
    assert column(polars_frame(series), type_) == expected


@pytest.mark.parametrize(
    ("series", "type_", "reason"),
    [
        (pl.Series([datetime(2024, 1, 1, 12).time()]), pa.int64(), "found type time64"),
        (pl.Series([[1]]), pa.int64(), "no column can hold such values"),
        (pl.Series([1.5]), pa.int64(), "row 0: found 1.5"),
    ],
)
def test_polars_columns_that_do_not_fit(series: pl.Series, type_: pa.DataType, reason: str) -> None:
    with pytest.raises(InputError, match=f"column 'x'.*{reason}"):
        column(polars_frame(series), type_)


def test_nan_in_polars_is_a_number() -> None:
    assert math.isnan(column(polars_frame(pl.Series([NAN])), pa.float64())[0])


def test_polars_memory_is_shared() -> None:
    frame = polars_frame(pl.Series([1.5, 2.5]))
    (batch,) = to_batches(frame, schema_of(pa.float64()))
    assert batch["x"].buffers()[1].address == frame["x"].to_arrow().buffers()[1].address


def test_lazy_frames_hold_no_data() -> None:
    with pytest.raises(InputError, match=r"LazyFrame, which holds no data yet; append its .collect\(\)"):
        to_batches(polars_frame(pl.Series([1])).lazy(), schema_of(pa.int64()))
