"""Conditions of situations, and what is returned of them, taken apart.

``avg(B.speed) - A.duration`` becomes ``"#0" - ...`` over terms, an aggregate over the rows of B, and times of A.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import pyarrow as pa

from tidelog.model.errors import did_you_mean
from tidelog.operators.situations.syntax import Aggregate, Bound, Instant, Returned, Term
from tidelog.sql.clauses.context import Context
from tidelog.sql.text.tree import Node, become, beginning, nodes

_BOUNDS: Final = {each.value: each for each in Bound}
_REFUSED: Final = {
    "SUBQUERY": "a query inside of an expression; join its result to the input",
    "WINDOW": "a window function; compute it in a query in parentheses that is the input",
    "LAMBDA": "a lambda; compute with it in a query in parentheses that is the input",
}
_OF_OTHER_ROWS: Final = frozenset(
    ("lag", "lead", "prev", "next", "row_number", "rank", "dense_rank", "nth_value", "first_value", "last_value")
)
_WRITTEN: Final = {
    "any_value": 'first("#x") FILTER (WHERE "#f" AND "#x" IS NOT NULL)',
    "bool_and": 'CAST(min(CAST("#x" AS TINYINT)) FILTER (WHERE "#f") AS BOOLEAN)',
    "bool_or": 'CAST(max(CAST("#x" AS TINYINT)) FILTER (WHERE "#f") AS BOOLEAN)',
    "count_if": 'count(*) FILTER (WHERE "#f" AND "#x")',
    "countif": 'count(*) FILTER (WHERE "#f" AND "#x")',
}
"""Aggregates that are others, of an argument and with a filter."""


@dataclass(frozen=True, slots=True)
class Names:
    """What names mean inside of a clause."""

    alias: str
    """What the input is called."""
    situations: Mapping[str, str]
    """The names of situations, by themselves in lower case."""
    columns: Mapping[str, str]
    """Columns of the input, likewise."""
    partition: Sequence[str] = ()
    used: set[str] = field(default_factory=set)
    """The columns that were found in expressions."""

    @classmethod
    def of(cls, clause: Node, schema: pa.Schema) -> Names:
        """The names of a clause over an input."""
        table = clause["input"]
        situations: dict[str, str] = {}
        for each in clause["definitions"]:
            situations.setdefault(each["name"].lower(), each["name"])
        columns = {name.lower(): name for name in schema.names}
        return cls(str(table.get("alias") or table.get("table_name") or ""), situations, columns)


@dataclass(frozen=True, slots=True)
class Taker:
    """Takes expressions of one clause apart."""

    names: Names
    context: Context

    def condition(self, node: Node, situation: str) -> str:
        """A condition on one row, as a text over the columns of the input."""
        return self._of_row(node, f"the condition of {situation}")

    def key(self, node: Node) -> str:
        """What rows are partitioned by, as a text over the columns of the input."""
        return self._of_row(node, "PARTITION BY")

    def _of_row(self, node: Node, where: str) -> str:
        own = copy.deepcopy(node)
        for each in list(nodes(own)):
            self._check(each)
            if self.context.functions.aggregates(each):
                self._fail(
                    f"found the aggregate {each['function_name']} in {where}, which is about one row; expected its "
                    "columns alone",
                    each,
                )
            if str(each.get("function_name", "")).lower() in _OF_OTHER_ROWS:
                self._fail(
                    f"found {each['function_name']}, which is about other rows, in {where}; compute it in a query in "
                    "parentheses that is the input, as in (SELECT *, lag(x) OVER (ORDER BY ts) AS before FROM t)",
                    each,
                )
            if each.get("class") == "COLUMN_REF":
                self._row_column(each, where)
        return self._printed(own)

    def call(self, node: Node) -> str:
        """One aggregate over the rows of a situation, as a text over the columns of the input."""
        if not self.context.functions.aggregates(node):
            self._fail(
                "found what is no aggregate behind RETURN; expected one such as avg(speed): what is computed of it is "
                "selected from the situations",
                beginning(node),
            )
        own = copy.deepcopy(node)
        self._write(own)
        if not self.context.functions.aggregates(own):
            self._fail(
                f"found {node['function_name']} behind RETURN of DERIVE, which is computed of an aggregate; expected "
                "one, as in min(CAST(x AS TINYINT))",
                beginning(node),
            )
        self._check_call(own)
        for each in list(nodes(own)):
            self._check(each)
            if each.get("class") == "COLUMN_REF":
                self._row_column(each, "RETURN of DERIVE, where aggregates are over the rows of every situation")
        return self._printed(own).replace("count_star()", "count(*)")

    def returned(self, name: str, node: Node) -> Returned:
        """A column that comes out of matches."""
        own = copy.deepcopy(node)
        if own.get("class") == "COLUMN_REF":
            instant = self._instant(own)
            return Returned(name, '"#0"', (instant,))
        terms: list[Term] = []
        holder = {"expression": own}
        self._walk(holder, terms)
        if not terms:
            self._fail(
                "found what is about no situation behind RETURN; expected aggregates over the rows of situations, as "
                "in avg(A.speed), or A.start_time, A.end_time and A.duration",
                beginning(node),
            )
        return Returned(name, self._printed(holder["expression"]), tuple(terms))

    # -- terms --------------------------------------------------------------------------------------------------------

    def _walk(self, value: Any, terms: list[Term]) -> None:
        """Put columns in the place of terms."""
        if isinstance(value, list):
            for each in value:
                self._walk(each, terms)
        if not isinstance(value, dict):
            return
        self._check(value)
        self._write(value)
        if self.context.functions.aggregates(value):
            become(value, self._column([self._aggregate(value)], terms))
        elif value.get("class") == "COLUMN_REF":
            instant = self._instant(value)
            wanted: list[Term] = [instant]
            if instant.bound is Bound.DURATION:  # expressions know no type of lengths, but what times differ by
                wanted = [Instant(instant.situation, each) for each in (Bound.END, Bound.START)]
            become(value, self._column(wanted, terms))
        else:
            for each in list(value.values()):
                self._walk(each, terms)

    def _column(self, wanted: Sequence[Term], terms: list[Term]) -> Node:
        """The column of a term, or the difference of those of two."""
        for each in wanted:
            if each not in terms:
                terms.append(each)
        return self.context.parser.expression(" - ".join(f'"#{terms.index(each)}"' for each in wanted))

    def _instant(self, node: Node) -> Instant:
        names = node["column_names"]
        told = ".".join(names)
        situation = self.names.situations.get(names[0].lower()) if len(names) > 1 else None
        if situation is None:
            if len(names) == 1 and names[0].lower() in self.names.situations:
                self._fail(
                    f"found situation {told} by itself; expected {told}.start_time, {told}.end_time, {told}.duration, "
                    f"or an aggregate over its rows, as in count({told}.*)",
                    node,
                )
            if names[-1].lower() in map(str.lower, self.names.partition):
                self._fail(
                    f"found {told}, by which rows are partitioned, behind RETURN; it comes out by itself: leave it out",
                    node,
                )
            if len(names) > 1:
                self._no_situation(names[0], node)
            self._fail(
                f"found column {told} without an aggregate and a situation; expected one over the rows of a situation, "
                f"as in first({next(iter(self.names.situations.values()))}.{told})",
                node,
            )
        bound = _BOUNDS.get(names[1].lower()) if len(names) == 2 else None
        if bound is None:
            if names[1].lower() in self.names.columns:
                self._fail(
                    f"found {told} without an aggregate, and situation {situation} has many rows; expected one, as in "
                    f"first({told})",
                    node,
                )
            self._fail(
                f"situation {situation} has no {'.'.join(names[1:])}; expected start_time, end_time or duration, or an "
                "aggregate over its rows",
                node,
            )
        return Instant(situation, bound)

    def _aggregate(self, node: Node) -> Aggregate:
        own = copy.deepcopy(node)
        own["alias"] = ""
        self._check_call(own)
        arguments = [each["expression"] for each in own["arguments"]]
        found = [self._star(each, own) for each in arguments if each.get("class") == "STAR"]
        for each in list(nodes(own)):
            self._check(each)
            if each.get("class") == "COLUMN_REF":
                found.append(self._situation_column(each))
        different = list(dict.fromkeys(found))
        name = node["function_name"]
        if not different:
            own_name = "count(*)" if name == "count_star" else name
            self._fail(
                f"found {own_name} of no situation; expected columns of one, as in max({self._example()}), or the "
                f"number of its rows, as in count({next(iter(self.names.situations.values()))}.*)",
                node,
            )
        if len(different) > 1:
            self._fail(
                f"found {name} over rows of {different[0]} and of {different[1]}; expected those of one situation", node
            )
        return Aggregate(different[0], self._printed(own).replace("count_star()", "count(*)"))

    def _star(self, star: Node, call: Node) -> str:
        """``count(A.*)``: the rows of a situation."""
        name = star["relation_name"]
        if call["function_name"].lower() != "count" or len(call["arguments"]) != 1 or star["exclude_list"] or not name:
            self._fail("found *; expected a column of a situation, or the count of its rows, as in count(A.*)", star)
        situation = self.names.situations.get(name.lower())
        if situation is None:
            self._no_situation(name, star)
        if call["distinct"]:
            self._fail("found count(DISTINCT *); expected the columns whose values count", star)
        counting = self.context.parser.expression("count(*)")
        call.update({each: counting[each] for each in ("function_name", "qualified_name", "arguments")})
        return situation

    # -- columns ------------------------------------------------------------------------------------------------------

    def _situation_column(self, node: Node) -> str:
        """The situation that a column of an aggregate is of; the node is changed to be about a row."""
        names = node["column_names"]
        if len(names) == 1:
            if names[0].lower() not in self.names.columns:
                if names[0].lower() in self.names.situations:
                    self._fail(
                        f"found situation {names[0]} in an aggregate; expected a column of it, as in "
                        f"max({names[0]}.x), or the number of its rows, count({names[0]}.*)",
                        node,
                    )
                self._no_column(names[0], node)
            self._fail(
                f"found {names[0]} of no situation in an aggregate; expected the situation whose rows count, as in "
                f"{next(iter(self.names.situations.values()))}.{names[0]}",
                node,
            )
        situation = self.names.situations.get(names[0].lower())
        if situation is None:
            self._no_situation(names[0], node)
        self._store(node, names[1:])
        return situation

    def _row_column(self, node: Node, where: str) -> None:
        """A column of a row; the node is changed to have the name that is stored."""
        names = node["column_names"]
        if len(names) > 1 and names[0].lower() == self.names.alias.lower():
            names = names[1:]
        elif len(names) > 1 and names[0].lower() in self.names.situations:
            self._fail(
                f"found {'.'.join(names)}, of a situation, in {where}; expected columns of the input alone", node
            )
        self._store(node, names)

    def _store(self, node: Node, names: Sequence[str]) -> None:
        stored = self.names.columns.get(names[0].lower())
        if stored is None:
            self._no_column(names[0], node)
        if len(names) > 1:
            self._fail(
                f"found {'.'.join(names)}, a part of a column; expected a plain column: make one of it in a query in "
                "parentheses that is the input",
                node,
            )
        self.names.used.add(stored)
        node["column_names"] = [stored]

    def _no_column(self, name: str, node: Node) -> NoReturn:
        self._fail(f"no column {name!r}; {did_you_mean(name, list(self.names.columns.values()))}", node)

    def _no_situation(self, name: str, node: Node) -> NoReturn:
        known = list(self.names.situations.values())
        self._fail(f"there is no situation {name!r}; {did_you_mean(name, known)}", node)

    def _example(self) -> str:
        column = next(iter(self.names.columns.values()), "x")
        return f"{next(iter(self.names.situations.values()))}.{column}"

    def _check_call(self, call: Node) -> None:
        """Raise for what no aggregate over the rows of a situation may have."""
        orders = (call.get("order_bys") or {}).get("orders")
        if self.context.functions.is_own(call) and (call["distinct"] or orders):
            what = "DISTINCT" if call["distinct"] else "ORDER BY"
            self._fail(
                f"found {what} in {call['function_name']}, which only aggregates of DuckDB take; leave it out", call
            )
        for each in nodes([call["arguments"], call["filter"], orders]):
            if self.context.functions.aggregates(each):
                self._fail(f"found the aggregate {each['function_name']} inside of another one", each)

    def _write(self, node: Node) -> None:
        """Put aggregates that are kept in the place of one that is the same as they are."""
        written = _WRITTEN.get(str(node.get("function_name", "")).lower())
        if written is None or len(node["arguments"]) != 1 or not self.context.functions.aggregates(node):
            return
        self._check_call(node)
        if node["distinct"] or node["order_bys"]["orders"]:
            return
        true = self.context.parser.expression("true")
        parts = {"#x": node["arguments"][0]["expression"], "#f": node["filter"] or true}
        found = self.context.parser.expression(written)
        for each in list(nodes(found)):
            if each.get("class") == "COLUMN_REF" and each["column_names"][0] in parts:
                become(each, copy.deepcopy(parts[each["column_names"][0]]))
        become(node, {**found, "alias": node["alias"]})

    def _check(self, node: Node) -> None:
        told = _REFUSED.get(node.get("class", ""))
        if told is not None:
            self._fail(f"found {told}", node)

    def _printed(self, node: Node) -> str:
        return self.context.parser.print_expression({**node, "alias": ""})

    def _fail(self, message: str, node: Node) -> NoReturn:
        raise self.context.refuse(message, node)
