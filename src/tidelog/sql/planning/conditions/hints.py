"""Conditions that are known from the text and that DuckDB does not push into a scan: what they rule out is not read.

They stay in the statement, so nothing is lost if fewer rows are left out than could be. DuckDB pushes comparisons of
plain columns with constants, but not those of floats, nor ``LIKE``, nor a column that is a condition itself, nor most
functions of time. Conditions are followed through joins, subqueries, CTEs that are mentioned once, and ``UNION ALL``,
as far as leaving a row out below changes nothing above but by that row.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa

from tidelog.sql.planning.blocks import Block, NotSo, conjuncts
from tidelog.sql.planning.calls import Functions
from tidelog.sql.planning.conditions.join_keys import give_keys, keys_of
from tidelog.sql.planning.conditions.monotone import times_of
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node, Parser, nodes, put

_LEAST_LEAVES: Final = 4
"""Leaves of a stream below which all of it is read as fast."""
_OPAQUE: Final = ("SUBQUERY", "WINDOW", "LAMBDA", "STAR", "PARAMETER")
_KEPT_SIDES: Final = {
    "INNER": (True, True),
    "LEFT": (True, False),
    "RIGHT": (False, True),
    "SEMI": (True, False),
    "ANTI": (True, False),
}
"""Of which sides of a join rows that a condition rejects can be left out before it."""

_MATCHED_SIDES: Final = {
    "INNER": (True, True),
    "LEFT": (False, True),
    "RIGHT": (True, False),
    "SEMI": (True, True),
    "ANTI": (False, True),
}
"""Of which sides rows that do not satisfy the condition of the join itself can be left out before it."""

Give = Callable[[Block, Node], None]
"""Has the relation of a block leave out what need not be read."""

Output = tuple[str, Node]
"""A column of a selection: its name in lower case, and what it is inside."""


@dataclass(slots=True)
class Hints:
    """What the conditions of a statement say of its mentions of streams."""

    tree: Node
    relations: Mapping[str, Relation]
    tables: Mapping[str, Any]
    parser: Parser
    timezone: str
    functions: Functions
    _ctes: dict[str, Node] = field(default_factory=dict)
    _defined: frozenset[str] = frozenset()
    """The names of all CTEs."""

    def give(self) -> None:
        """Have relations leave out what need not be read."""
        if not any(is_worth(relation) for relation in self.relations.values()):
            return
        found = list(nodes(self.tree))
        mentioned = Counter(node["table_name"].lower() for node in found if node["type"] == "BASE_TABLE")
        defined = [each for node in found for each in (node.get("cte_map") or {}).get("map", ())]
        names = Counter(each["key"].lower() for each in defined)
        self._defined = frozenset(names)
        for each in defined:
            name = each["key"].lower()
            if names[name] == 1 and mentioned[name] == 1 and not each["value"]["aliases"]:
                self._ctes[name] = _query(each["value"])
        for select in [node for node in found if node["type"] == "SELECT_NODE"]:
            for condition in conjuncts(select["where_clause"]):
                self._follow(list(_items(select["from_table"], True)), condition)
            for join in _joins(select["from_table"]):
                left, right = _MATCHED_SIDES.get(join["join_type"], (False, False))
                sides = list(_items(join["left"], left)), list(_items(join["right"], right))
                for condition in conjuncts(join["condition"]):
                    self._follow([*sides[0], *sides[1]], condition)
                for one, other in self._equal(join):
                    self._follow_keys(sides[0], sides[1], one, other)
                    self._follow_keys(sides[1], sides[0], other, one)

    def _equal(self, join: Node) -> Iterator[tuple[Node, Node]]:
        """Columns of the left and of the right side of a join that have to be equal."""
        column = self.parser.expression("x")
        for name in join["using_columns"]:
            yield {**column, "column_names": [name]}, {**column, "column_names": [name]}
        for each in conjuncts(join["condition"]):
            if each.get("type") == "COMPARE_EQUAL":
                both = each["left"], each["right"]
                if all(side.get("class") == "COLUMN_REF" for side in both):
                    yield both
                    yield both[1], both[0]

    def _follow_keys(
        self, tables: Sequence[tuple[Node, bool]], streams: Sequence[tuple[Node, bool]], of_table: Node, column: Node
    ) -> None:
        """Follow a column that has to be equal to one of a table to the stream that it is of."""
        at = self._item(of_table, tables)
        item = None if at is None else tables[at][0]
        if item is None or item["type"] != "BASE_TABLE" or item["column_name_alias"]:
            return
        name = item["table_name"]
        if name in self.relations or name.lower() in self._defined:
            return
        values = keys_of(self.tables.get(name), of_table["column_names"][-1])
        if values is not None:
            self._follow(streams, column, partial(give_keys, values))

    def _follow(self, items: Sequence[tuple[Node, bool]], condition: Node, give: Give | None = None) -> None:
        """Follow a condition to the one part of a FROM clause that it is about, if rows of it can be left out.

        Or a column, for which ``give`` does what is to be done.
        """
        if any(node.get("class") in _OPAQUE for node in nodes(condition)):
            return
        about = {self._item(node, items) for node in nodes(condition) if node.get("class") == "COLUMN_REF"}
        if len(about) != 1 or (at := about.pop()) is None or not items[at][1]:
            return
        item = items[at][0]
        if item["sample"] or item["column_name_alias"]:
            return
        if item["type"] == "BASE_TABLE" and (relation := self.relations.get(item["table_name"])) is not None:
            block = Block({"from_table": item}, relation, self.parser, self.timezone)
            if is_worth(relation):
                (give or _give)(block, condition)
        elif (query := self._inside(item)) is not None:
            self._below(query, condition, give)

    def _below(self, query: Node, condition: Node, give: Give | None) -> None:
        """Follow a condition on the columns of a query into it."""
        outputs = self._outputs(query)
        if outputs is None:
            return
        names = Counter(name for name, _ in outputs)
        places = {name: at for at, (name, _) in enumerate(outputs) if names[name] == 1}
        parts = query["children"] if query["type"] == "SET_OPERATION_NODE" else [query]
        for part in parts:
            own = self._outputs(part)
            if own is None or len(own) != len(outputs) or not self._is_transparent(part):
                continue
            moved = {"condition": copy.deepcopy(condition)}
            for node in [each for each in nodes(moved) if each.get("class") == "COLUMN_REF"]:
                at = places.get(node["column_names"][-1].lower())
                if at is None:
                    break
                put(node, own[at][1])
            else:
                if part["type"] == "SELECT_NODE":
                    self._follow(list(_items(part["from_table"], True)), moved["condition"], give)

    def _inside(self, item: Node) -> Node | None:
        """The query that a part of a FROM clause stands for, if it is mentioned there alone."""
        if item["type"] == "SUBQUERY":
            return _query(item["subquery"])
        return self._ctes.get(item["table_name"].lower()) if item["type"] == "BASE_TABLE" else None

    def _item(self, reference: Node, items: Sequence[tuple[Node, bool]]) -> int | None:
        """Which part of a FROM clause a column is of; None if that is not certain."""
        *before, name = (each.lower() for each in reference["column_names"])
        if len(before) > 1:
            return None
        if before:
            found = [at for at, (item, _) in enumerate(items) if _alias(item) == before[0]]
            return found[0] if len(found) == 1 else None
        columns = [self._columns(item) for item, _ in items]
        if any(each is None for each in columns):
            return None
        found = [at for at, each in enumerate(columns) if each is not None and name in each]
        return found[0] if len(found) == 1 else None

    def _columns(self, item: Node) -> set[str] | None:
        if item["type"] == "BASE_TABLE" and not item["column_name_alias"]:
            name = item["table_name"]
            known = (
                self.relations[name].schema
                if name in self.relations
                else getattr(self.tables.get(name), "schema", None)
            )
            if isinstance(known, pa.Schema):
                return {each.lower() for each in known.names}
        query = self._inside(item)
        outputs = None if query is None else self._outputs(query)
        return None if outputs is None else {name for name, _ in outputs}

    def _outputs(self, query: Node) -> list[Output] | None:
        """The columns of a query; None if they are not known."""
        if query["type"] == "SET_OPERATION_NODE":
            is_plain = query["setop_type"] == "UNION" and query["setop_all"] and not query["modifiers"]
            return self._outputs(query["children"][0]) if is_plain and query.get("children") else None
        if query["type"] != "SELECT_NODE":
            return None
        found: list[Output] = []
        for item in query["select_list"]:
            if item.get("class") == "STAR":
                all_columns = self._all_columns(query, item)
                if all_columns is None:
                    return None
                found += all_columns
            else:
                name = item["alias"] or (item["column_names"][-1] if item.get("class") == "COLUMN_REF" else "")
                found.append((name.lower(), item))
        return found

    def _all_columns(self, query: Node, star: Node) -> list[Output] | None:
        """What ``*`` stands for, if that is all columns of one thing."""
        changes = ("exclude_list", "replace_list", "rename_list", "expr", "columns")
        items = list(_items(query["from_table"], True))
        if any(star[each] for each in changes) or len(items) != 1 or items[0][0]["column_name_alias"]:
            return None
        hidden = {each["column"].lower() for each in star["qualified_exclude_list"]}
        item = items[0][0]
        if item["type"] == "BASE_TABLE" and item["table_name"] in self.relations:
            names = self.relations[item["table_name"]].schema.names
        else:
            inside = self._inside(item)
            outputs = None if inside is None else self._outputs(inside)
            if outputs is None:
                return None
            names = [name for name, _ in outputs]
        column = self.parser.expression("x")
        return [(each.lower(), {**column, "column_names": [each]}) for each in names if each.lower() not in hidden]

    def _is_transparent(self, select: Node) -> bool:
        """Whether each row of a selection is made of one row below, and of nothing else."""
        if select["type"] != "SELECT_NODE":
            return False
        clauses = ("group_expressions", "having", "qualify", "sample")
        if any(select[each] for each in clauses) or select["aggregate_handling"] != "STANDARD_HANDLING":
            return False
        if any(each["type"] != "ORDER_MODIFIER" for each in select["modifiers"]):
            return False
        return not any(
            node.get("class") in ("WINDOW", "SUBQUERY")
            or self.functions.aggregates(node)
            or (node.get("class") == "FUNCTION" and node["function_name"].lower() == "unnest")
            for node in nodes(select["select_list"])
        )


def _query(value: Node) -> Node:
    """The query in a CTE or a subquery, whose parts are called by different names."""
    for name in ("query_node", "node", "query"):
        inner = value.get(name)
        if isinstance(inner, dict):
            return _query(inner) if "type" not in inner else inner
    return {"type": ""}


def _alias(item: Node) -> str:
    return str(item["alias"] or item.get("table_name", "")).lower()


def _items(table: Node, kept: bool) -> Iterator[tuple[Node, bool]]:
    """The parts of a FROM clause, each with whether its rows can be left out before joins."""
    if table["type"] != "JOIN":
        yield table, kept
        return
    left, right = _KEPT_SIDES.get(table["join_type"], (False, False))
    if table["ref_type"] not in ("REGULAR", "CROSS", "NATURAL") or table.get("ranking_expression"):
        left, right = left and table["ref_type"] == "ASOF", False
    yield from _items(table["left"], kept and left)
    yield from _items(table["right"], kept and right)


def _joins(table: Node) -> Iterator[Node]:
    """The joins of a FROM clause that have a condition, and match rows by nothing else."""
    if table["type"] == "JOIN":
        if table["ref_type"] == "REGULAR" and not table.get("ranking_expression"):
            yield table
        yield from _joins(table["left"])
        yield from _joins(table["right"])


def is_worth(relation: Relation) -> bool:
    """Whether a relation has so many events that it matters what is read."""
    if relation.is_indexed or relation.end is not None:  # an end has rows that satisfy all of the condition
        return False
    rows = sum(part.rows for stream in relation.streams for part in stream.snapshot.parts)
    return rows >= _LEAST_LEAVES * relation.stream.options.leaf_rows


def _give(block: Block, condition: Node) -> None:
    """Have a relation leave out rows that do not satisfy a condition of its columns."""
    if _is_pushed(block, condition):
        return
    try:
        found = block.condition(condition)
    except NotSo:
        found = None
    relation = block.relation
    if found is not None and _is_of_floats(block, condition):
        relation.add_condition(str(found))
    elif found is not None and found.prunes:
        relation.add_hint(str(found))
    elif (times := times_of(block, condition)) is not None:
        relation.within = relation.within & times[0]


def _is_of_floats(block: Block, node: Node) -> bool:
    """Whether a condition compares a column of floats with a constant."""
    sides = [each for name in ("left", "right", "input", "lower", "upper") if (each := node.get(name)) is not None]
    columns = [block.column(each) for each in sides if each.get("class") == "COLUMN_REF"]
    if node.get("class") not in ("COMPARISON", "BETWEEN") or len(columns) != 1 or columns[0] is None:
        return False
    others = [each for each in sides if each.get("class") != "COLUMN_REF"]
    is_float = pa.types.is_floating(block.relation.schema.field(columns[0]).type)
    return is_float and not any(each.get("class") == "COLUMN_REF" for each in nodes(others))


def _is_pushed(block: Block, node: Node) -> bool:
    """Whether DuckDB pushes a condition itself."""
    kind = node.get("class")
    if kind == "CONJUNCTION":
        return all(_is_pushed(block, each) for each in node["children"])
    if kind == "OPERATOR" and node["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        return block.column(node["children"][0]) is not None
    if kind == "OPERATOR" and node["type"] == "COMPARE_IN":
        first, *others = node["children"]
        return block.column(first) is not None and not any(each.get("class") == "COLUMN_REF" for each in nodes(others))
    if kind not in ("COMPARISON", "BETWEEN") or "DISTINCT" in node["type"]:
        return False
    sides = [each for name in ("left", "right", "input", "lower", "upper") if (each := node.get(name)) is not None]
    columns = [block.column(each) for each in sides if each.get("class") == "COLUMN_REF"]
    inside = [each for each in nodes(sides) if each.get("class") == "COLUMN_REF"]
    if len(columns) != 1 or columns[0] is None or len(inside) != 1:
        return False
    is_float = pa.types.is_floating(block.relation.schema.field(columns[0]).type)
    return not is_float or node["type"] == "COMPARE_EQUAL"
