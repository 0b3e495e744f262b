"""Random expression trees against DuckDB, and their text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from expr.oracle import BATCH, SCHEMA, difference
from expr.trees import booleans, instants, numbers, texts
from support.profiles import scaled
from tidelog.expr import ExpressionError, parse, predicate


def _refused(text: str) -> bool:
    """Whether tidelog refuses a text on purpose that DuckDB may take: see the deviations in docs/expressions.md."""
    try:
        parse(text, SCHEMA)
    except ExpressionError as error:
        return any(part in str(error) for part in ("do not meet", "cannot be read as", "not supported"))
    return False


@settings(max_examples=scaled(200))
@given(text=numbers() | texts() | instants() | booleans())
def test_random_expressions_agree_with_duckdb(text: str) -> None:
    if not _refused(text):
        assert difference(text, tolerance=1e-12) is None


@settings(max_examples=scaled(100))
@given(text=numbers(3) | booleans(3) | texts(3) | instants(3))
def test_random_expressions_read_back_from_their_text(text: str) -> None:
    try:
        expression = parse(text, SCHEMA)
    except ExpressionError:
        return
    assert parse(str(expression), SCHEMA) == expression


@settings(max_examples=scaled(80))
@given(text=booleans(3))
def test_masks_are_where_the_expression_is_true(text: str) -> None:
    try:
        found = parse(text, SCHEMA).evaluate(BATCH)
    except ExpressionError:
        return
    assert predicate(text, SCHEMA).mask(BATCH).tolist() == found.fill_null(False).to_pylist()


@given(text=st.text(max_size=30) | st.from_regex(r"[a-z0-9 ()'+*/<>=,.%|-]{0,20}", fullmatch=True))
def test_any_text_parses_or_is_refused_in_our_words(text: str) -> None:
    try:
        parse(text, SCHEMA)
    except ExpressionError:
        return  # anything else would fail the test
