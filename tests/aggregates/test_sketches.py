"""Rough estimates against exact answers: within the errors that are stated."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from tidelog.aggregates import Binding, bind, sketches
from tidelog.engine.store import Store
from tidelog.index.states import States
from tidelog.model.errors import InputError, NotFoundError

pytest.importorskip("datasketches")

ROWS = 60_000
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("u", pa.uint64()),
        ("word", pa.string()),
    ]
)


def rows(kind: str) -> pa.Table:
    dice = np.random.default_rng(3)
    if kind == "random":
        x = dice.lognormal(size=ROWS)
    elif kind == "rising":
        x = np.arange(ROWS) / 7
    else:
        x = np.where(dice.random(ROWS) < 0.3, 5.0, dice.integers(0, 40, ROWS).astype(float))
    n = (dice.zipf(1.3, ROWS) % (1 << 40)).astype(np.int64) - 5
    words = pa.array([f"a rather long word of number {value}, and a tail" for value in (n % 30_000).tolist()])
    return pa.table([np.arange(ROWS), x, n, n.view(np.uint64), words], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["random", "rising", "ties"])
def test_estimates_of_streams_are_within_their_errors(kind: str) -> None:
    data = rows(kind)
    kept = ["quantile_sketch(x)", "approx_count_distinct(n)", "approx_count_distinct(word)", "approx_top_k(word, 3)"]
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=512, fanout=4, user_aggregates=kept)
        stream.append(data)
        assert stream.check() == []
        fractions = [0, 0.01, 0.25, 0.5, 0.9, 0.999, 1]
        quantiles = [f"approx_quantile(x, {fraction})" for fraction in fractions]
        others = ["approx_count_distinct(n)", "approx_count_distinct(word)", "approx_top_k(word, 5)"]
        misses = 0
        for start, end in [(0, ROWS), (777, 50_001), (100, 130)]:
            found = stream.aggregate(start, end, [*quantiles, *others])
            assert stream.explain(start, end, [*quantiles, *others]).count("from the index") == 10
            part = data.slice(start, end - start)
            values = np.sort(part["x"].to_numpy())
            for fraction, text in zip(fractions, quantiles, strict=True):
                # A value that is there often has many ranks.
                low = np.searchsorted(values, found[text], "left") / len(values)
                high = np.searchsorted(values, found[text], "right") / len(values)
                error = max(low - fraction, fraction - high)
                # The error is stated for 99 of 100: twice as much is for all that will ever be tried.
                assert error <= 2 * 0.0133, (text, start, end)
                misses += error > 0.0133
            for column in ("n", "word"):
                exact = len(part[column].unique())
                assert abs(found[f"approx_count_distinct({column})"] - exact) <= 3 * 0.023 * exact + 0.5
            _check_top(found["approx_top_k(word, 5)"], part["word"].to_pylist(), 5)
        assert misses <= 3


@pytest.mark.parametrize(("k", "lg_k", "lg_size"), [(20, 6, 5), (64, 9, 6), (800, 14, 9)])
@pytest.mark.parametrize("kind", ["random", "rising", "ties"])
def test_errors_are_those_stated_for_parameters(kind: str, k: int, lg_k: int, lg_size: int) -> None:
    data = rows(kind).slice(0, 20_000)
    with Store(MemoryMedium()) as store:
        kept = [
            f"quantile_sketch(x, {k})",
            f"approx_count_distinct(n, {lg_k})",
            f"approx_top_k(n, 20, {lg_size})",
        ]
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=100, fanout=2, user_aggregates=kept)
        stream.append(data)
        stream.attach([], mode="new_split")  # so that all of them are merged from states of leaves
        values = np.sort(data["x"].to_numpy())
        for fraction in (0.05, 0.5, 0.95):
            text = f"approx_quantile(x, {fraction}, {k})"
            found = stream.aggregate(None, None, text)[text]
            ranks = [np.searchsorted(values, found, side) / len(values) for side in ("left", "right")]
            assert max(ranks[0] - fraction, fraction - ranks[1]) <= 2 * 2.3 / k**0.97  # stated for 99 of 100
        _, distinct, top = stream.aggregate(None, None, kept).values()
        exact = len(data["n"].unique())
        assert abs(distinct - exact) <= 4 * 1.04 / math.sqrt(1 << lg_k) * exact + 0.5
        numbers, counts = np.unique(data["n"].to_numpy(), return_counts=True)
        times = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        error = 3.5 / (1 << lg_size) * data.num_rows
        assert all(item["lower"] <= times[item["value"]] <= item["upper"] for item in top)
        assert all(item["upper"] - item["lower"] <= error for item in top)
        assert {number for number, count in times.items() if count > error} <= {item["value"] for item in top}


def _check_top(found: list[dict[str, Any]], values: list[Any], count: int, width: int = 32) -> None:
    cut = [value.encode()[:width].decode() if isinstance(value, str) else value for value in values]
    exact = {value: cut.count(value) for value in {item["value"] for item in found}}
    error = 3.5 / 128 * len(values)
    assert len(found) <= count
    for item in found:
        assert item["lower"] <= exact[item["value"]] <= item["upper"]
        assert item["upper"] - item["lower"] <= error
    names, counts = np.unique(np.array(cut, dtype=object).astype(str), return_counts=True)
    frequent = [str(name) for name, times in zip(names, counts, strict=True) if times > 2 * error]
    assert set(frequent[:count]) <= {str(item["value"]) for item in found}


def test_numbers_can_be_counted_too() -> None:
    data = rows("random")
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=512, user_aggregates=["approx_top_k(u, 3)"])
        stream.append(data)
        found = stream.aggregate(None, None, ["approx_top_k(u, 3)", "approx_top_k(x, 3)", "approx_top_k(ts, 1)"])
        _check_top(found["approx_top_k(u, 3)"], data["u"].to_pylist(), 3)
        assert all(isinstance(item["value"], float) for item in found["approx_top_k(x, 3)"])


def test_quantiles_of_integers_times_and_nothing() -> None:
    schema = pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False), ("x", pa.float64()), ("n", pa.int8())])
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", schema, "ts")
        asked = ["approx_quantile(ts, 0.5)", "approx_quantile(x, 0.5)", "approx_quantile(n, 0.5)"]
        assert set(stream.aggregate(None, None, asked).values()) == {None}
        stream.append(
            pa.table(
                [pa.array([1, 2, 3], pa.timestamp("us")), [math.nan] * 3, pa.array([3, 1, 2], pa.int8())], schema=schema
            )
        )
        found = stream.aggregate(None, None, asked)
        assert found["approx_quantile(ts, 0.5)"].microsecond == 2
        assert found["approx_quantile(x, 0.5)"] is None
        assert found["approx_quantile(n, 0.5)"] == 2


def test_empty_texts_are_values_too() -> None:
    with Store(MemoryMedium()) as store:
        schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])
        kept = ["approx_count_distinct(word)", "approx_top_k(word, 2)"]
        stream = store.create_stream("s", schema, "ts", leaf_rows=4, fanout=2, user_aggregates=kept)
        stream.append({"ts": list(range(40)), "word": [None if at % 4 == 3 else "" for at in range(40)]})
        stream.attach([], mode="new_split")
        found = stream.aggregate(None, None, kept)
        assert found["approx_count_distinct(word)"] == 1
        assert found["approx_top_k(word, 2)"] == [{"value": "", "estimate": 30, "lower": 30, "upper": 30}]
        stream.append({"ts": list(range(40, 80)), "word": ["", "a", "b", "a"] * 10})
        assert stream.aggregate(None, None, kept)["approx_count_distinct(word)"] == 3


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()])
def test_equal_floats_are_one_value(type: pa.DataType) -> None:
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", type)])
    values = [[0.0], [-0.0], [math.nan, -math.nan], [-0.0, 0.0], [math.inf], [0.5]]  # a leaf each, about
    flat = [value for leaf in values for value in leaf * (4 // len(leaf))]
    with Store(MemoryMedium()) as store:
        kept = ["approx_top_k(x, 3)", "approx_count_distinct(x)"]
        stream = store.create_stream("s", schema, "ts", leaf_rows=4, fanout=2, user_aggregates=kept)
        stream.append(pa.table([list(range(len(flat))), pa.array(flat, type)], schema=schema))
        stream.attach([], mode="new_split")  # so that leaves have states of their own
        top, distinct = stream.aggregate(None, None, kept).values()
        assert distinct == 4
        assert [item["estimate"] for item in top] == [12, 4, 4]
        assert top[0] == {"value": 0.0, "estimate": 12, "lower": 12, "upper": 12}


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.int64(), [(1 << 63) - 1, -(1 << 63)]),
        (pa.uint64(), [(1 << 64) - 1, 0]),
        (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2026, 1, 1)]),
        (pa.timestamp("ns"), [pa.scalar((1 << 63) - 1, pa.timestamp("ns")).as_py()]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [datetime.date(2026, 1, 1)]),
    ],
)
def test_quantiles_are_values_that_the_column_can_have(type: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", type)])
    with Store(MemoryMedium()) as store:
        stream = store.create_stream("s", schema, "ts")
        stream.append(pa.table([list(range(len(values))), pa.array(values, type)], schema=schema))
        texts = ["approx_quantile(x, 0)", "approx_quantile(x, 1)"]
        assert list(stream.aggregate(None, None, texts).values()) == [min(values), max(values)]


@pytest.mark.parametrize("k", [8, 100, 200, 4096])
def test_sketches_fit_their_width(k: int) -> None:
    states, binding = _states("quantile_sketch", "x", k=k)
    dice = np.random.default_rng(1)
    table = states.unknown(0)
    for _ in range(40):
        values = pa.array(dice.random(4096))
        zeros = pa.array(np.zeros(4096), pa.int64())
        batch = pa.RecordBatch.from_arrays([zeros, values, zeros], names=["ts", "x", "_seq"])
        table = np.concatenate([table, states.of_rows(batch, np.array([0, 4096], np.int64))])
    for _ in range(30):  # of 160 thousand values to the power of many
        row = states.merge(table, np.array([0, len(table)], np.int64))
        assert len(states.result(binding, row[0])) <= 8 * states.kept[0].words
        table = np.concatenate([row, row])


def test_frequent_values_of_the_longest_texts_fit() -> None:
    states, binding = _states("frequent_sketch", "x", type=pa.string(), lg_size=5, width=16)
    words = pa.array([f"{index:04}" + "ä" * 50 for index in range(1000)])
    zeros = pa.array(np.zeros(1000), pa.int64())
    batch = pa.RecordBatch.from_arrays([zeros, words, zeros], names=["ts", "x", "_seq"])
    table = states.of_rows(batch, np.arange(0, 1001, 100))
    assert states.result(binding, states.merge(table, np.array([0, 10], np.int64))[0])


def _states(name: str, column: str, type: pa.DataType | None = None, **parameters: Any) -> tuple[States, Binding]:
    schema = pa.schema([("ts", pa.int64()), (column, type or pa.float64()), ("_seq", pa.int64())])
    binding = bind(name, column, **parameters)
    return States.of(schema, "ts", [binding], strict=True), binding


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("approx_quantile", {"fraction": 1.5}),
        ("quantile_sketch", {"k": 1}),
        ("distinct_sketch", {"lg_k": 30}),
        ("frequent_sketch", {"lg_size": 1}),
        ("approx_top_k", {"count": 0}),
    ],
)
def test_parameters_are_checked(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        _states(name, "x", **parameters)


def test_streams_open_without_the_library(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    medium = MemoryMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", user_aggregates=["approx_quantile(x, 0.5)"])
        stream.append(rows("ties"))

    def nothing() -> Any:
        raise NotFoundError("estimates need the library datasketches")

    monkeypatch.setattr(sketches, "_library", nothing)
    with Store(medium) as store:
        stream = store.stream("s")
        assert len(stream) == ROWS
        stream.append(rows("ties").slice(0, 9000))
        with pytest.raises(NotFoundError, match="need the library datasketches"):
            stream.aggregate(None, None, ["approx_quantile(x, 0.5)"])
        assert "without the aggregate" in caplog.text
        stream.evolve(add={"more": pa.int8()}, rename={"x": "y"})
        stream.compact()
        assert stream.check() == []
        assert len(stream) == ROWS + 9000
