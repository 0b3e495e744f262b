"""Ready-made aggregates against brute force, however rows are cut and states are merged."""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.aggregates import bind
from tidelog.aggregates.base import Incremental
from tidelog.aggregates.binding import instance
from tidelog.aggregates.runs import largest, smallest
from tidelog.index.states import States

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("x", pa.float64()), ("n", pa.int16()), ("u", pa.uint64()), ("_seq", pa.int64())]
)

floats = st.one_of(
    st.none(), st.integers(-5, 5).map(float), st.floats(-1e6, 1e6), st.sampled_from([math.inf, -math.inf, math.nan])
)
rows = st.lists(
    st.tuples(
        st.integers(0, 20),
        floats,
        st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-(1 << 15), (1 << 15) - 1])),
        st.one_of(st.none(), st.sampled_from([0, 1, (1 << 64) - 1, (1 << 63)])),
    ),
    max_size=40,
)
Row = tuple[int, Any, Any, Any]


def order(value: Any) -> tuple[bool, Any]:
    """NaN is greater than every number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def column(index: int) -> Callable[[list[Row]], list[Any]]:
    return lambda found: sorted((row[index] for row in found if row[index] is not None), key=order)


def at(values: list[Any], index: int) -> Any:
    return values[index] if len(values) >= abs(index + (index >= 0)) else None


def box(found: list[Row]) -> Any:
    places = [row for row in found if row[1] is not None and row[2] is not None and not math.isnan(row[1])]
    if not places:
        return None
    xs, ys = [row[1] for row in places], [row[2] for row in places]
    return {"min_x": min(xs), "min_y": min(ys), "max_x": max(xs), "max_y": max(ys)}


EXPECTED: dict[str, tuple[tuple[str, ...], Callable[[list[Row]], Any]]] = {
    "largest x": (("x",), lambda found: at(column(1)(found), -1)),
    "smallest x": (("x",), lambda found: at(column(1)(found), 0)),
    "second_largest x": (("x",), lambda found: at(column(1)(found), -2)),
    "second_smallest x": (("x",), lambda found: at(column(1)(found), 1)),
    "second_largest n": (("n",), lambda found: at(column(2)(found), -2)),
    "second_smallest n": (("n",), lambda found: at(column(2)(found), 1)),
    "second_largest u": (("u",), lambda found: at(column(3)(found), -2)),
    "second_smallest u": (("u",), lambda found: at(column(3)(found), 1)),
    "first x": (("x",), lambda found: found[0][1] if found else None),
    "last x": (("x",), lambda found: found[-1][1] if found else None),
    "last u": (("u",), lambda found: found[-1][3] if found else None),
    "bounding_box x n": (("x", "n"), box),
    "row_count n": (("n",), lambda found: len(column(2)(found)) or None),
    "sum_of_squares n": (
        ("n",),
        lambda found: float(sum(v * v for v in column(2)(found))) if column(2)(found) else None,
    ),
}


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    return bool(found == expected and type(found) is type(expected)) or (isinstance(found, dict) and found == expected)


@settings(max_examples=scaled(40))
@given(rows, st.data())
@pytest.mark.parametrize("what", EXPECTED)
def test_any_cuts_and_merges_give_the_result(what: str, some: list[Row], data: st.DataObject) -> None:
    function = what.partition(" ")[0]
    columns, expected = EXPECTED[what]
    some = sorted(some, key=lambda row: row[0])
    arrays = [pa.array([row[index] for row in some], SCHEMA.types[index]) for index in range(4)]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array(range(len(some)), pa.int64())], schema=SCHEMA)
    binding = bind(function, *columns)
    states = States.of(SCHEMA, "ts", [binding], strict=True)
    inner = data.draw(st.lists(st.integers(0, len(some)), max_size=6))
    table = states.of_rows(batch, np.array(sorted([0, *inner, len(some)]), np.int64))
    while len(table) > 1:
        # Any order and any grouping, runs of nothing too.
        table = table[data.draw(st.permutations(range(len(table))))]
        merges = data.draw(st.lists(st.integers(0, len(table)), max_size=3))
        table = states.merge(table, np.array(sorted([0, *merges, len(table)]), np.int64))
        if len(merges) + 1 >= 4:
            table = states.merge(table, np.array([0, len(table)], np.int64))
    assert same(states.result(binding, table[0]), expected(some))


@given(st.lists(st.lists(st.integers(-(10**6), 10**6).map(lambda v: 1e9 + v / 7), min_size=1, max_size=20), min_size=1))
def test_moments_lose_nothing_to_large_means(runs: list[list[float]]) -> None:
    values = [value for run in runs for value in run]
    schema = pa.schema([("ts", pa.int64()), ("x", pa.float64()), ("_seq", pa.int64())])
    numbers = pa.array(range(len(values)), pa.int64())
    batch = pa.RecordBatch.from_arrays([numbers, pa.array(values), numbers], schema=schema)
    bindings = [bind(name, "x") for name in ("var_pop", "stddev_samp")]
    states = States.of(schema, "ts", bindings, strict=True)
    table = states.of_rows(batch, np.cumsum([0, *map(len, runs)]))
    row = states.merge(table, np.array([0, len(table)], np.int64))[0]
    assert states.result(bindings[0], row) == pytest.approx(statistics.pvariance(values), rel=1e-6, abs=1e-6)
    deviation = states.result(bindings[1], row)
    assert (
        deviation is None
        if len(values) < 2
        else deviation == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("what", "values", "expected"),
    [
        ("sum_of_squares x", [1e200, -1e200, 1.0], math.inf),
        ("sum_of_squares x", [1e-300, 1e-300], 0.0),
        ("sum_of_products x x", [math.inf, 2.0], math.inf),
        ("sum_of_logarithms x", [0.0, math.inf], math.nan),
        ("geometric_mean x", [sys.float_info.max] * 51, sys.float_info.max),
        ("geometric_mean x", [0.0, 4.0], 0.0),
        ("geometric_mean x", [math.inf, 4.0], math.inf),
        ("geometric_mean x", [-1.0, 4.0], math.nan),
        ("stddev_pop x", [1e300, -1e300], math.inf),
        ("var_samp x", [math.inf, 1.0], math.nan),
    ],
)
def test_numbers_beyond_doubles_are_no_reason_to_warn(what: str, values: list[float], expected: float) -> None:
    function, *columns = what.split()
    schema = pa.schema([("ts", pa.int64()), ("x", pa.float64()), ("_seq", pa.int64())])
    numbers = pa.array(range(len(values)), pa.int64())
    batch = pa.RecordBatch.from_arrays([numbers, pa.array(values), numbers], schema=schema)
    binding = bind(function, *columns)
    states = States.of(schema, "ts", [binding], strict=True)
    table = states.of_rows(batch, np.arange(len(values) + 1))
    row = states.merge(table, np.array([0, len(table)], np.int64))[0]
    assert states.result(binding, row) == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_a_failing_aggregate_leaves_unknown_states(caplog: pytest.LogCaptureFixture) -> None:
    binding = bind("largest", "x")
    kept = States.of(SCHEMA, "ts", [binding]).kept
    other = pa.schema([("ts", pa.int64()), ("x", pa.string()), ("_seq", pa.int64())])  # which it cannot be applied to
    states = States(other, "ts", kept)
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["a"]), pa.array([0])], schema=other)
    table = states.of_rows(batch, np.array([0, 1], np.int64))
    assert states.is_unknown(table).tolist() == [True]
    assert states.is_unknown(states.merge(table, np.array([0, 1], np.int64))).tolist() == [True]
    assert caplog.text.count("largest(x) is not kept up to date") == 1


@pytest.mark.parametrize("name", ["largest", "smallest", "second_largest", "second_smallest"])
@pytest.mark.parametrize(
    "type_", [pa.float64(), pa.int16(), pa.uint64(), pa.bool_(), pa.timestamp("us"), pa.date32()], ids=str
)
@pytest.mark.parametrize("length", [1, None])
def test_results_of_many_states(name: str, type_: pa.DataType, length: int | None) -> None:
    """Those of each one."""
    dice = np.random.default_rng(3)
    lengths = dice.integers(1, 6, 100) if length is None else np.full(100, length)
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    plain = dice.integers(0, 4, int(cuts[-1]))
    if pa.types.is_floating(type_):
        values = np.where(plain == 3, np.nan, plain - 1.5)
    elif pa.types.is_temporal(type_):
        values = plain.astype(f"i{type_.bit_width // 8}")
    else:
        values = plain.astype(type_.to_pandas_dtype())
    made = instance(bind(name, "x"), lambda _: type_)
    assert isinstance(made, Incremental)
    needed = [largest if "largest" in name else smallest for _ in made.depends_on]
    states = made.init([values], cuts)
    firsts = [function(values, cuts).tolist() for function in needed]
    found = list(made.eval_all(states, *firsts))
    assert repr(found) == repr([made.eval(*each) for each in zip(states, *firsts, strict=True)])
    for run, (start, stop) in enumerate(itertools.pairwise(cuts.tolist())):
        ordered = sorted(values[start:stop].tolist(), key=order)
        place = name.startswith("second")
        expected = at(ordered, (-1 - place) if "largest" in name else place)
        if expected is None or type_ in (pa.float64(), pa.int16(), pa.uint64(), pa.bool_()):
            assert repr(found[run]) == repr(expected)
        else:
            number = pa.scalar(expected, pa.int64() if type_.bit_width == 64 else pa.int32())
            assert found[run] == number.cast(type_).as_py()
