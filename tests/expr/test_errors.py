"""What the user reads when an expression is wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelog.expr import EvaluationError, ExpressionError, parse, predicate
from tidelog.model.errors import InputError, TidelogError

SCHEMA = pa.schema(
    [("price", pa.float64()), ("volume", pa.int8()), ("symbol", pa.string()), ("At", pa.timestamp("us"))]
)
BATCH = pa.RecordBatch.from_pydict({"price": [1.0], "volume": [127], "symbol": ["x"], "At": [0]}, schema=SCHEMA)


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("price > 1 AND prcie < 3", "there is no column 'prcie'; did you mean 'price'?", "prcie"),
        ("volume + lenght(symbol)", "there is no function 'lenght'; did you mean 'length'?", "lenght"),
        ("price + symbol", r"there is no \+\(DOUBLE, VARCHAR\)", "price"),
        ("price > symbol", "DOUBLE and VARCHAR do not meet in a comparison", "price"),
        ("At > 'yesterday'", "'yesterday' cannot be read as TIMESTAMP", "At"),
        ("date_trunc('mnth', At)", "there is no unit 'mnth'; did you mean 'month'?", "date_trunc"),
        ("sum(price)", "sum is an aggregate", "sum"),
        ("t.price", "not supported", "t"),
    ],
)
def test_messages_name_the_place_and_what_to_do(text: str, message: str, caret: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text, SCHEMA)
    assert caught.value.position == text.index(caret)
    shown, marks = str(caught.value).splitlines()[-2:]
    assert shown.strip() == text
    assert shown[marks.index("^") :].startswith(caret)


@pytest.mark.parametrize("text", ["", "   ", "price >", "(price", "price price2", "price; volume", "1 +* 2", "'open"])
def test_syntax_errors_are_ours(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text, SCHEMA)


def test_errors_are_values_errors_and_input_errors() -> None:
    with pytest.raises(ValueError, match="nope") as caught:
        parse("nope", SCHEMA)
    assert isinstance(caught.value, InputError | TidelogError)
    assert caught.value.column == "nope"


def test_values_that_cannot_be_evaluated_name_the_expression() -> None:
    with pytest.raises(EvaluationError, match="overflow in addition of TINYINT") as caught:
        parse("volume + 1", SCHEMA).evaluate(BATCH)
    assert "volume + 1" in str(caught.value)
    with pytest.raises(EvaluationError, match=r"Could not convert string 'x' to INT32 .*'symbol'; use TRY"):
        parse("symbol::int", SCHEMA).evaluate(BATCH)


def test_a_batch_of_another_schema_is_refused() -> None:
    other = pa.RecordBatch.from_pydict({"price": ["x"], "volume": [1]})
    with pytest.raises(ExpressionError, match="column 'price' of the batch is string, expected DOUBLE"):
        parse("price > 1", SCHEMA).evaluate(other)
    with pytest.raises(ExpressionError, match="the batch has no column 'symbol'"):
        predicate("symbol = 'x'", SCHEMA).mask(other)


def test_only_conditions_are_predicates() -> None:
    with pytest.raises(ExpressionError, match="TIMESTAMP cannot become BOOLEAN"):
        predicate("At", SCHEMA)


def test_names_of_columns_ignore_case_unless_it_matters() -> None:
    assert parse("AT", SCHEMA).columns == ("At",)
    both = pa.schema([("x", pa.int8()), ("X", pa.int8())])
    assert parse("X", both).columns == ("X",)
    with pytest.raises(ExpressionError, match="may be any of"):
        parse("y", pa.schema([("Y", pa.int8()), ("y ", pa.int8())])) and parse(
            "xX", pa.schema([("XX", pa.int8()), ("xx", pa.int8())])
        )


def test_columns_that_expressions_cannot_use() -> None:
    with pytest.raises(ExpressionError, match="which expressions cannot use"):
        parse("x", pa.schema([("x", pa.list_(pa.int8()))]))


def test_dictionaries_and_large_strings_are_read_by_value() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b", "a"]).dictionary_encode(), pa.array(["x", None, "y"], pa.large_string())], ["d", "l"]
    )
    assert predicate("d = 'a'", batch.schema).mask(batch).tolist() == [True, False, True]
    assert parse("d || l", batch.schema).evaluate(batch).to_pylist() == ["ax", None, "ay"]


def test_values_of_a_dictionary_that_no_row_has_cannot_raise() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["7", "-1", "x"]))
    batch = pa.RecordBatch.from_arrays([column], ["d"])
    asked = predicate("d::int > 0", batch.schema)
    assert asked.mask(batch.slice(0, 3)).tolist() == [True, False, False]
    with pytest.raises(EvaluationError, match="Could not convert string 'x'"):
        asked.mask(batch)
