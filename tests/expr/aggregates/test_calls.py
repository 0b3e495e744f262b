"""Aggregate calls against DuckDB, in one batch and merged from pieces."""

from __future__ import annotations

import math
import re
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from expr.oracle import BATCH, COLUMNS, Refused, by_duckdb, same
from support.profiles import scaled
from tidelog.aggregates.contract import Total
from tidelog.expr import ExpressionError, UnsupportedError, parse_aggregate
from tidelog.expr.aggregates import parse

SCHEMA = BATCH.schema
FUNCTIONS = ("count", "sum", "avg", "min", "max", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "first", "last")


def _value(scalar: pa.Scalar) -> object:
    return scalar.cast(pa.int64()).as_py() if pa.types.is_timestamp(scalar.type) else scalar.as_py()


def _check(text: str, batch: pa.RecordBatch, cuts: list[int]) -> None:
    try:
        expected = by_duckdb(text, batch)[0]
    except Refused:
        with pytest.raises(ExpressionError):
            _evaluated(text, batch, cuts)
        return
    found = _evaluated(text, batch, cuts)
    assert found.type == expected.type, text
    assert same(_value(found), _value(expected), 1e-9), (text, found, expected)


def _evaluated(text: str, batch: pa.RecordBatch, cuts: list[int]) -> pa.Scalar:
    call = parse_aggregate(text, batch.schema)
    states = call.lift(batch, np.array([0, *cuts, batch.num_rows], np.int64))
    merged = call.merge(states, np.array([0, len(states)], np.int64))
    one_by_one = Total(call)
    for row in range(batch.num_rows):
        one_by_one.add(batch.slice(row, 1))
    found, again = (pa.scalar(value, call.type) for value in (*call.lower(merged), one_by_one.value()))
    assert same(_value(found), _value(again), 1e-9)
    return found


@pytest.mark.parametrize("column", COLUMNS)
def test_agrees_with_duckdb(column: str) -> None:
    for function in FUNCTIONS:
        if function == "avg" and pa.types.is_temporal(SCHEMA.field(column).type):
            continue  # an instant in DuckDB, refused here
        if function in ("var_samp", "var_pop", "stddev_samp", "stddev_pop") and column == "l":
            continue  # DuckDB's running mean loses all digits to the extremes of BIGINT
        if column == "d" and function.startswith(("var", "stddev")):
            continue  # infinities: NaN or an error, as the order of rows has it
        _check(f"{function}({column})", BATCH, [2, 2, 5])


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "count(*) filter (where i > 0)",
        "sum(i) filter (where q)",
        "sum(m * 2)",
        "avg(e + 1)",
        "max(s || t)",
        "sum(i) filter (where false)",
        "count(s) filter (where p is null)",
        "first(s) filter (where i is null)",
        "sum(null)",
        "min(null)",
        "mean(a)",
        "variance(e)",
        "stddev(e)",
        "sum(q)",
        "sum(s)",
        "avg(q)",
        "sum(ts)",
        "max(l)",
        "sum(l)",
        "sum(ul)",
    ],
)
def test_calls_agree_with_duckdb(text: str) -> None:
    _check(text, BATCH, [3])


@settings(max_examples=scaled(60))
@given(
    values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=30),
    floats=st.lists(st.none() | st.floats(-1e6, 1e6), min_size=30, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_merging_does_not_change_results(values: list[int | None], floats: list[float | None], cuts: list[int]) -> None:
    floats = floats[: len(values)]
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64()), pa.array(floats, pa.float64())], ["x", "y"])
    places = sorted(min(cut, len(values)) for cut in cuts)
    exact = [value for value in values if value is not None]
    assert _evaluated("sum(x)", batch, places).as_py() == (sum(exact) if exact else None)
    total = _evaluated("sum(y)", batch, places).as_py()
    numbers = [value for value in floats if value is not None]
    assert total is None if not numbers else math.isclose(total, math.fsum(numbers), rel_tol=1e-12, abs_tol=1e-6)


@settings(max_examples=scaled(60))
@given(
    values=st.lists(st.none() | st.text("ab\U0001f600é\0", max_size=3), min_size=1, max_size=30),
    spare=st.integers(0, 3),
    cuts=st.lists(st.integers(0, 30), max_size=8),
)
def test_texts_and_rows_at_ends(values: list[str | None], spare: int, cuts: list[int]) -> None:
    rows = [*[None] * spare, *values]
    texts = pa.array(rows).cast(pa.string())
    blobs, lengths = texts.cast(pa.binary()), pa.array([None if each is None else len(each) for each in rows])
    batch = pa.RecordBatch.from_arrays([texts, blobs, lengths], ["s", "z", "n"]).slice(spare)
    places = np.array([0, *sorted(min(cut, len(values)) for cut in cuts), len(values)], np.int64)
    runs = [batch.slice(first, last - first) for first, last in pairwise(places.tolist())]
    for column, function in product(batch.schema.names, ("min", "max", "first", "last")):
        call = parse_aggregate(f"{function}({column})", batch.schema)
        states = call.lift(batch, places)
        expected = [_one(function, run[column].to_pylist()) for run in runs]
        assert call.lower_column(states).to_pylist() == expected
        ends = np.array([0, len(runs)], np.int64)
        for backward in (False, True):
            stretches = [
                batch[column].slice(places[at] if backward else 0, None if backward else places[at + 1])
                for at in range(len(runs))
            ]
            running = call.lower_column(call.scan(states, ends, backward=backward))
            assert running.to_pylist() == [_one(function, each.to_pylist()) for each in stretches]


def _one(function: str, values: list[object]) -> object:
    """An aggregate of values, by Python: its order of texts is that of their characters, and of their bytes."""
    if function in ("first", "last"):
        return values[0 if function == "first" else -1] if values else None
    known = [each for each in values if each is not None]
    return {"min": min, "max": max}[function](known, default=None)


def test_variance_of_large_means_keeps_its_digits() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]})
    assert _evaluated("var_samp(x)", batch, [1, 3]).as_py() == pytest.approx(30.0, abs=1e-6)


def test_text_of_a_call_reads_back_as_the_same() -> None:
    for text in ("count(*)", "avg(e + 1)", "sum(i) filter (where q and i > 3)", "stddev(e)"):
        call = parse_aggregate(text, SCHEMA)
        assert parse_aggregate(str(call), SCHEMA) == call
    assert parse_aggregate("sum(i) filter (where q)", SCHEMA).columns == ("i", "q")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price", "expected a call of an aggregate"),
        ("sum(i) + 1", "expected a call of an aggregate"),
        ("summ(i)", "did you mean 'sum'"),
        ("sum(i, a)", "takes one argument"),
        ("sum(*)", "not supported"),
        ("count(nope)", "there is no column 'nope'"),
    ],
)
def test_what_is_no_call_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_aggregate(text, SCHEMA)


@pytest.mark.parametrize("text", ["sum(distinct i)", "first(i order by a)", "min(ts - tu)"])
def test_what_is_not_supported_says_so(text: str) -> None:
    with pytest.raises(UnsupportedError):
        parse_aggregate(text, SCHEMA)


class TestPlainCalls:
    """Texts that are understood without sqlglot mean what sqlglot makes of them."""

    @staticmethod
    def by_sqlglot(text: str, schema: pa.Schema, monkeypatch: pytest.MonkeyPatch) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(parse, "_plain_call", lambda *arguments: None)
            try:
                return parse_aggregate(text, schema)
            except Exception as error:
                return type(error), str(error)

    @staticmethod
    def as_it_is(text: str, schema: pa.Schema) -> object:
        try:
            return parse_aggregate(text, schema)
        except Exception as error:
            return type(error), str(error)

    @pytest.mark.parametrize("column", [*COLUMNS, "*", "nowhere"])
    @pytest.mark.parametrize("function", [*FUNCTIONS, "mean", "stddev", "variance", "median", "AVG", "Count"])
    def test_functions_and_columns(self, function: str, column: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for text in (f"{function}({column})", f"  {function}( {column} ) ", f"{function}({column.upper()})"):
            assert self.as_it_is(text, SCHEMA) == self.by_sqlglot(text, SCHEMA, monkeypatch), text

    def test_columns_that_are_called_like_words_of_the_language(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tokens, parser = DuckDB.Tokenizer, DuckDB.Parser
        words = {word for keyword in tokens.KEYWORDS for word in re.findall(r"[A-Za-z_]\w*", keyword)}
        words |= {
            getattr(each, "name", each) for each in (*parser.NO_PAREN_FUNCTIONS, *parser.NO_PAREN_FUNCTION_PARSERS)
        }
        words |= {name for function in exp.ALL_FUNCTIONS for name in function.sql_names()}
        assert len(words) > 500
        for word in sorted(word.lower() for word in words):
            schema = pa.schema([("ts", pa.int64()), (word, pa.int64())])
            text = f"sum({word})"
            assert self.as_it_is(text, schema) == self.by_sqlglot(text, schema, monkeypatch), text
