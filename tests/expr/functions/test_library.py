"""Every operator and function against DuckDB, over columns full of edge cases."""

from __future__ import annotations

import pytest

from expr.cases import ALL, CASES, UNSUPPORTED
from expr.oracle import BATCH, SCHEMA, difference
from tidelog.expr import ExpressionError, parse
from tidelog.expr.functions.library import ALIASES, FUNCTIONS


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_duckdb(name: str) -> None:
    differences = [found for text in CASES[name] if (found := difference(text, tolerance=1e-12)) is not None]
    assert differences == []


def test_every_function_is_compared() -> None:
    assert set(FUNCTIONS) - set(CASES) == set()
    assert set(CASES) - set(FUNCTIONS) == {"case", "cast"}


def test_there_are_many() -> None:
    assert len([name for name in FUNCTIONS if name[0].isalpha() and " " not in name]) >= 80


def test_text_of_an_expression_reads_back_as_the_same() -> None:
    read = 0
    for text in ALL[::3]:
        try:
            expression = parse(text, SCHEMA)
        except ExpressionError:
            continue
        again = parse(str(expression), SCHEMA)
        assert again == expression, text
        assert str(again) == str(expression)
        read += 1
    assert read > 500


def test_aliases_mean_the_same() -> None:
    for alias, name in ALIASES.items():
        assert name in FUNCTIONS, alias
    assert parse("lcase(s)", SCHEMA) == parse("lower(s)", SCHEMA)


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_what_is_not_supported_says_so(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"not supported|there is no|syntax error"):
        parse(text, SCHEMA)


def test_columns_are_listed_in_the_order_of_the_schema() -> None:
    assert parse("s || T || i::varchar || S", SCHEMA).columns == ("i", "s", "t")


def test_constants_are_as_long_as_the_batch() -> None:
    assert parse("1 + 1", SCHEMA).evaluate(BATCH).to_pylist() == [2] * BATCH.num_rows
    assert parse("1 + 1", SCHEMA).evaluate(BATCH.slice(0, 0)).to_pylist() == []


def test_empty_batches_and_slices() -> None:
    for text in ALL[::7]:
        try:
            expression = parse(text, SCHEMA)
            whole = expression.evaluate(BATCH)
        except ExpressionError:
            continue
        assert len(expression.evaluate(BATCH.slice(0, 0))) == 0, text
        part = expression.evaluate(BATCH.slice(3, 4))
        assert str(part.to_pylist()) == str(whole.slice(3, 4).to_pylist()), text


def test_results_that_cannot_be_null_are_not() -> None:
    for text in ALL[::3]:
        try:
            expression = parse(text, SCHEMA)
            if not expression.nullable:
                assert expression.evaluate(BATCH).null_count == 0, text
        except ExpressionError:
            continue
