"""Expressions of ``DEFINE`` and ``MEASURES``, taken apart: what depends on a match, and what is computed from that.

``A.price > 1.1 * PREV(price)`` becomes ``"#0" > 1.1 * "#1"`` over two terms, the price of the last row of A, and that
of the row before the last one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from tidelog.model.errors import did_you_mean
from tidelog.operators.rowpattern.syntax import (
    CLASSIFIER_COLUMN,
    MATCH_NUMBER_COLUMN,
    Aggregate,
    MatchNumber,
    Navigation,
    Term,
)
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.row_pattern.clause import CALL
from tidelog.sql.text.tree import Node, Parser, become, beginning, nodes

_PHYSICAL: Final = {"prev": -1, "next": 1}
_LOGICAL: Final = ("first", "last")
_OF_WINDOWS: Final = {
    "lag": "PREV(price)",
    "lead": "NEXT(price)",
    "first_value": "FIRST(price)",
    "last_value": "LAST(price)",
    "nth_value": "FIRST(price, 2)",
    "row_number": "RUNNING count(*)",
}
"""Functions of windows, and what is said here, as some other engines let them stand in row patterns."""
_VOLATILE: Final = frozenset({"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"})
_SEVERAL: Final = frozenset({"unnest", "unlist", "generate_subscripts"})
"""Functions that give several rows for one."""
_MOST_ROWS: Final = (1 << 31) - 1
"""How far a navigation may go."""


@dataclass(frozen=True, slots=True)
class Names:
    """What names mean inside of a clause."""

    variables: Mapping[str, str]
    """The primary variables, by their names in upper case."""
    subsets: Mapping[str, frozenset[str]]
    """The variables of subsets, likewise."""
    columns: Mapping[str, str]
    """Columns of the input, by their names in lower case."""
    used: set[str] = field(default_factory=set)
    """The columns that were found in expressions."""

    def rows(self, name: str) -> frozenset[str] | None:
        """The primary variables that a name means; None if it is none of a variable."""
        primary = self.variables.get(name.upper())
        return self.subsets.get(name.upper()) if primary is None else frozenset([primary])

    def suggestion(self, name: str) -> str:
        """What to do about a name that is no variable's."""
        return did_you_mean(name.upper(), [*self.variables, *self.subsets])


@dataclass(slots=True)
class Taken:
    """An expression, taken apart."""

    text: str
    """SQL over columns ``#0``, ``#1``, ..., the values of the terms."""
    node: Node
    """What it was."""
    terms: dict[Term, Node] = field(default_factory=dict)
    """The terms, and where they stand."""
    conjuncts: tuple[str, ...] = ()
    """Of a condition, what must all hold, over the same columns; none told if it is one thing."""


@dataclass(frozen=True, slots=True)
class Taker:
    """Takes expressions of one clause apart."""

    names: Names
    parser: Parser
    refuse: Refuse
    is_aggregate: Callable[[Node], bool]
    is_define: bool
    is_final: bool
    """Whether what says neither RUNNING nor FINAL is about the whole match."""

    def take(self, node: Node) -> Taken:
        """An expression, taken apart. Raises for what it may not have."""
        own = copy.deepcopy(node)
        own["alias"] = ""
        taken = Taken("", node)
        holder = {"expression": own}
        self._walk(holder, taken, frozenset())
        taken.text = self.parser.print_expression(holder["expression"])
        parts = list(_conjuncts(holder["expression"])) if self.is_define else []
        if len(parts) > 1:
            taken.conjuncts = tuple(map(self._printed, parts))
        return taken

    # -- around terms -------------------------------------------------------------------------------------------------

    def _walk(self, value: Any, taken: Taken, bound: frozenset[str]) -> None:
        """Put columns in the place of terms; ``bound`` has the parameters of lambdas around, in lower case."""
        if isinstance(value, list):
            for each in value:
                self._walk(each, taken, bound)
        if not isinstance(value, dict):
            return
        self._check(value)
        kind = value.get("class")
        if kind == "LAMBDA" and (parameters := parameters_of(value)):
            self._walk(value["expr"], taken, bound | parameters)
            return
        term: Term | None = None
        if kind == "COLUMN_REF" and value["column_names"][0].lower() not in bound:
            term = self._column(value)
        elif kind == CALL:
            term = self._call(value)
        elif kind == "FUNCTION" and self.is_aggregate(value):
            term = self._aggregate(value)
        elif "mode" in value:
            self._fail(f"found {value['mode']} before {value['function_name']}, which is about one row", value)
        if term is None:
            for each in list(value.values()):
                self._walk(each, taken, bound)
            return
        original = copy.deepcopy(value)
        taken.terms.setdefault(term, original)
        become(value, self.parser.expression(f'"#{list(taken.terms).index(term)}"'))

    def _check(self, node: Node) -> None:
        kind = node.get("class")
        if kind == "SUBQUERY":
            self._fail(
                "found a query inside of a row pattern over what arrives, with which its answer would change; ask it "
                "before, and give the answer as a parameter",
                beginning(node),
            )
        if kind == "WINDOW":
            self._fail("found a window function in a row pattern; compute it in a subquery that is the input", node)
        if kind == "STAR":
            self._fail("found * in a row pattern; expected a column, or count(*)", node)
        if kind == "FUNCTION" and node["function_name"].lower() in _SEVERAL:
            self._fail(
                f"found {node['function_name']}, which gives several rows, in a row pattern; use it on what comes out",
                node,
            )
        if kind == "FUNCTION" and self.is_define and node["function_name"].lower() in _VOLATILE:
            self._fail(
                f"found {node['function_name']}() in DEFINE, which tells another value whenever it is asked; compute "
                "it in a query in parentheses that is the input",
                node,
            )
        if kind == "FUNCTION" and (here := _OF_WINDOWS.get(node["function_name"].lower())):
            name = node["function_name"]
            self._fail(f"found {name}, a function of windows, in a row pattern; expected the like of {here}", node)

    def _column(self, node: Node) -> Navigation:
        variables, text = self._reference(node)
        return Navigation(text, variables, is_final=self.is_final)

    def _call(self, node: Node) -> Term:
        name = node["function_name"].lower()
        self._plain(node)
        if name == "match_number":
            if node["arguments"]:
                self._fail("found MATCH_NUMBER with an argument; expected MATCH_NUMBER()", node)
            self._no_mode(node)
            return MatchNumber()
        if name == "classifier":
            is_final = self._mode(node)
            return Navigation(f'"{CLASSIFIER_COLUMN}"', self._classified(node), is_final=is_final)
        if name in _LOGICAL:
            return self._logical(node)
        self._no_mode(node)
        steps = _PHYSICAL[name] * self._offset(node, 1)
        inner = self._argument(node)
        if inner.get("class") == CALL and inner["function_name"].lower() in _LOGICAL:
            self._plain(inner)
            found = self._logical(inner)
        else:
            found = self._of_one_row(node, inner, is_final=self.is_final)
        return Navigation(
            found.expression, found.variables, found.is_last, found.logical, steps, is_final=found.is_final
        )

    def _logical(self, node: Node) -> Navigation:
        """FIRST or LAST."""
        is_final = self._mode(node)
        found = self._of_one_row(node, self._argument(node), is_final=is_final)
        is_last = node["function_name"].lower() == "last"
        return Navigation(found.expression, found.variables, is_last, self._offset(node, 0), 0, is_final=is_final)

    def _of_one_row(self, call: Node, argument: Node, *, is_final: bool) -> Navigation:
        """An expression of the row that a call is about."""
        name = call["function_name"].upper()
        own = {"expression": copy.deepcopy(argument)}
        inside = _Inside(self, f"{name}()")
        if own["expression"].get("class") == "COLUMN_REF":
            inside.labels.append(self._reference(own["expression"])[0])
        else:
            inside.walk(own, frozenset())
        if not inside.labels:
            self._fail(f"found {name} of no column; expected one whose row it finds, as in {name}(price)", call)
        return Navigation(self._printed(own["expression"]), inside.variables(call), is_final=is_final)

    def _aggregate(self, node: Node) -> Aggregate:
        is_final = self._mode(node)
        own = copy.deepcopy(node)
        own.pop("mode", None)
        name = own["function_name"]
        inside = _Inside(self, f"the aggregate {name}")
        stars = [each["expression"] for each in own["arguments"] if each["expression"].get("class") == "STAR"]
        if stars:
            inside.star(stars[0], own)
        for member in ("arguments", "filter", "order_bys"):
            inside.walk(own[member], frozenset())
        call = self._printed(own).replace("count_star()", "count(*)")
        return Aggregate(call, inside.variables(node), is_final=is_final)

    # -- inside of terms ----------------------------------------------------------------------------------------------

    def _reference(self, node: Node) -> tuple[frozenset[str] | None, str]:
        """The rows that a column is of, and its text; the node is changed to be about a row."""
        names = node["column_names"]
        variables = self.names.rows(names[0]) if len(names) > 1 else None
        own = names[1:] if variables is not None else names
        stored = self.names.columns.get(own[0].lower())
        if stored is None:
            self._unknown(node, names, is_qualified=variables is not None)
        if len(own) > 1:
            where = "the condition of a variable" if self.is_define else "an expression of one row"
            self._fail(
                f"found {'.'.join(own)}, a field, in {where}; expected a plain column: compute one in a query in "
                "parentheses that is the input",
                node,
            )
        self.names.used.add(stored)
        node["column_names"] = [stored]
        return variables, self._printed(node)

    def _unknown(self, node: Node, names: Sequence[str], *, is_qualified: bool) -> NoReturn:
        if not is_qualified and self.names.rows(names[0]) is not None:
            self._fail(
                f"found variable {names[0]} without a column; expected one, as in {names[0]}.price, and count("
                f"{names[0]}.*) for the number of its rows",
                node,
            )
        if not is_qualified and len(names) > 1:
            self._fail(
                f"there is neither a variable nor a column {names[0]!r}; {self.names.suggestion(names[0])}: columns "
                "are named alone, or behind a variable of the pattern",
                node,
            )
        name = names[1] if is_qualified else names[0]
        if name.lower() in ("classifier", "match_number"):
            self._fail(f"no column {name!r}; did you mean {name.upper()}()?", node)
        self._fail(f"no column {name!r}; {did_you_mean(name, list(self.names.columns.values()))}", node)

    def _classified(self, node: Node) -> frozenset[str] | None:
        """The variables whose last row CLASSIFIER tells of."""
        arguments = node["arguments"]
        if not arguments:
            return None
        named = arguments[0]["expression"]
        if len(arguments) > 1 or named.get("class") != "COLUMN_REF" or len(named["column_names"]) != 1:
            self._fail("expected CLASSIFIER(), or CLASSIFIER of one variable", node)
        name = named["column_names"][0]
        found = self.names.rows(name)
        if found is None:
            self._fail(f"no variable {name!r} in the pattern; {self.names.suggestion(name)}", named)
        return found

    def _argument(self, node: Node) -> Node:
        arguments = node["arguments"]
        name = node["function_name"].upper()
        if not 1 <= len(arguments) <= 2:
            self._fail(f"found {name} with {len(arguments)} arguments; expected a value, and perhaps a number", node)
        found: Node = arguments[0]["expression"]
        return found

    def _offset(self, node: Node, default: int) -> int:
        """The number of rows that a navigation goes."""
        if len(node["arguments"]) < 2:
            return default
        given = node["arguments"][1]["expression"]
        text = given.get("literal", {}).get("text", "") if given.get("class") == "CONSTANT" else ""
        is_number = given.get("class") == "CONSTANT" and given["literal"].get("kind") == "INTEGER" and text.isdigit()
        if not is_number or int(text) > _MOST_ROWS:
            self._fail(
                f"found {self._printed(given)} as the number of rows that {node['function_name'].upper()} goes; "
                "expected a whole number that is not negative",
                given,
            )
        return int(text)

    def _plain(self, node: Node) -> None:
        """Refuse what only aggregates have."""
        if node["distinct"] or node["filter"] is not None or node["order_bys"]["orders"]:
            name = node["function_name"].upper()
            self._fail(
                f"found DISTINCT, FILTER or ORDER BY in {name}, which is one row of the match here and no aggregate; "
                "min_by and max_by take an order",
                node,
            )

    def _mode(self, node: Node) -> bool:
        """Whether a term is about the whole match."""
        mode = node.get("mode")
        if mode == "FINAL" and self.is_define:
            self._fail("found FINAL in DEFINE, where a match is not complete yet; expected RUNNING, or neither", node)
        if mode == "RUNNING":
            return False
        return mode == "FINAL" or self.is_final

    def _no_mode(self, node: Node) -> None:
        if "mode" in node:
            name = node["function_name"].upper()
            self._fail(
                f"found {node['mode']} before {name}; it is said of FIRST, LAST, CLASSIFIER and aggregates, as in "
                f"PREV({node['mode']} LAST(price))",
                node,
            )

    def _printed(self, node: Node) -> str:
        return self.parser.print_expression({**node, "alias": ""})

    def _fail(self, message: str, node: Node) -> NoReturn:
        raise self.refuse(message, node)


@dataclass(slots=True)
class _Inside:
    """What is inside of a navigation or an aggregate: expressions over the columns of a row."""

    taker: Taker
    what: str
    labels: list[frozenset[str] | None] = field(default_factory=list)
    """Of which rows columns are, one after the other."""

    def walk(self, value: Any, bound: frozenset[str]) -> None:
        """Take variables off the names of columns."""
        taker = self.taker
        if isinstance(value, list):
            for each in value:
                self.walk(each, bound)
        if not isinstance(value, dict):
            return
        kind = value.get("class")
        taker._check(value)
        if kind == "LAMBDA" and (parameters := parameters_of(value)):
            self.walk(value["expr"], bound | parameters)
        elif kind == "COLUMN_REF":
            if value["column_names"][0].lower() not in bound:
                self.labels.append(taker._reference(value)[0])
        elif kind == CALL:
            self._call(value)
        elif kind == "FUNCTION" and taker.is_aggregate(value):
            taker._fail(f"found the aggregate {value['function_name']} inside of {self.what}", value)
        else:
            if "mode" in value:
                taker._fail(f"found {value['mode']} before {value['function_name']}, which is about one row", value)
            for each in list(value.values()):
                self.walk(each, bound)

    def _call(self, node: Node) -> None:
        taker = self.taker
        name = node["function_name"].lower()
        if name == "classifier":
            taker._no_mode(node)
            self.labels.append(taker._classified(node))
            become(node, taker.parser.expression(f'"{CLASSIFIER_COLUMN}"'))
        elif name == "match_number":
            taker._no_mode(node)
            become(node, taker.parser.expression(f'"{MATCH_NUMBER_COLUMN}"'))
        else:
            outer = self.what.removesuffix("()")
            advice = ""
            if name in _LOGICAL:
                advice = "; FIRST or LAST may only be the whole argument of PREV or NEXT"
            elif outer.lower() in _LOGICAL:
                advice = f"; expected it around that, as in {name.upper()}({outer}(price))"
            elif outer.lower() == name:
                advice = f"; expected the number of rows behind the value, as in {outer}(price, 2)"
            taker._fail(f"found {name.upper()} inside of {self.what}, where it cannot stand{advice}", node)

    def star(self, star: Node, call: Node) -> None:
        """``count(A.*)``: the rows of a variable."""
        taker = self.taker
        name = star["relation_name"]
        if call["function_name"].lower() != "count" or len(call["arguments"]) != 1 or star["exclude_list"] or not name:
            taker._fail("found * in a row pattern; expected a column, or count(*), or count of a variable's *", star)
        rows = taker.names.rows(name)
        if rows is None:
            taker._fail(f"no variable {name!r} in the pattern; {taker.names.suggestion(name)}", star)
        if call["distinct"]:
            taker._fail("found count(DISTINCT *); expected the columns whose values count", star)
        self.labels.append(rows)
        counting = taker.parser.expression("count(*)")
        call.update({name: counting[name] for name in ("function_name", "qualified_name", "arguments")})

    def variables(self, node: Node) -> frozenset[str] | None:
        """The variables that all columns are of."""
        found = list(dict.fromkeys(self.labels))
        if len(found) > 1:
            shown = " and ".join(_shown(each) for each in found[:2])
            self.taker._fail(
                f"found {self.what} of columns of {shown}; expected those of one variable, or subset", node
            )
        return found[0] if found else None


def _conjuncts(node: Node) -> Iterator[Node]:
    if node.get("type") == "CONJUNCTION_AND":
        for each in node["children"]:
            yield from _conjuncts(each)
    else:
        yield node


def _shown(variables: frozenset[str] | None) -> str:
    return "all rows" if variables is None else ", ".join(sorted(variables))


def parameters_of(node: Node) -> frozenset[str]:
    """The names that a lambda binds; none if ``->`` takes a part out of JSON."""
    names = [each["column_names"] for each in nodes(node["lhs"]) if each.get("class") == "COLUMN_REF"]
    is_json = node["expr"].get("class") == "CONSTANT" and node.get("syntax_type") != "LAMBDA_KEYWORD"
    return frozenset() if is_json else frozenset(each[0].lower() for each in names if len(each) == 1)
