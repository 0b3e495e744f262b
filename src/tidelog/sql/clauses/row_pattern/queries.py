"""Queries inside of expressions of a row pattern: answered once, before the search, and constants from then on.

They see tables and streams of the statement at its moment, and nothing of the match: neither variables nor columns of
the input.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.row_pattern.clause import CALL
from tidelog.sql.errors import of_engine
from tidelog.sql.text.literals import literal
from tidelog.sql.text.tree import LOCATIONS, NOWHERE, Node, become, beginning, nodes

MOST_VALUES: Final = 10_000
"""Values of a query behind IN and the like: they become part of a condition, which is read for each of them."""
_COMPARED: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_UNKNOWN: Final = "CAST(NULL AS BOOLEAN)"
_SHOWN: Final = 60
"""Characters of a query that EXPLAIN shows."""


def answer_queries(clause: Node, scope: Scope, context: Context) -> list[str]:
    """Put constants in the place of the queries of measures and definitions; tells which there were.

    Raises for those that depend on the match, or have more than fits.
    """
    answering = _Answering(scope, context)
    for each in (*clause["defines"], *clause["measures"]):
        answering.walk(each["expression"])
    return answering.told


@dataclass(frozen=True, slots=True)
class _Answering:
    scope: Scope
    context: Context
    told: list[str] = field(default_factory=list)

    def walk(self, value: Any) -> None:
        """Answer all queries below a node, but not those inside of others, which these see to."""
        if isinstance(value, list):
            for each in value:
                self.walk(each)
        elif isinstance(value, dict) and value.get("class") == "SUBQUERY":
            self.walk(value["child"])
            self._answer(value)
        elif isinstance(value, dict):
            for each in list(value.values()):
                self.walk(each)

    def _answer(self, node: Node) -> None:
        for each in nodes(node["subquery"]):
            if each.get("class") == CALL:
                raise self._wrong(
                    f"found {each['function_name'].upper()} inside of a query, which sees no rows of the match", each
                )
        kind = node["subquery_type"]
        shown = " ".join(self.context.parser.print_expression(_alone(node)).split())
        if kind == "SCALAR":
            values = self._values(node, "SELECT * FROM (SELECT 1) AS q LIMIT 2")
            if len(values) > 1:
                raise self._wrong(
                    "found a query of more than one row where one value stands; expected at most one", node
                )
            found = values[0] if values else "NULL"
        elif kind in ("EXISTS", "NOT_EXISTS"):
            is_there = self._asked(node, "SELECT 1 FROM (SELECT 1) AS q LIMIT 1").num_rows > 0
            found = "TRUE" if is_there is (kind == "EXISTS") else "FALSE"
        else:
            found = self._compared(node)
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
        self.told.append(f"the query {shown} was answered before")
        place = {name: node[name] for name in LOCATIONS}
        child = node["child"]
        become(node, self.context.parser.expression(found))
        for each in [each for each in nodes(node) if each.get("class") == "COLUMN_REF"]:
            become(each, copy.deepcopy(child))
        if node.get("query_location", NOWHERE) != NOWHERE:
            node.update(place)

    def _compared(self, node: Node) -> str:
        """A comparison with some value of a query, as a condition of ``x``."""
        sign = _COMPARED.get(node["comparison_type"])
        if sign is None:
            raise self._wrong("found a comparison with a query that is none of = <> < <= > >=", node)
        if node["child"].get("function_name") == "row":
            raise self._wrong("found several values before a query in a row pattern; expected one, as in x IN", node)
        values = self._values(
            node, f"SELECT DISTINCT v FROM (SELECT 1) AS q(v) ORDER BY v NULLS LAST LIMIT {MOST_VALUES + 1}"
        )
        if len(values) > MOST_VALUES:
            raise self._wrong(
                f"found a query of more than {MOST_VALUES:,} values in a row pattern; join its result to the input, "
                "and compare with that",
                node,
            )
        known = [each for each in values if each != "NULL"]
        if not values:
            return "FALSE"
        if sign == "=":
            return f"x IN ({', '.join(values)})"
        # What is more than some value is more than the least; what differs from some value, from one of any two.
        some = known[:2] if sign == "<>" else known[:1] if ">" in sign else known[-1:]
        parts = [f"x {sign} {each}" for each in some]
        return " OR ".join([*parts, _UNKNOWN] if len(known) < len(values) else parts)

    def _values(self, node: Node, around: str) -> list[str]:
        """The values of a query of one column, as constants."""
        rows = self._asked(node, around)
        if rows.num_columns != 1:
            raise self._wrong(
                f"found a query of {rows.num_columns} columns in an expression of a row pattern; expected one", node
            )
        kind = rows.schema.types[0]
        if pa.types.is_nested(kind):
            raise self._wrong(f"found a query of values of type {kind} in a row pattern; expected plain ones", node)
        with closing(self.context.connect()) as cursor:
            cursor.register("#values", rows.rename_columns(["v"]))
            text = "CAST(v AS VARCHAR)"
            if pa.types.is_timestamp(kind) and kind.tz is not None:  # texts of old times lack the seconds of offsets
                text = f"CASE WHEN isfinite(v) THEN CAST(timezone('UTC', v) AS VARCHAR) || '+00' ELSE {text} END"
            found = cursor.sql(f'SELECT {text}, typeof(v) FROM "#values"').fetchall()
        return [_constant(text, kind) for text, kind in found]

    def _asked(self, node: Node, around: str) -> pa.Table:
        """The rows of a query inside of another one."""
        import duckdb

        assert self.context.ask is not None
        tree = copy.deepcopy(self.context.parser.parse(around))
        select = tree["statements"][0]["node"]
        select["from_table"]["subquery"] = copy.deepcopy(node["subquery"])
        select["cte_map"] = {"map": _needed(node, self.scope.ctes)}
        try:
            return self.context.ask(tree)
        except duckdb.BinderException as error:
            message = of_engine(error, "", lambda _: None).message.partition("\n")[0]
            raise self.context.refuse(
                f"{message}; a query inside of a row pattern sees neither rows of the match nor variables: join its "
                "result to the input",
                _blamed(node, message),
            ) from None

    def _wrong(self, message: str, node: Node) -> Exception:
        return self.context.refuse(message, beginning(node))


def _alone(node: Node) -> Node:
    """A query without what it is compared with."""
    return {**node, "alias": "", "child": None, "subquery_type": "SCALAR", "comparison_type": "INVALID"}


def _constant(text: str | None, kind: str) -> str:
    """A value of a type of DuckDB's, by its text there."""
    if text is None:
        return "NULL"
    if kind == "BOOLEAN":
        return text.upper()
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return literal(text)
    return f"CAST({literal(text)} AS {kind})"


def _needed(node: Node, ctes: Sequence[Node]) -> list[Node]:
    """The CTEs that a query mentions, and those that these mention."""
    names = _mentioned(node["subquery"])
    found: list[Node] = []
    for each in reversed(ctes):
        if each["key"].lower() in names:
            names |= _mentioned(each["value"])
            found.insert(0, copy.deepcopy(each))
    return found


def _mentioned(tree: Any) -> set[str]:
    return {each["table_name"].lower() for each in nodes(tree) if each["type"] == "BASE_TABLE"}


def _blamed(node: Node, message: str) -> Node:
    """The column that an error is about, if it is one of a query."""
    columns = [each for each in nodes(node["subquery"]) if each.get("class") == "COLUMN_REF"]
    named = [each for each in columns if any(f'"{name}"' in message for name in each["column_names"])]
    return named[0] if named else beginning(node)
