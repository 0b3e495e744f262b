"""Windows with row patterns in a tree: the relation that they are over becomes one that has their values.

``SELECT a, m OVER w FROM t WHERE ... WINDOW w AS (... PATTERN ...)`` becomes a selection of columns of a clause, whose
input is ``t`` with the condition (``chosen``), and which gives the rows of that, each with its measures. An aggregate
over the window is a measure like others, but that it is of no rows where there is no match.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.sql.clauses.cutting import CLAUSE, ClauseText, Cutting
from tidelog.sql.clauses.grouping import own_nodes
from tidelog.sql.clauses.pattern_windows.finding import MARK, PatternWindows, Window
from tidelog.sql.clauses.printing import printable
from tidelog.sql.clauses.row_pattern.clause import CALL, WINDOW, read_keys, read_window
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import Token, tokens
from tidelog.sql.text.tree import Node, become, characters, extent, nodes

_OF_FRAMES: Final = {
    "WINDOW_AGGREGATE": "aggregate",
    "WINDOW_FIRST_VALUE": "first",
    "WINDOW_LAST_VALUE": "last",
    "WINDOW_NTH_VALUE": "nth",
}
"""Functions that see the rows of the frame, so of the match; others see all rows of the partition."""
_JOINED: Final = "#joined"


def put_pattern_windows(cutting: Cutting, found: PatternWindows) -> Callable[[Node], None]:
    """Read the windows of a text; gives what puts clauses into its tree for them. Both raise :class:`SqlError`."""
    putting = _Putting(cutting, found)
    for window in found.patterns:
        putting.read(window)
    return putting.put


@dataclass(frozen=True, slots=True)
class _Putting:
    cutting: Cutting
    found: PatternWindows
    definitions: dict[int, Node] = field(default_factory=dict)
    """What windows say, by their places."""

    def put(self, tree: Node) -> None:
        """Put a clause for each window of each SELECT."""
        selects = [each for each in nodes(tree) if each["type"] == "SELECT_NODE"]
        for select in reversed(selects):  # those inside of others first
            self._put(select)
        for node in nodes(tree):
            if self.window_of(node) is not None:
                raise self.error(
                    "found a window with a row pattern here; expected what is computed over it in SELECT, QUALIFY or "
                    "ORDER BY",
                    node,
                )

    def _put(self, select: Node) -> None:
        uses = [(each, used) for each in own_nodes(select) if (used := self.window_of(each)) is not None]
        if not uses:
            return
        groups = [select[each] for each in ("group_expressions", "group_sets", "having") if select[each]]
        if groups or select["aggregate_handling"] != "STANDARD_HANDLING":
            raise self.error(
                "found a window with a row pattern beside GROUP BY; group in a query in parentheses", uses[0][0]
            )
        if select["from_table"]["type"] == "EMPTY":
            raise self.error("found a window with a row pattern over no table; expected FROM", uses[0][0])
        table, alias, others = self._table(select)
        unnamed = [each for each in select["select_list"] if not each["alias"] and self._is_around_a_use(each)]
        shown: dict[str, str] = {}
        for each in own_nodes(select):
            if each.get("class") == "STAR" and each["relation_name"].lower() in others:
                raise self.error(
                    f"found {each['relation_name']}.* of a join beside a window with a row pattern; name the columns",
                    each,
                )
            _unqualified(each, others)
        for number, window in enumerate(self.found.patterns):
            own = [each for each, used in uses if used is window]
            if own:
                table = self._clause(window, f"#{number}", table, alias, others)
                table["chosen"] = {name: select[name] for name in ("where_clause", "sample")}
                select["where_clause"], select["sample"] = None, None
                for each in own:
                    shown |= self._use(each, table, window, select)
        for each in unnamed:
            each["alias"] = self.cutting.parser.print_expression(printable(each, named=True))
            for column, text in shown.items():
                each["alias"] = each["alias"].replace(f'"{column}"', text)
        select["from_table"] = table
        if select["qualify"] is not None and not any(
            each.get("class") == "WINDOW" for each in nodes(select["qualify"])
        ):
            select["where_clause"], select["qualify"] = select["qualify"], None

    def window_of(self, node: Node) -> Window | None:
        """The window that a node is computed over, if it has a pattern."""
        if node.get("class") == "COLUMN_REF" and node["column_names"][0].startswith(f"{MARK}m"):
            return self.found.uses[int(node["column_names"][0][2:])].window
        named = node.get("start_expr") if node.get("class") == "WINDOW" else None
        if named is None or named.get("class") != "COLUMN_REF" or not named["column_names"][0].startswith(f"{MARK}w"):
            return None
        return self.found.patterns[int(named["column_names"][0][2:])]

    # -- relations ------------------------------------------------------------------------------------------------

    def _table(self, select: Node) -> tuple[Node, str, frozenset[str]]:
        """What windows are over, its name, and those of its parts, in lower case, if it is a join."""
        table = select["from_table"]
        others: frozenset[str] = frozenset()
        alias = str(table.get("alias") or table.get("table_name") or "")
        if table["type"] == "TABLE_FUNCTION":
            alias = alias or str(table["function"]["function_name"])
        if table["type"] == "JOIN":
            alias, others = _JOINED, frozenset(_names(table))
        return table, alias, others

    def _clause(self, window: Window, prefix: str, table: Node, alias: str, others: frozenset[str]) -> Node:
        """The clause of a window over a table."""
        own = self.definitions[window.open]
        for each in nodes([own["partition"], own["order"], own["frame"]]):
            _unqualified(each, others)
        for each in own["measures"]:
            each["column"] = f"{prefix} {each['name']}"
        start, end = self._token(window.open).start, self._token(window.last).end
        place = self.cutting.offset(start)
        return {
            "type": CLAUSE,
            "word": WINDOW,
            "query_location": place,
            "query_location_length": self.cutting.offset(end) - place,
            "alias": alias,
            "column_name_alias": [],
            "sample": None,
            "name": window.name,
            "prefix": prefix,
            "input": table,
            **own,
        }

    def read(self, window: Window) -> None:
        """Read what a window says, with the keys of the one that it is made of."""
        found = read_window(self._reader(window))
        self._inherit(window, found)
        self.definitions[window.open] = found

    def _inherit(self, window: Window, found: Node) -> None:
        name = found.pop("base")
        if name is None:
            return
        place = self._token(window.open + 1).start
        base = self.found.base(window, name)
        if base is None or (window.name and base.open >= window.open):
            known = [each.name for each in self.found.windows if each.scope == window.scope and each.name]
            raise SqlError(
                f"no window {name!r} before this one; {did_you_mean(name, known)}",
                text=self.cutting.text,
                position=place,
            )
        reader = self._reader(base)
        keys = read_keys(reader)
        if reader.peek() is not None:
            raise reader.error(f"found more than keys in window {name}, which another one is made of")
        self._inherit(base, keys)
        for member, word in (("partition", "PARTITION BY"), ("order", "ORDER BY")):
            if found[member] and (member == "partition" or keys[member]):
                raise SqlError(
                    f"found {word} in a window that has the keys of window {name}",
                    text=self.cutting.text,
                    position=place,
                )
            found[member] = found[member] or keys[member]

    def _is_around_a_use(self, node: Node) -> bool:
        """Whether something inside of an expression is computed over a window with a pattern."""
        inside = (each for each in nodes(node) if each is not node)
        return self.window_of(node) is None and any(self.window_of(each) is not None for each in inside)

    # -- what is computed -----------------------------------------------------------------------------------------

    def _use(self, node: Node, clause: Node, window: Window, select: Node) -> dict[str, str]:
        """Put a column of a clause in the place of what is computed over its window; gives what that is for people."""
        over = f" OVER {window.name or '(...)'}"
        if node["class"] == "COLUMN_REF":
            column, name = self._measure(node, clause)
            shown = name + over
        elif node["type"] not in _OF_FRAMES:
            node.update(start="UNBOUNDED_PRECEDING", end="CURRENT_ROW_RANGE", start_expr=None)
            return {}
        else:
            whole = " ".join(extent(node, self.cutting.text).split())
            name = shown = whole if window.name else f"{node['function_name']}(...){over}"
            column = f"{clause['prefix']} f{len(clause['measures'])}"
            value = _Function(self, node, clause["alias"]).measure()
            is_aggregate = node["type"] == "WINDOW_AGGREGATE"
            clause["measures"].append(
                {
                    "expression": value,
                    "name": column,
                    "column": column,
                    "is_function": True,
                    "is_aggregate": is_aggregate,
                    "query_location": node["query_location"],
                }
            )
        if any(each is node for each in select["select_list"]):
            node["alias"] = node["alias"] or name
        location = {name: node[name] for name in ("query_location", "query_location_length")}
        become(node, {"class": "COLUMN_REF", "type": "COLUMN_REF", **location, "column_names": [column]})
        return {column: shown}

    def _measure(self, node: Node, clause: Node) -> tuple[str, str]:
        """The column of a measure, and its name."""
        use = self.found.uses[int(node["column_names"][0][2:])]
        name = self._token(use.measure).value
        known = [each["name"] for each in clause["measures"] if not each.get("is_function")]
        found = next((each for each in clause["measures"] if each["name"].lower() == name.lower()), None)
        if found is None:
            raise self.error(f"no measure {name!r} in window {clause['name']}; {did_you_mean(name, known)}", node)
        return found["column"], found["name"]

    def _reader(self, window: Window) -> ClauseText:
        """What is between the parentheses of a window."""
        return ClauseText(self.cutting, WINDOW, window.open + 1, window.last)

    def _token(self, number: int) -> Token:
        return tokens(self.cutting.text)[number]

    def error(self, message: str, node: Node) -> SqlError:
        """An error at a node."""
        text = self.cutting.text
        return SqlError(message, text=text, position=characters(text, node["query_location"]))


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of windows over a match, as an expression of a measure."""

    putting: _Putting
    node: Node
    alias: str

    def measure(self) -> Node:
        node = self.node
        arguments = copy.deepcopy(node["arguments"])
        for each in nodes([arguments, node["filter_expr"], node["arg_orders"]]):
            _unqualified(each, frozenset([self.alias.lower()]))
        kind = _OF_FRAMES[node["type"]]
        if kind == "aggregate" and not node["ignore_nulls"]:
            name = "count_star" if node["function_name"].lower() == "count" and not arguments else node["function_name"]
            return self._call("FUNCTION", name, arguments)
        if kind == "aggregate" or not arguments:
            raise self.putting.error(f"found {node['function_name']} of other arguments than a value", node)
        place = self._place(arguments)
        if node["ignore_nulls"]:
            return self._listed(arguments[0]["expression"], place)
        offset = self.putting.cutting.parser.expression(str(abs(place) - 1))
        name = "last" if place < 0 else "first"
        return self._call(CALL, name, [arguments[0], {"name": "", "expression": offset}])

    def _place(self, arguments: list[Node]) -> int:
        """Which value of the match it is, from 1 on, or from -1 on from the end."""
        kind = _OF_FRAMES[self.node["type"]]
        if kind != "nth":
            return 1 if kind == "first" else -1
        literal: dict[str, Any] = arguments[1]["expression"].get("literal", {}) if len(arguments) == 2 else {}
        if literal.get("kind") != "INTEGER" or int(literal["text"]) < 1:
            raise self.putting.error("found nth_value without the number of a row; expected one from 1 on", self.node)
        return int(literal["text"])

    def _call(self, class_: str, name: str, arguments: list[Node]) -> Node:
        node = self.node
        call = self.putting.cutting.parser.expression("f(x)")
        call.update({each: node[each] for each in ("query_location", "query_location_length", "distinct")})
        call.update(
            {"class": class_, "function_name": name, "qualified_name": {"path": [name]}, "arguments": arguments}
        )
        call["filter"] = node["filter_expr"]
        call["order_bys"]["orders"] = node["arg_orders"]
        return call

    def _listed(self, value: Node, place: int) -> Node:
        """The value of some place among those that are not NULL."""
        call = self.putting.cutting.parser.expression(f"list_extract(list(x) FILTER (WHERE x IS NOT NULL), {place})")
        for each in [each for each in nodes(call) if each.get("class") == "COLUMN_REF"]:
            become(each, copy.deepcopy(value))
        return call


def _names(table: Node) -> list[str]:
    """The names of the relations of a join, in lower case."""
    if table["type"] == "JOIN":
        return [*_names(table["left"]), *_names(table["right"])]
    return [str(table.get("alias") or table.get("table_name") or "").lower()]


def _unqualified(node: Node, tables: frozenset[str]) -> None:
    """Take the name of a table off that of a column."""
    if (
        node.get("class") == "COLUMN_REF"
        and len(node["column_names"]) > 1
        and node["column_names"][0].lower() in tables
    ):
        del node["column_names"][0]
