"""Streams that begin with data, and streams that may be there already."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.model.errors import ExistsError, InputError, NotFoundError, SchemaError
from tidelog.store.catalogue import Catalogue

NOON = datetime.datetime(2026, 1, 1, 12)
ROWS: list[dict[str, Any]] = [
    {"ts": NOON, "symbol": "TIDE", "price": 1.5, "volume": 3},
    {"ts": NOON + datetime.timedelta(seconds=1), "symbol": None, "price": 2.5, "volume": 4},
]
TABLE = pa.Table.from_pylist(ROWS)

FORMS: dict[str, Any] = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "pandas": pd.DataFrame({"ts": pd.to_datetime([row["ts"] for row in ROWS]).astype("M8[us]")}).assign(
        symbol=["TIDE", None], price=[1.5, 2.5], volume=[3, 4]
    ),
    "polars": pl.DataFrame(ROWS),
    "columns": {name: TABLE[name].to_pylist() for name in TABLE.column_names},
    "NumPy": {
        "ts": np.array([row["ts"] for row in ROWS], "M8[us]"),
        "symbol": ["TIDE", None],
        "price": np.array([1.5, 2.5]),
        "volume": np.array([3, 4]),
    },
    "rows": ROWS,
}


class _Once:
    """Exports its table once, as some do."""

    def __init__(self, table: pa.Table) -> None:
        self._table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table, self._table = self._table, None
        assert table is not None, "exported twice"
        return table.__arrow_c_stream__(requested_schema)


FORMS["exported once"] = lambda: _Once(TABLE)
FORMS["DuckDB"] = lambda: duckdb.from_arrow(TABLE)


def form(name: str) -> Any:
    found = FORMS[name]
    return found() if callable(found) else found


@pytest.mark.parametrize("name", FORMS)
def test_the_schema_is_that_of_the_data_which_is_appended(name: str) -> None:
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", data=form(name), time="ts")
        assert stream.schema.time == "ts"
        assert dict(zip(stream.schema.names, stream.schema.arrow.types, strict=True)) == {
            "ts": pa.timestamp("us"),
            "symbol": pa.string(),
            "price": pa.float64(),
            "volume": pa.int64(),
        }
        assert stream.scan().read_all().to_pylist() == ROWS
        again = store.create_stream("s", data=form(name), time="ts", exist_ok=True)
        assert again is stream
        assert len(stream) == 4


def test_data_of_another_stream() -> None:
    with Store(MemoryMedium()) as store:
        first = store.create_stream("first", data=TABLE, time="ts")
        second = store.create_stream("second", data=first, time="ts", split="1d")
        assert second.scan().read_all().equals(first.scan().read_all())


def test_data_for_a_schema_that_is_given() -> None:
    schema = pa.schema(
        [("ts", pa.timestamp("ms")), ("symbol", pa.string()), ("price", pa.float32()), ("volume", pa.int8())]
    )
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", schema, "ts", data=TABLE)
        assert stream.scan().read_all()["volume"].to_pylist() == [3, 4]
        assert stream.schema.arrow.field("volume").type == pa.int8()


def test_what_does_not_fit_leaves_no_stream() -> None:
    small = pa.schema([("ts", pa.timestamp("us")), ("volume", pa.int8())])
    with Store(MemoryMedium()) as store:
        with pytest.raises(InputError, match="volume"):
            store.create_stream("s", small, "ts", data={"ts": [NOON, NOON], "volume": [1, 1000]})
        with pytest.raises(InputError, match="unknown column"):
            store.create_stream("s", small, "ts", data=TABLE)
        for data, time in ((TABLE, "at"), (TABLE, None), ({"ts": [1], "x": [{}]}, "ts"), (5, "ts"), ([], "ts")):
            with pytest.raises(SchemaError):
                store.create_stream("s", data=data, time=time)
        with pytest.raises(SchemaError, match="found neither a schema nor data"):
            store.create_stream("s", time="ts")
        with pytest.raises(SchemaError, match="leave time out"):
            store.create_stream("s", tidelog.Schema(small, "ts"), "volume")
        assert store.streams() == []


def test_memory_of_the_caller_may_change_afterwards() -> None:
    with Store(MemoryMedium()) as store:
        numbers = np.arange(5)
        stream = store.create_stream("s", data={"ts": numbers, "x": numbers}, time="ts")
        numbers[:] = 7
        assert stream.scan().read_all()["x"].to_pylist() == [0, 1, 2, 3, 4]


def test_what_is_there_is_returned_if_it_is_the_same() -> None:
    schema = pa.schema([("ts", pa.int64()), pa.field("x", pa.float64(), nullable=False)])
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", schema, "ts", split=100, exist_ok=True)
        stream.append({"ts": 1, "x": 1.0})
        assert store.create_stream("s", schema, "ts", exist_ok=True) is stream
        assert store.create_stream("s", schema, "ts", exist_ok=True, split=100) is stream
        assert store.create_stream("s", time="ts", data={"ts": [2], "x": [2.0]}, exist_ok=True) is stream
        assert len(stream) == 2
        with pytest.raises(ExistsError):
            store.create_stream("s", schema, "ts")
        for other in (
            pa.schema([("ts", pa.int64()), ("x", pa.float64())]),
            pa.schema([("ts", pa.int64()), pa.field("x", pa.float32(), nullable=False)]),
            pa.schema([("ts", pa.int64())]),
            pa.schema([pa.field("x", pa.float64(), nullable=False), ("ts", pa.int64())]),
        ):
            with pytest.raises(
                SchemaError, match="stream 's' exists with the columns ts int64 not null, x float64 not"
            ):
                store.create_stream("s", other, "ts", exist_ok=True)
        with pytest.raises(SchemaError, match="exists with the columns"):
            store.create_stream("s", data={"ts": [2], "x": [2]}, time="ts", exist_ok=True)
        with pytest.raises(InputError, match="exists with split=100, found 50"):
            store.create_stream("s", schema, "ts", exist_ok=True, split=50)
        assert len(stream) == 2


def test_others_may_create_it_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("ts", pa.int64()), ("x", pa.float64())])
    with tidelog.open(tmp_path) as store, tidelog.open(tmp_path) as other:
        create = Catalogue.create_stream

        def slow(self: Catalogue, *args: Any, **options: Any) -> Any:
            monkeypatch.undo()
            other.create_stream("s", schema, "ts").append({"ts": 1, "x": 1.0})
            other.stream("s").close()
            return create(self, *args, **options)

        monkeypatch.setattr(Catalogue, "create_stream", slow)
        stream = store.create_stream("s", data={"ts": [2], "x": [2.0]}, time="ts", exist_ok=True)
        assert len(stream) == 2


def test_names_are_still_checked() -> None:
    with Store(MemoryMedium()) as store:
        for name in ("", 5, None):
            with pytest.raises(InputError):
                store.create_stream(name, data=TABLE, time="ts", exist_ok=True)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            store.stream("s")
