"""Clauses that DuckDB does not know: cut from a text, read by themselves, and put into its tree at their places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.sql.clauses.cutting import CLAUSE, ClauseText, Cutting, Syntax
from tidelog.sql.clauses.printing import clauses, printable
from tidelog.sql.database import Database
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node, Parser, extent, nodes


def _read_over(text: ClauseText) -> Node:
    """``OVER_TABLE(TABLE t, expression)``."""
    text.expect("TABLE")
    relation = text.relation("a table", ",")
    text.expect(",")
    return {"inputs": [relation], "value": text.expression("a value")}


def _read_behind(text: ClauseText) -> Node:
    """``t BEHIND (DEFINE name AS expression, ...)``."""
    text.expect("DEFINE")
    found = {}
    while True:
        name = text.name("a name")
        text.expect("AS")
        found[name] = text.expression("a condition", ",")
        if not text.accept(","):
            return {"define": found}


SYNTAXES = (Syntax("OVER_TABLE", _read_over, starts=("TABLE",)), Syntax("BEHIND", _read_behind, is_behind=True))


@pytest.fixture(scope="module")
def parser() -> Iterator[Parser]:
    database = Database()
    yield database.parser
    database.close()


def _read(parser: Parser, text: str) -> Node:
    return Cutting(parser, text, SYNTAXES).tree()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT x FROM OVER_TABLE(TABLE t, a + 1)", ["OVER_TABLE"]),
        ("FROM OVER_TABLE(TABLE t, a) AS w(p, q) WHERE p > 3", ["OVER_TABLE"]),
        ("FROM u, over_table(TABLE t AS z, z.a)", ["OVER_TABLE"]),
        ("FROM u JOIN OVER_TABLE(TABLE (SELECT * FROM t WHERE b > 0) z, a) AS w ON u.x = w.x", ["OVER_TABLE"]),
        ("SELECT * FROM TABLE(OVER_TABLE(TABLE t, a))", ["OVER_TABLE"]),
        ("FROM t BEHIND (DEFINE a AS a.x > 1, b AS b.x < a.x) AS m WHERE m.x = 1", ["BEHIND"]),
        ("FROM (SELECT * FROM t) AS q BEHIND (DEFINE a AS a.x > 1)", ["BEHIND"]),
        ("FROM OVER_TABLE(TABLE t, 1) BEHIND (DEFINE a AS a.x IN (SELECT 1))", ["BEHIND", "OVER_TABLE"]),
        ("FROM OVER_TABLE(TABLE (FROM t BEHIND (DEFINE a AS true)), 1)", ["OVER_TABLE", "BEHIND"]),
        ("FROM OVER_TABLE(TABLE t BEHIND (DEFINE a AS true) AS m, 1)", ["OVER_TABLE", "BEHIND"]),
        (
            "WITH c AS (FROM OVER_TABLE(TABLE t, 1)) SELECT (SELECT max(x) FROM c BEHIND (DEFINE a AS true)) "
            "UNION ALL FROM OVER_TABLE(TABLE c, 2)",
            ["OVER_TABLE", "BEHIND", "OVER_TABLE"],
        ),
        ("SELECT 'ö', '€' FROM OVER_TABLE(TABLE t, 'ü' || a) WHERE 'ä' = b", ["OVER_TABLE"]),
        ("SELECT over_table FROM over_table", []),
        ("WITH over_table(a) AS (SELECT 1) FROM over_table", []),
    ],
)
def test_clauses_are_found_wherever_they_stand(parser: Parser, text: str, words: list[str]) -> None:
    tree = _read(parser, text)
    assert sorted(each["word"] for each in clauses(tree)) == sorted(words)
    for node in nodes(tree):  # all columns are where they say
        if node.get("class") == "COLUMN_REF":
            assert extent(node, text).lower() == ".".join(node["column_names"]).lower()
        if node["type"] == "BASE_TABLE":
            assert extent(node, text).lower().startswith(node["table_name"].lower())
        if node["type"] == CLAUSE:
            assert extent(node, text).upper().startswith(node["word"])


def test_parameters_are_counted_through_the_whole_text(parser: Parser) -> None:
    text = "SELECT ? FROM OVER_TABLE(TABLE t, a + ?) WHERE x > ? AND y IN (FROM u BEHIND (DEFINE a AS a.x = ?))"
    tree = _read(parser, text)
    found = {node["query_location"]: node["identifier"] for node in nodes(tree) if node.get("class") == "PARAMETER"}
    assert [found[place] for place in sorted(found)] == ["1", "2", "3", "4"]
    assert {each["key"] for each in tree["statements"][0]["named_param_map"]} == {"1", "2", "3", "4"}


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("FROM OVER_TABLE(TABLE t, a +)", "syntax error", "+)"),
        ("FROM OVER_TABLE(TABLE t, a, b)", "expected a value", "a, b"),
        ("FROM OVER_TABLE(TABLE t)", "expected ,", ")"),
        ("FROM OVER_TABLE(TABLE t, a", "not closed", "OVER_TABLE"),
        ("FROM OVER_TABLE(TABLE t WHERE x, a)", "expected a table", "t WHERE"),
        ("SELECT 1, OVER_TABLE(TABLE t, a) FROM t", "where no table stands", "OVER_TABLE"),
        ("SELECT 'ö' FROM OVER_TABLE(TABLE t, a) WHERE ) 1", "syntax error", ") 1"),
        ("FROM t BEHIND (DEFINE a AS)", "expected a condition", ")"),
        ("SELECT '\xa0' FROM\xa0OVER_TABLE(TABLE t, 1) WHERE x > ?", r"U\+00A0", "\xa0OVER"),
        ("SELECT BEHIND (x)", "syntax error|expected it behind", None),
        ("FROM OVER_TABLE(TABLE t, SELECT)", "syntax error", None),
    ],
)
def test_errors_are_at_their_places(parser: Parser, text: str, message: str, at: str | None) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        _read(parser, text)
    assert raised.value.text == text
    if at is not None:
        assert raised.value.position is not None
        assert text[raised.value.position :].startswith(at)


def test_what_is_read_is_told_by_the_text_that_is_printed(parser: Parser) -> None:
    texts = [
        "FROM OVER_TABLE(TABLE t AS z, a  +  1)",
        "from over_table(table t as z, a + 1)",
        "FROM OVER_TABLE(TABLE t AS y, a + 1)",
        "FROM OVER_TABLE(TABLE t AS z, a + 2)",
    ]
    printed = [parser.print(printable(_read(parser, text))) for text in texts]
    assert printed[0] == printed[1]
    assert len(set(printed)) == 3


@pytest.mark.parametrize(
    ("text", "nearest", "tolerance"),
    [
        ("FROM a ASOF NEAREST JOIN b ON a.t >= b.t", True, None),
        ("FROM a ASOF JOIN b ON a.t >= b.t NEAREST", True, None),
        ("FROM a ASOF LEFT JOIN b USING (k, t) TOLERANCE '1 s'", False, "'1 s'"),
        ("FROM a ASOF JOIN b ON a.t >= b.t NEAREST TOLERANCE INTERVAL '1' HOUR WHERE x > 1", True, "INTERVAL '1' HOUR"),
        ("FROM (a ASOF JOIN b ON a.t >= b.t TOLERANCE INTERVAL (1 + 1) HOUR) JOIN c ON true", False, None),
        ("FROM a JOIN c USING (k) ASOF JOIN b ON a.t >= b.t TOLERANCE ? JOIN d USING (k)", False, "?"),
        ("FROM a ASOF JOIN b ON a.t >= b.t AND tolerance = nearest", None, None),
        ("FROM a ASOF JOIN b ON a.t >= b.t WHERE tolerance > 3", None, None),
        ("FROM a ASOF JOIN nearest ON a.t >= nearest.t", None, None),
        ("FROM a ASOF JOIN nearest b ON a.t >= b.t", None, None),
        ("FROM a ASOF JOIN b tolerance ON a.t >= tolerance.t NEAREST", True, None),
    ],
)
def test_words_beside_as_of_joins(parser: Parser, text: str, nearest: bool | None, tolerance: str | None) -> None:
    joins = [each for each in nodes(_read(parser, text)) if each["type"] == "JOIN" and each["ref_type"] == "ASOF"]
    (join,) = joins
    assert join.get("nearest") is nearest
    if tolerance is not None:
        assert extent(join["tolerance"], text) == tolerance
