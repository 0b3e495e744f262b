"""Texts that are deep, long or no expressions at all give a result or an ExpressionError, whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expr.oracle import BATCH, SCHEMA, difference
from support.profiles import scaled
from tidelog.expr import ExpressionError, parse, parse_aggregate, parse_binding, predicate

READERS: list[Callable[[str], Any]] = [
    lambda text: parse(text, SCHEMA),
    lambda text: predicate(text, SCHEMA),
    lambda text: parse_aggregate(f"count(*) filter (where {text})", SCHEMA),
    lambda text: parse_aggregate(text, SCHEMA),
    parse_binding,
]


def survives(text: str) -> None:
    """Whatever it is, nothing but an :class:`ExpressionError` of bearable length comes out."""
    assert all(len(outcome(read, text)) < 5000 for read in READERS)


def outcome(read: Callable[[str], Any], text: str) -> str:
    """The message that a text leads to; empty if it is an expression that can be evaluated."""
    try:
        found = read(text)
        if read is READERS[0]:
            assert len(found.evaluate(BATCH)) == BATCH.num_rows
            assert str(found)
            assert found.nullable in (True, False)
        elif read is READERS[1]:
            assert len(found.mask(BATCH)) == BATCH.num_rows
            assert isinstance(found.ranges, dict)
    except ExpressionError as error:
        return str(error)
    return ""


NESTED = [
    *("({})", "(({}) + 1)", "not ({})", "not {}", "- {}", "~ {}", "abs({})", "coalesce({}, 1)", "{}::int", "{} + 1"),
    *("{} || s", "case when q then {} end", "case when {} then q end", "({} and q)", "(q or {})", "{} is null"),
    *("{} between 1 and 2", "{} = 1", "i in ({})", "{}[1]", "[{}]", "{{{}", "{}.a", "x -> {}", "(select {})", "*{}"),
    *(
        "{};",
        "{},",
        "/*{}",
        "--{}",
        "'{}",
        '"{}',
        "$${}",
        "{}\U0001f986",
        "cast({} as varchar)",
        "1_{}",
        "0x{}",
        "{}e9",
    ),
    *("interval {} day", "{} at time zone 'UTC'", "exists {}", "try_cast({} as int)", "s like {}", "{}\u202e\u200d"),
]


@pytest.mark.parametrize("depth", [15, 60, 400])
@pytest.mark.parametrize("form", NESTED)
def test_forms_that_are_nested(form: str, depth: int) -> None:
    before, behind = form.replace("{{", "\1").split("{}")
    survives(before.replace("\1", "{") * depth + "i" + behind * depth)


@pytest.mark.parametrize(
    "text",
    [
        *("(" * 10_000 + "i" + ")" * 10_000, "(" * 30_000, "x" * 1_000_000, "@#! " * 250_000, "'" + "a" * 1_000_000),
        *(" and ".join(["i > 1"] * 100_000), " or ".join(["q"] * 100_000), "\0", '"\0list 0"', 'i in ("\0list 0")'),
        *(
            "s = '\udfff'",
            "\ud800",
            "9" * 5000,
            "0." + "9" * 5000,
            "1e999999999",
            "-" + "9" * 400,
            "1" * 39,
            "\U0010ffff",
        ),
        *(
            "s like '" + "%a" * 5000 + "'",
            "regexp_matches(s, '" + "(a|" * 5000 + "')",
            "regexp_matches(s, '(a{1000}){1000}')",
        ),
        *(
            "cast('1e1000000000' as decimal(38,0))",
            "cast('" + "9" * 6000 + "' as bigint)",
            "cast('1e100000' as bigint)",
        ),
        *(
            "date '" + "9" * 5000 + "'",
            "interval '" + "9" * 5000 + " days'",
            "cast('" + "1 day " * 5000 + "' as interval)",
        ),
        *(
            "i in (" + "1," * 100_000,
            "i in (" + "1," * 100_000 + "'",
            "s in ('" + "a'',''" * 100_000,
            "i in ()",
            "in (1)",
        ),
        *("d in (" + "1e999," * 1000 + "2)", "i in (" + "'x'," * 1000 + "1)", "q in (" + "true," * 1000 + "2)"),
        *(
            "l in (" + "9" * 30 + "," + "1," * 1000 + "2)",
            "z in (" + "'a'," * 1000 + "'b')",
            "i in (" + "²," * 1000 + "1)",
        ),
        *(
            "strftime(ts, '" + "%Y" * 5000 + "')",
            "date_part('" + "y" * 5000 + "', ts)",
            "s" + "[1]" * 5000,
            "i" + "::int" * 5000,
        ),
        *(
            "n" * 100_000 + "(1)",
            '"' + "n" * 100_000 + '"',
            "timezone('" + "x" * 50_000 + "', ts)",
            "0x" + "f" * 50_000,
        ),
    ],
    ids=lambda text: f"{text[:12]!a} and so on",
)
def test_texts_of_malice(text: str) -> None:
    survives(text)


def test_long_chains_work() -> None:
    for text in (
        " and ".join(f"i <> {number}" for number in range(1200)),
        " or ".join(f"l = {number}" for number in range(1200)),
        " and ".join(f"(q or i > {number})" for number in range(300)),
    ):
        assert difference(text) is None
        mask = predicate(text, SCHEMA).mask(BATCH)
        assert mask.tolist() == parse(text, SCHEMA).evaluate(BATCH).fill_null(False).to_pylist()


WORDS = [
    *(
        "i",
        "s",
        "q",
        "d",
        "ts",
        "1",
        "-1",
        "2.5",
        "1e3",
        "'a'",
        "''",
        "null",
        "true",
        "(",
        "(",
        ")",
        ")",
        ",",
        ",",
        "+",
    ),
    *("-", "*", "/", "//", "%", "**", "||", "=", "<>", "<", ">=", "and", "or", "not", "is", "in", "between", "like"),
    *(
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast(",
        "as",
        "int",
        "varchar",
        "::",
        "interval",
        "day",
        "date",
        "extract(",
    ),
    *(
        "from",
        "abs(",
        "coalesce(",
        "repeat(",
        "lpad(",
        "substr(",
        "[",
        "]",
        "{",
        "}",
        ";",
        ".",
        ":",
        "?",
        "$1",
        "--",
        "/*",
    ),
    *("*/", "'", '"', "\\", "\n", "\0", "é", "\U0001f986", "\u202e", "\ud83e", "select", "filter", "over", "distinct"),
    *(
        "timestamp",
        "at time zone",
        "similar to",
        "escape",
        "ilike",
        "glob",
        "exists",
        "any",
        "all",
        "try_cast(",
        "@",
        "~",
    ),
]


@settings(max_examples=scaled(50))
@given(st.lists(st.sampled_from(WORDS), max_size=25), st.integers(1, 40))
def test_words_in_any_order(words: list[str], times: int) -> None:
    survives(" ".join(words))
    survives(" ".join(words * times))


@settings(max_examples=scaled(30))
@given(st.text(max_size=200))
def test_any_characters(text: str) -> None:
    survives(text)
