"""Expressions of DuckDB's plans as Spark SQL. What is not known is refused, at its place in the user's text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.spark.sql.binding import Bound
from tidelog.spark.sql.expressions import lists, moments, numbers, texts
from tidelog.spark.sql.expressions.aggregates import Aggregate, Order, aggregate
from tidelog.spark.sql.expressions.calls import Argument, Call
from tidelog.spark.sql.expressions.casts import cast
from tidelog.spark.sql.expressions.constants import spark_constant, value_of
from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.types import Type, Unwritable, type_of
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node

FUNCTIONS: Final = {**numbers.FUNCTIONS, **texts.FUNCTIONS, **moments.FUNCTIONS}
"""Functions that are written for Spark; others are refused."""

_COMPARISONS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_BOOLEAN: Final = Type("BOOLEAN")
_RANKS: Final = {
    "WINDOW_ROW_NUMBER": "row_number()",
    "WINDOW_RANK": "rank()",
    "WINDOW_RANK_DENSE": "dense_rank()",
    "WINDOW_PERCENT_RANK": "percent_rank()",
    "WINDOW_CUME_DIST": "cume_dist()",
}
_BOUNDS: Final = {
    "UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING",
    "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
    "CURRENT_ROW_RANGE": "CURRENT ROW",
    "CURRENT_ROW_ROWS": "CURRENT ROW",
}


_BY_SORT_KEY: Final = {"arg_min_null": "first", "arg_max_null": "last"}
"""What DuckDB makes of aggregates with an order."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of what an expression is about."""

    name: str
    type: Type


Columns = Sequence[Column]


class Writer:
    """Writes the expressions of one statement."""

    def __init__(self, bound: Bound, zone: str, tools: Tools) -> None:
        self._bound = bound
        self._zone = zone
        self._tools = tools

    def refuse(self, what: str, node: Node) -> SqlError:
        """The error for something that is not written for Spark."""
        return SqlError(
            f"found {what}, which cannot be computed on Spark with the meaning it has in DuckDB; write it in another "
            "way, or ask store.sql",
            text=self._bound.text,
            position=self._bound.place(node),
        )

    def type(self, node: Node) -> Type:
        """The type of an expression."""
        if node["expression_class"] == "BOUND_CONSTANT":
            return type_of(node["value"]["type"])
        return type_of(node["return_type"]) if "return_type" in node else _BOOLEAN

    def write(self, node: Node, columns: Columns) -> str:
        """An expression about some columns."""
        try:
            return self._written(node, columns)
        except Unwritable as reason:
            raise self.refuse(str(reason), node) from None

    def _written(self, node: Node, columns: Columns) -> str:
        what, kind = node["expression_class"], node["type"]
        inside: list[Node] = node.get("children", [])
        if what == "BOUND_REF":
            return columns[int(node["index"])].name
        if what == "BOUND_CONSTANT":
            return spark_constant(*value_of(node))
        if what == "BOUND_CONJUNCTION":
            sign = " AND " if kind == "CONJUNCTION_AND" else " OR "
            return "(" + sign.join(self.write(each, columns) for each in inside) + ")"
        if what == "BOUND_CASE":
            return self._case(node, columns)
        if what == "BOUND_OPERATOR":
            return self._operator(kind, node, columns)
        if what == "BOUND_FUNCTION":
            if kind == "OPERATOR_CAST":
                return self._cast(node, columns)
            if kind.startswith("COMPARE_"):
                return self._compared(kind, inside, columns)
            return self._called(node, columns)
        raise Unwritable(f"an expression of the kind {what.removeprefix('BOUND_').lower()}")

    def _case(self, node: Node, columns: Columns) -> str:
        cases = "".join(
            f" WHEN {self.write(each['when_expr'], columns)} THEN {self.write(each['then_expr'], columns)}"
            for each in node["case_checks"]
        )
        return f"CASE{cases} ELSE {self.write(node['else_expr'], columns)} END"

    def _operator(self, kind: str, node: Node, columns: Columns) -> str:
        texts = [self.write(each, columns) for each in node["children"]]
        if kind == "OPERATOR_NOT":
            return f"(NOT {texts[0]})"
        if kind == "OPERATOR_IS_NULL":
            return f"({texts[0]} IS NULL)"
        if kind == "OPERATOR_IS_NOT_NULL":
            return f"({texts[0]} IS NOT NULL)"
        if kind == "OPERATOR_COALESCE":
            return f"coalesce({', '.join(texts)})"
        if kind in ("COMPARE_IN", "COMPARE_NOT_IN"):
            self._refuse_unlike(node["children"])
            return f"({texts[0]} {'NOT ' if 'NOT' in kind else ''}IN ({', '.join(texts[1:])}))"
        raise Unwritable(kind.removeprefix("OPERATOR_").replace("_", " "))

    def _refuse_unlike(self, nodes: Sequence[Node]) -> None:
        types = [self.type(each) for each in nodes]
        for each in types:
            if each.id in ("LIST", "STRUCT") or each.spark is None:
                raise Unwritable(f"a comparison of {each.name}")
            is_alike = (
                each.id == types[0].id
                or {each.spark, types[0].spark} == {each.spark}
                or "NULL" in (each.id, types[0].id)
            )
            if not is_alike:
                raise Unwritable(f"a comparison of {types[0].name} with {each.name}")

    def _compared(self, kind: str, inside: Sequence[Node], columns: Columns) -> str:
        self._refuse_unlike(inside)
        one, other = (self.write(each, columns) for each in inside)
        return self.comparison(kind, one, other)

    def comparison(self, kind: str, one: str, other: str) -> str:
        """A comparison of two texts."""
        if kind == "COMPARE_NOT_DISTINCT_FROM":
            return f"({one} <=> {other})"
        if kind == "COMPARE_DISTINCT_FROM":
            return f"(NOT ({one} <=> {other}))"
        if kind not in _COMPARISONS:
            raise Unwritable(kind.removeprefix("COMPARE_").replace("_", " "))
        return f"({one} {_COMPARISONS[kind]} {other})"

    def _cast(self, node: Node, columns: Columns) -> str:
        (inner,) = node["children"]
        is_try = bool(node.get("function_data", {}).get("try_cast"))
        text = self.write(inner, columns)
        return cast(text, self.type(inner), self.type(node), self._zone, is_try=is_try, tools=self._tools)

    def _called(self, node: Node, columns: Columns) -> str:
        name = str(node["qname"]["path"][-1])
        inside: list[Node] = node.get("children", [])
        if any(each["expression_class"] == "BOUND_LAMBDA" for each in inside):
            return self._with_lambda(name, node, columns)
        has_lists = name == "list_value" or any(self.type(each).id == "LIST" for each in inside)
        written = (lists.FUNCTIONS.get(name) if has_lists else None) or FUNCTIONS.get(name)
        if written is None:
            raise Unwritable(f"the function {name}")
        return written(self._call(name, node, inside, columns))

    def _call(self, name: str, node: Node, inside: Sequence[Node], columns: Columns) -> Call:
        arguments = [self.argument(each, columns) for each in inside]
        return Call(name, arguments, self.type(node), self._zone, self._tools, node.get("function_data") or {})

    def _with_lambda(self, name: str, node: Node, columns: Columns) -> str:
        """A function with a lambda, whose columns are its parameters, the last one first, and then what it captures."""
        rows, function, *others = node["children"]
        kind = lists.element(self.type(rows))
        count = int(function["parameter_count"])
        parameters = [self._tools.name() for _ in range(count)]
        is_reduction = name in lists.REDUCTIONS
        has_start = is_reduction and bool(node["function_data"].get("has_initial"))
        start = self.write(others.pop(0), columns) if has_start else None
        if count != 2 if is_reduction else count > 2:
            raise Unwritable(f"{name} with a lambda of {count} parameters")
        own = [Column(each, kind) for each in parameters]
        if not is_reduction and count == 2:
            own[1] = Column(f"CAST({parameters[1]} + 1 AS BIGINT)", Type("BIGINT"))
        captured = [Column(self.write(each, columns), self.type(each)) for each in others]
        body = self.write(function["lambda_expr"], [*reversed(own), *captured])
        call = self._call(name, node, [rows], columns)
        if is_reduction:
            return lists.reduced(call, start, parameters, body)
        if name not in lists.TRANSFORMS and name not in lists.FILTERS:
            raise Unwritable(f"the function {name}")
        return lists.transformed(name, call.texts[0], parameters, body)

    def argument(self, node: Node, columns: Columns) -> Argument:
        """What a function is called with."""
        is_constant = node["expression_class"] == "BOUND_CONSTANT"
        value = value_of(node)[1] if is_constant else None
        if is_constant and self.type(node).id == "INTERVAL" and value is not None:
            return Argument("an interval", self.type(node), True, value)  # whoever takes it asks for its value
        return Argument(self.write(node, columns), self.type(node), is_constant, value)

    # -- aggregates and windows ---------------------------------------------------------------------------------

    def orders(self, told: Sequence[Node], columns: Columns) -> list[Order]:
        """By what rows are ordered."""
        found = []
        for each in told:
            kind = self.type(each["expression"])
            if kind.id in ("LIST", "STRUCT"):
                raise self.refuse(f"an order by {kind.name}", each["expression"])
            text = self.write(each["expression"], columns)
            found.append(
                Order(text, kind, each["type"] == "DESCENDING", "FIRST" in each["null_order"].replace("_", " "))
            )
        return found

    def aggregate(self, node: Node, columns: Columns) -> str:
        """An aggregate of groups."""
        try:
            name, inside = str(node["qname"]["path"][-1]), node.get("children", [])
            told = (node.get("order_bys") or {}).get("orders", [])
            if name in _BY_SORT_KEY and len(inside) == 2 and _is_call(inside[1], "create_sort_key"):
                name, inside, told = _BY_SORT_KEY[name], inside[:1], _sort_key(inside[1])
            orders = self.orders(told, columns)
            return aggregate(
                Aggregate(
                    name,
                    [self.argument(each, columns) for each in inside],
                    self.type(node),
                    node.get("aggregate_type") == "DISTINCT",
                    orders,
                    self.write(node["filter"], columns) if "filter" in node else None,
                )
            )
        except Unwritable as reason:
            raise self.refuse(str(reason), node) from None

    def window(self, node: Node, columns: Columns) -> str:
        """A function over a window."""
        try:
            return self._window(node, columns)
        except Unwritable as reason:
            raise self.refuse(str(reason), node) from None

    def _window(self, node: Node, columns: Columns) -> str:
        kind = node["type"]
        parts = [self.write(each, columns) for each in node.get("partitions", [])]
        orders = self.orders(node.get("orders", []), columns)
        if node.get("exclude_clause", "NO_OTHER") != "NO_OTHER":
            raise Unwritable("EXCLUDE in a window")
        if node.get("distinct") or node.get("arg_orders"):
            raise Unwritable("DISTINCT or ORDER BY inside of a function over a window")
        clauses = [f"PARTITION BY {', '.join(parts)}"] if parts else []
        clauses += [f"ORDER BY {', '.join(each.sql for each in orders)}"] if orders else []
        name = kind.removeprefix("WINDOW_").lower()
        plain = f" OVER ({' '.join(clauses)})"
        inside = [self.argument(each, columns) for each in node.get("children", [])]
        result = self.type(node).spark
        ignored = " IGNORE NULLS" if node.get("ignore_nulls") else ""
        if "filters" in node and kind != "WINDOW_AGGREGATE":
            raise Unwritable(f"{name} with a FILTER over a window")
        if kind in _RANKS or kind in ("WINDOW_NTILE", "WINDOW_LAG", "WINDOW_LEAD"):
            if not orders:
                raise Unwritable(f"{name} over a window without ORDER BY")
            if kind in _RANKS:
                return f"CAST({_RANKS[kind]}{plain} AS {result})"
            if kind == "WINDOW_NTILE":
                if not inside[0].is_constant or not inside[0].value:
                    raise Unwritable("ntile of a number that is no constant")
                return f"CAST(ntile({int(inside[0].value)}){plain} AS {result})"
            return self._neighbour(name, node, inside, plain, ignored)
        over = f" OVER ({' '.join([*clauses, self._frame(node, bool(orders), columns)])})"
        if kind in ("WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE", "WINDOW_NTH_VALUE"):
            if not orders:
                raise Unwritable(f"{name} over a window without ORDER BY")
            if kind == "WINDOW_NTH_VALUE":
                if not inside[1].is_constant or not inside[1].value or inside[1].value < 1:
                    raise Unwritable("nth_value of a number that is no constant from 1 on")
                return f"nth_value({inside[0].text}, {int(inside[1].value)}){ignored}{over}"
            return f"{name}({inside[0].text}){ignored}{over}"
        if kind != "WINDOW_AGGREGATE":
            raise Unwritable(f"{name} over a window")
        function = str(node["qname"]["path"][-1])
        condition = self.write(node["filters"], columns) if "filters" in node else None
        return aggregate(Aggregate(function, inside, self.type(node), False, (), condition, over))

    def _neighbour(self, name: str, node: Node, inside: Sequence[Argument], over: str, ignored: str) -> str:
        number = "1"
        told: list[Node] = node.get("children", [])
        if len(inside) > 1:
            if not inside[1].is_constant or inside[1].value is None:
                raise Unwritable(f"{name} by a number that is no constant")
            number = str(int(inside[1].value))
        default = ""
        if len(told) > 2:
            if not inside[2].is_constant:
                raise Unwritable(f"{name} with a default that is no constant")
            default = f", CAST({inside[2].text} AS {self.type(node).spark})"
        return f"{name}({inside[0].text}, {number}{default}){ignored}{over}"

    def _frame(self, node: Node, is_ordered: bool, columns: Columns) -> str:
        start, end = str(node["start"]), str(node["end"])
        is_rows = "ROWS" in start or "ROWS" in end
        if "GROUPS" in start + end:
            raise Unwritable("GROUPS in a window")
        if not is_ordered and not is_rows:
            if (start, end) in (
                ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE"),
                ("UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING"),
            ):
                return ""
            raise Unwritable("a window with a RANGE and without ORDER BY")
        if not is_ordered and not {start, end} <= {"UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING"}:
            raise Unwritable("a window with ROWS and without ORDER BY")
        bounds = [self._bound_of(each, node.get(f"{where}_expr")) for where, each in (("start", start), ("end", end))]
        return f"{'ROWS' if is_rows else 'RANGE'} BETWEEN {bounds[0]} AND {bounds[1]}"

    def _bound_of(self, told: str, expression: Node | None) -> str:
        if told in _BOUNDS:
            return _BOUNDS[told]
        if expression is None or expression["expression_class"] != "BOUND_CONSTANT" or not told.endswith("ROWS"):
            raise Unwritable("a window whose bounds are no numbers of rows")
        side = "PRECEDING" if "PRECEDING" in told else "FOLLOWING"
        return f"{int(value_of(expression)[1])} {side}"


def _is_call(node: Node, name: str) -> bool:
    return bool(node["expression_class"] == "BOUND_FUNCTION" and node.get("qname", {}).get("path", [""])[-1] == name)


def _sort_key(node: Node) -> list[Node]:
    """The orders of a sort key, which has their expressions and their ways in turn."""
    expressions, ways = node["children"][::2], node["children"][1::2]
    found = []
    for expression, way in zip(expressions, ways, strict=True):
        said = str(value_of(way)[1]).upper()
        kind = "DESCENDING" if "DESC" in said else "ASCENDING"
        found.append({"expression": expression, "type": kind, "null_order": said})
    return found
