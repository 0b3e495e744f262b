"""Arrow data, dicts and lists on their way in: names, batches, memory, streams, errors."""

from __future__ import annotations

import collections
import subprocess
import sys
import types
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.conversion.convert import to_batches
from tidelog.model.errors import InputError
from tidelog.model.schema import Schema

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("us")),
            pa.field("symbol", pa.string(), False),
            pa.field("price", pa.float64()),
            pa.field("volume", pa.int32()),
        ]
    ),
    "ts",
)
EVENT = {"ts": 1, "symbol": "A", "price": 1.5, "volume": 7}
TABLE = pa.table(
    {
        "ts": pa.array([1, 2, 3], pa.timestamp("us")),
        "symbol": ["A", "B", "C"],
        "price": [1.5, None, 2.5],
        "volume": pa.array([7, 8, None], pa.int32()),
    }
)
BATCH = TABLE.to_batches()[0]
EXACT = pa.RecordBatch.from_arrays(BATCH.columns, schema=SCHEMA.arrow)


def converted(data: Any, schema: Schema = SCHEMA, **options: Any) -> pa.Table:
    batches = list(to_batches(data, schema, **options))
    for batch in batches:
        assert batch.schema.equals(schema.arrow, check_metadata=True)
        assert batch.num_rows > 0
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema.arrow)


def addresses(column: pa.Array | pa.ChunkedArray) -> list[int | None]:
    chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return [None if buffer is None else buffer.address for buffer in chunk.buffers()]


# What is accepted.


class ExportsStream:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class ExportsArray:
    def __init__(self, data: pa.RecordBatch | pa.Array) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._data.__arrow_c_array__(requested_schema)


ROWS = TABLE.to_pylist()
COLUMNS = TABLE.to_pydict()
OTHER_TYPES = [pa.timestamp("ns"), pa.large_string(), pa.float32(), pa.float64()]
FORMS = {
    "table": TABLE,
    "batch": BATCH,
    "exact batch": EXACT,
    "reader": TABLE.to_reader,
    "stream": ExportsStream(TABLE),
    "array": ExportsArray(BATCH),
    "struct array": BATCH.to_struct_array(),
    "chunked struct array": TABLE.to_struct_array(),
    "dict of lists": COLUMNS,
    "dict of tuples": {name: tuple(values) for name, values in COLUMNS.items()},
    "dict of Arrow arrays": {name: BATCH[name] for name in TABLE.column_names},
    "dict of chunked arrays": {name: TABLE[name] for name in TABLE.column_names},
    "dict of exporters": {name: ExportsArray(BATCH[name]) for name in COLUMNS},
    "list of dicts": ROWS,
    "list of mappings": [types.MappingProxyType(row) for row in ROWS],
    "mapping": types.MappingProxyType(COLUMNS),
    "ordered dict": collections.OrderedDict(reversed(COLUMNS.items())),
    "dictionary columns": pa.table({name: TABLE[name].dictionary_encode() for name in COLUMNS}),
    "views": TABLE.set_column(1, "symbol", TABLE["symbol"].cast(pa.string_view())),
    "other types": TABLE.cast(pa.schema(zip(COLUMNS, OTHER_TYPES, strict=True))),
    "other order": TABLE.select(["volume", "price", "symbol", "ts"]),
    "metadata": TABLE.replace_schema_metadata({"pandas": "{}"}),
    "several chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_events(form: str) -> None:
    data = FORMS[form]() if form == "reader" else FORMS[form]
    assert converted(data).to_pylist() == ROWS


@pytest.mark.parametrize("form", FORMS)
def test_data_in_memory_comes_as_a_list_and_streams_do_not(form: str) -> None:
    data = FORMS[form]() if form == "reader" else FORMS[form]
    streams = {"reader", "stream", "chunked struct array"}
    assert isinstance(to_batches(data, SCHEMA), list) == (form not in streams)


def test_an_event_is_a_batch_of_one() -> None:
    assert converted(EVENT).to_pylist() == [EVENT | {"ts": datetime(1970, 1, 1, 0, 0, 0, 1)}]


@pytest.mark.parametrize(
    "data",
    [
        [],
        {name: [] for name in COLUMNS},
        {name: np.array([], int) for name in ("ts", "volume")} | {"symbol": []},
        TABLE.slice(0, 0),
        BATCH.slice(0, 0),
        EXACT.slice(0, 0),
        TABLE.slice(0, 0).to_reader(),
    ],
)
def test_nothing_gives_no_batches(data: Any) -> None:
    assert list(to_batches(data, SCHEMA)) == []


def test_numpy_columns() -> None:
    table = converted(
        {
            "ts": np.arange(6, dtype=">i8")[::2],
            "symbol": np.array(["A", "B", "C"]),
            "price": np.ma.masked_array([1.5, np.nan, 2.5], mask=[False, False, True]),
            "volume": np.arange(12, dtype=np.uint8).reshape(3, 4)[:, 1],
        }
    )
    assert table["ts"].cast(pa.int64()).to_pylist() == [0, 2, 4]
    assert table["symbol"].to_pylist() == ["A", "B", "C"]
    assert repr(table["price"].to_pylist()) == "[1.5, nan, None]"
    assert table["volume"].to_pylist() == [1, 5, 9]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["2024-01-01T00:00:00.5", "NaT"], "M8[ms]"), [1_704_067_200_500_000, None]),
        (np.array(["2024-01-01", "NaT"], ">M8[D]"), [1_704_067_200_000_000, None]),
        (np.array(["2024-01", "NaT"], "M8[M]"), [1_704_067_200_000_000, None]),
        (np.array([2, 3], "M8[h]"), [7_200_000_000, 10_800_000_000]),
        (np.array([2, 3], "M8[25ms]"), [50_000, 75_000]),
        (np.array([2_000_000, 3_000_000], "M8[ps]"), [2, 3]),
        (np.array(["1970-01-01T00:00:01", "1970-01-01"]), [1_000_000, 0]),
        (np.array(["1970-01-01T00:00:01", "1970-01-01"], np.dtypes.StringDType()), [1_000_000, 0]),
        (np.ma.masked_array(["1970-01-01", "x"], mask=[False, True]), [0, None]),
        (np.array([datetime(1970, 1, 2), None]), [86_400_000_000, None]),
        (range(2), [0, 1]),
    ],
)
def test_numpy_times(values: Any, expected: list[int | None]) -> None:
    schema = Schema(pa.schema([("ts", pa.int64()), ("t", pa.timestamp("us"))]), "ts")
    table = converted({"ts": [1, 2], "t": values}, schema)
    assert table["t"].cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.array([1, 2_000_000], "M8[ps]"), r"row 0: .*between two microseconds"),
        (np.array([1, 2**60], "M8[W]"), r"row 1: .*outside the range"),
        (np.zeros((2, 2)), "2 dimensions, expected one"),
        (np.zeros(2, "m8[s]"), r"found type duration\[s\], expected timestamp"),
        (np.zeros(2, "c16"), "NumPy array of complex128, which no column can hold"),
        (np.zeros(2), "found type float64, expected timestamp.us.; turn it into integers"),
        (np.zeros(2, bool), "found type bool"),
    ],
)
def test_numpy_arrays_that_do_not_fit(values: Any, reason: str) -> None:
    schema = Schema(pa.schema([("ts", pa.int64()), ("t", pa.timestamp("us"))]), "ts")
    with pytest.raises(InputError, match=f"column 't'.*{reason}"):
        to_batches({"ts": [1, 2], "t": values}, schema)


def test_single_values_are_repeated() -> None:
    table = converted({"ts": [1, 2, 3], "symbol": "A", "price": None, "volume": np.array(5)})
    assert table["symbol"].to_pylist() == ["A"] * 3
    assert table["price"].to_pylist() == [None] * 3
    assert table["volume"].to_pylist() == [5] * 3
    at_once = converted({"ts": datetime(2024, 1, 1), "symbol": ["A", "B"]})
    assert at_once["ts"].to_pylist() == [datetime(2024, 1, 1)] * 2


# Memory.


def test_arrow_memory_is_shared() -> None:
    assert to_batches(EXACT, SCHEMA)[0] is EXACT
    for data in (
        BATCH,
        TABLE,
        BATCH.select(["price", "volume", "ts", "symbol"]),
        dict(zip(BATCH.schema.names, BATCH.columns, strict=True)),
    ):
        (batch,) = to_batches(data, SCHEMA)
        for name in SCHEMA.names:
            assert addresses(batch[name]) == addresses(BATCH[name])


def test_numpy_memory_is_shared() -> None:
    ts, price, volume = np.arange(5), np.ones(5), np.arange(5, dtype=np.int32)
    (batch,) = to_batches({"ts": ts, "symbol": "A", "price": price, "volume": volume}, SCHEMA)
    for name, array in (("ts", ts), ("price", price), ("volume", volume)):
        assert addresses(batch[name])[1] == array.ctypes.data


def test_slices_stay_slices() -> None:
    (batch,) = to_batches(BATCH.slice(1), SCHEMA)
    assert batch.to_pylist() == ROWS[1:]
    assert addresses(batch["symbol"]) == addresses(BATCH["symbol"])


# Names.


@pytest.mark.parametrize(
    "make", [pa.table, dict, lambda columns: pa.table(columns).to_pylist(), lambda c: pa.table(c).to_reader()]
)
class TestNames:
    def test_nullable_columns_may_be_missing(self, make: Any) -> None:
        table = converted(make({"ts": [1], "symbol": ["A"]}))
        assert table.select(["price", "volume"]).to_pylist() == [{"price": None, "volume": None}]

    def test_other_columns_must_be_there(self, make: Any) -> None:
        with pytest.raises(InputError, match="no column 'symbol', which is not nullable") as caught:
            to_batches(make({"ts": [1]}), SCHEMA)
        assert caught.value.column == "symbol"
        with pytest.raises(InputError, match="no column 'ts'"):
            to_batches(make({"symbol": ["A"]}), SCHEMA)

    def test_unknown_columns_are_refused(self, make: Any) -> None:
        with pytest.raises(InputError, match=r"unknown column 'Prices'; did you mean 'price'\?") as caught:
            to_batches(make({"ts": [1], "symbol": ["A"], "Prices": [1.0]}), SCHEMA)
        assert caught.value.column == "Prices"
        with pytest.raises(InputError, match="unknown column 'zzz'; known are 'ts', 'symbol', 'price', 'volume'"):
            to_batches(make({"ts": [1], "symbol": ["A"], "zzz": [1.0]}), SCHEMA)

    def test_sequence_numbers_are_not_for_users(self, make: Any) -> None:
        with pytest.raises(InputError, match="'_seq', which is assigned on arrival; leave it out"):
            to_batches(make({"ts": [1], "symbol": ["A"], "_seq": [1]}), SCHEMA)


def test_repeated_columns_are_refused() -> None:
    table = pa.Table.from_arrays([*TABLE.columns, TABLE["price"]], names=[*TABLE.column_names, "price"])
    with pytest.raises(InputError, match="several columns 'price'"):
        to_batches(table, SCHEMA)


def test_names_must_be_text() -> None:
    for data in (
        {"ts": 1, "symbol": "A", 5: 1},
        [{"ts": 1, "symbol": "A", 5: 1}],
        {"ts": [1], "symbol": ["A"], 5: [1]},
    ):
        with pytest.raises(InputError, match="unknown column 5; names are strings"):
            to_batches(data, SCHEMA)


def test_an_event_has_to_fit_as_well() -> None:
    for event, reason in [
        ({"ts": 1}, "the event has no column 'symbol'"),
        ({}, "the event has no column 'ts'"),
        (EVENT | {"pric": 1.0}, "the event has an unknown column 'pric'; did you mean 'price'"),
        (EVENT | {"price": "x"}, "column 'price': found 'x' .str., expected a number"),
        (EVENT | {"symbol": None}, "column 'symbol': found None, expected string: the column is not nullable"),
        (EVENT | {"ts": None}, r"column 'ts': found None, expected timestamp\[us\]"),
    ]:
        with pytest.raises(InputError, match=reason):
            to_batches(event, SCHEMA)


def test_events_in_a_list_may_leave_out_different_columns() -> None:
    table = converted([EVENT, {"ts": 2, "symbol": "B"}, {"volume": 3, "symbol": "C", "ts": 3}])
    assert table["price"].to_pylist() == [1.5, None, None]
    assert table["volume"].to_pylist() == [7, None, 3]
    with pytest.raises(InputError, match="column 'symbol', row 1: found a null"):
        to_batches([EVENT, {"ts": 2}, EVENT], SCHEMA)
    with pytest.raises(InputError, match="row 1 has an unknown column 'sybmol'; did you mean 'symbol'"):
        to_batches([EVENT, EVENT | {"sybmol": "A"}], SCHEMA)


def test_columns_of_one_dict_have_one_length() -> None:
    with pytest.raises(
        InputError, match="2 values in column 'ts', but 3 in column 'volume'; expected columns of one length"
    ):
        to_batches({"ts": [1, 2], "symbol": "A", "volume": [1, 2, 3]}, SCHEMA)
    with pytest.raises(InputError, match="2 values in column 'ts', but 1 in column 'symbol'"):
        to_batches({"ts": [1, 2], "symbol": ["A"]}, SCHEMA)


# Values: the first one that does not fit, wherever it is.


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_rows_are_counted_over_the_whole_input(chunk: int) -> None:
    prices = pa.array([0, 1, 2, 2**53 + 1, 2**53 + 1])
    data = pa.table({"ts": range(5), "symbol": ["A"] * 5, "price": prices})
    data = pa.Table.from_batches(data.to_batches(max_chunksize=chunk))
    reason = "column 'price', row 3: found 9007199254740993, which float64 can only hold rounded"
    for each in (data, data.to_reader(), {name: data[name] for name in data.column_names}):
        with pytest.raises(InputError, match=reason) as caught:
            list(to_batches(each, SCHEMA))
        assert (caught.value.column, caught.value.row) == ("price", 3)


@pytest.mark.parametrize("name", ["ts", "symbol"])
def test_nulls_are_refused_where_there_must_be_none(name: str) -> None:
    table = pa.concat_tables([TABLE, TABLE])
    nulled = table[name].to_pylist()
    nulled[4] = nulled[5] = None
    at = table.column_names.index(name)
    table = table.set_column(at, name, pa.chunked_array([nulled[:3], nulled[3:]], table[name].type))
    for data in (
        table,
        table.to_reader(),
        table.to_pylist(),
        table.to_pydict(),
        {n: table[n] for n in table.column_names},
    ):
        with pytest.raises(InputError, match=f"column '{name}', row 4: found a null, but the column is not nullable"):
            list(to_batches(data, SCHEMA))


def test_nulls_in_an_exact_batch_are_refused() -> None:
    columns = [pa.array([1, None], pa.timestamp("us")), *(column.slice(0, 2) for column in EXACT.columns[1:])]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow)
    with pytest.raises(InputError, match="column 'ts', row 1: found a null"):
        to_batches(batch, SCHEMA)


def test_wrong_types_are_named() -> None:
    data = TABLE.set_column(2, "price", pa.array(["1", "2", "3"]))
    with pytest.raises(InputError, match="column 'price': found type string, expected float64; parse it first"):
        to_batches(data, SCHEMA)


def test_nothing_is_returned_when_the_end_does_not_fit() -> None:
    good = pa.table({"ts": [1], "symbol": ["A"], "volume": [1]})
    bad = pa.table({"ts": [1], "symbol": ["A"], "volume": [2**40]})
    with pytest.raises(InputError, match="row 1: found 1099511627776"):
        to_batches(pa.concat_tables([good, bad]), SCHEMA)


# Streams.


def reader_of(batches: Iterator[pa.RecordBatch], schema: pa.Schema = BATCH.schema) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def test_streams_are_read_batch_by_batch() -> None:
    pulled = 0

    def endless() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        while True:
            pulled += 1
            yield BATCH

    batches = iter(to_batches(reader_of(endless()), SCHEMA))
    assert pulled == 0
    for expected in (1, 2, 3):
        assert next(batches).to_pylist() == ROWS
        assert pulled == expected


def test_the_columns_of_a_stream_are_checked_before_it_is_read() -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("read too early")
        yield

    with pytest.raises(InputError, match="no column 'symbol'"):
        to_batches(reader_of(never(), pa.schema([("ts", pa.int64())])), SCHEMA)
    with pytest.raises(InputError, match="column 'symbol': found type bool"):
        to_batches(reader_of(never(), pa.schema([("ts", pa.int64()), ("symbol", pa.bool_())])), SCHEMA)


def test_a_stream_hands_out_what_came_before_the_fault() -> None:
    bad = BATCH.set_column(1, "symbol", pa.array(["A", None, "C"]))
    batches = iter(to_batches(reader_of(iter([BATCH, bad])), SCHEMA))
    assert next(batches).num_rows == 3
    with pytest.raises(InputError, match="column 'symbol', row 4"):
        next(batches)


def test_faults_of_the_source_are_not_disguised() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise OSError("the network is down")

    with pytest.raises(OSError, match="the network is down"):
        list(to_batches(reader_of(failing()), SCHEMA))


# Validation on demand.


@pytest.mark.parametrize("as_table", [True, False])
def test_malformed_text_is_found_on_demand(as_table: bool) -> None:
    symbols = pa.array([b"A", b"\xc3\xa4", b"\xff"]).view(pa.string())
    batch = pa.RecordBatch.from_arrays([BATCH["ts"], symbols, *BATCH.columns[2:]], schema=SCHEMA.arrow)
    data = pa.Table.from_batches([BATCH.cast(SCHEMA.arrow), batch]) if as_table else batch
    assert sum(each.num_rows for each in to_batches(data, SCHEMA)) == data.num_rows
    with pytest.raises(
        InputError, match=f"column 'symbol', row {5 if as_table else 2}: the Arrow data is malformed.*UTF8"
    ):
        to_batches(data, SCHEMA, validate=True)
    assert converted(EXACT, validate=True).to_pylist() == ROWS


# What is not accepted.


@pytest.mark.parametrize(
    "data", [None, 5, "events.csv", (1, 2), {1, 2}, object(), iter([]), np.zeros(3), b"x", [EVENT].__iter__()]
)
def test_other_things_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match=f"{type(data).__name__}.*expected an Arrow table, batch or reader, a pandas"):
        to_batches(data, SCHEMA)


@pytest.mark.parametrize("row", [(1, "A"), None, BATCH, "x"])
def test_lists_of_other_things_are_refused(row: Any) -> None:
    with pytest.raises(InputError, match=f"row 1: found .*{type(row).__name__}.*expected a dict of names to values"):
        to_batches([EVENT, row], SCHEMA)


def test_arrays_are_no_tables() -> None:
    for data in (pa.array([1, 2]), pa.chunked_array([[1, 2]])):
        with pytest.raises(InputError, match="no table of columns"):
            to_batches(data, SCHEMA)


def test_huge_strings_are_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.model.conversion.casts.MAX_VARIABLE_BYTES", 2)
    data = BATCH.set_column(1, "symbol", BATCH["symbol"].cast(pa.large_string()))
    batches = list(to_batches(data, SCHEMA))
    assert len(batches) > 1
    assert pa.Table.from_batches(batches).to_pylist() == ROWS


# Everything at once.

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=6),
    pa.large_string(): st.text(max_size=100),
    pa.binary(): st.binary(max_size=70),
    pa.date32(): st.dates(),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3),
    pa.timestamp("us"): st.datetimes(),
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    chosen = draw(st.lists(st.tuples(st.sampled_from(list(VALUES)), st.booleans()), max_size=5))
    fields = [pa.field(f"c{i}", type_, nullable) for i, (type_, nullable) in enumerate(chosen)]
    fields.insert(draw(st.integers(0, len(fields))), pa.field("ts", pa.int64()))
    schema = Schema(pa.schema(fields), "ts")
    cells = {
        f.name: st.none() | VALUES[f.type] if f.nullable else VALUES.get(f.type, st.integers(0, 9)) for f in schema
    }
    return schema, draw(st.lists(st.fixed_dictionaries(cells), max_size=5))


@given(streams())
def test_any_events_arrive_by_any_way(stream: tuple[Schema, list[dict[str, Any]]]) -> None:
    schema, events = stream
    columns = {name: [event[name] for event in events] for name in schema.names}
    table = pa.table(columns, schema=schema.arrow)
    for data in (
        events,
        columns,
        table,
        table.to_reader(),
        pa.Table.from_pydict(columns, schema=schema.arrow).select(sorted(columns)),
    ):
        assert converted(data, schema).to_pylist() == events
    one_by_one = [converted(event, schema) for event in events]
    assert [row for each in one_by_one for row in each.to_pylist()] == events


def test_the_model_does_not_import_heavy_packages() -> None:
    program = (
        "import sys, tidelog.model.conversion.convert, tidelog.model.evolution, tidelog.model.conversion.infer\n"
        "print(*sorted({'pandas', 'polars', 'numba', 'duckdb', 'pyspark'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
