"""Selections whose groups are made by a clause of ours, taken apart.

What is selected consists of expressions of groups and of aggregates. These become columns of another relation, one that
DuckDB, the index or an operator computes; the expressions around them, ``ORDER BY``, ``LIMIT`` and ``QUALIFY`` stay,
and are about its rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.sql.text.tree import LOCATIONS, Node, Parser, nodes, put, same

Refuse = Callable[[str, Node], Exception]
"""Makes an error of a message and the node that it is about."""


class Grouping:
    """A selection that is grouped by one call of a function of ours, and perhaps by keys."""

    def __init__(
        self,
        select: Node,
        functions: tuple[str, ...],
        aggregates: frozenset[str],
        parser: Parser,
        refuse: Refuse,
        *,
        own: Callable[[Node], bool],
        misplaced: Callable[[Node, Refuse], Exception],
    ) -> None:
        """``own`` is true of nodes that are values of groups beside aggregates, and no keys."""
        self.select = select
        self.parser = parser
        self.refuse = refuse
        self._functions = functions
        self._aggregates = aggregates
        self._own = own
        groups = [copy.deepcopy(self._meant(each)) for each in self._group_nodes()]
        found = [each for each in groups if calls(each, *functions)]
        if len(found) != 1:
            raise misplaced(next(each for each in own_nodes(select) if own(each) or calls(each, *functions)), refuse)
        (self.call,) = found
        if len(select["group_sets"]) > 1:
            raise refuse("found several sets of groups; expected one", self.call)
        self.keys = [each for each in groups if each is not self.call]
        """What rows are grouped by besides."""
        self.values: list[Node] = []
        """The aggregates."""

    @property
    def name(self) -> str:
        """The name of the function that makes the groups."""
        return str(self.call["function_name"]).lower()

    @property
    def arguments(self) -> list[Node]:
        """The arguments of the function that makes the groups."""
        return [each["expression"] for each in self.call["arguments"]]

    def _group_nodes(self) -> list[Node]:
        select = self.select
        if select["aggregate_handling"] != "FORCE_AGGREGATES":
            return list(select["group_expressions"])

        def is_computed(item: Node) -> bool:
            return any(calls(node, *self._aggregates) or self._own(node) for node in nodes(item))

        return [each for each in select["select_list"] if not is_computed(each)]

    def _meant(self, group: Node) -> Node:
        """The expression of a group, which may be told by its place or its name."""
        items = self.select["select_list"]
        if group.get("class") == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
            place = int(group["literal"]["text"])
            if not 1 <= place <= len(items):
                raise self.refuse(f"found GROUP BY {place}; there are {len(items)} columns", group)
            return items[place - 1]  # type: ignore[no-any-return]
        if group.get("class") == "COLUMN_REF" and len(group["column_names"]) == 1:
            for item in items:
                # A column comes before the name of an item, but nobody calls a column like the groups made of it.
                named = item.get("alias", "").lower() == group["column_names"][0].lower()
                if named and (calls(item, *self._functions) or self._is_meant(item, group)):
                    return item  # type: ignore[no-any-return]
        return group

    def _is_meant(self, item: Node, group: Node) -> bool:
        """Whether a group that has the name of an item is that item, and no column of that name.

        What is selected from is not known here. It is the item if a column would not do, because the item takes columns
        that are in no group.
        """
        if any(calls(node, *self._aggregates) or self._own(node) for node in nodes(item)):
            return False
        grouped = {name for each in self._group_nodes() if each is not group for name in _column_names(each)}
        return bool(_column_names(item) - grouped - {group["column_names"][0].lower()})

    # -- columns in the place of what is computed --------------------------------------------------------------------

    def lift(self, special: Callable[[Node], bool]) -> None:
        """Put columns in the place of groups and aggregates. ``special`` may do it for others, and says so.

        Items keep their names. Raises for columns that are neither.
        """
        select = self.select
        for item in select["select_list"]:
            item["alias"] = item["alias"] or self._item_name(item)
        names = frozenset(item["alias"].lower() for item in select["select_list"])
        self._lift(select["select_list"], frozenset(), special)
        self._lift(select["qualify"], names, special)
        self._lift(select["modifiers"], names, special)

    def lift_one(self, node: Node, special: Callable[[Node], bool], *, named: bool = False) -> None:
        """Put columns in the place of groups and aggregates in an expression, which may name items if ``named``."""
        items = self.select["select_list"] if named else ()
        self._lift(node, frozenset(each["alias"].lower() for each in items if each["alias"]), special)

    def _lift(self, value: Any, names: frozenset[str], special: Callable[[Node], bool]) -> None:
        if isinstance(value, list):
            for each in value:
                self._lift(each, names, special)
            return
        if not isinstance(value, dict) or value.get("type") == "SELECT_NODE":
            return
        column = self._column(value)
        if column is not None:
            put(value, self.parser.expression(column))
        elif "class" in value and special(value):
            return
        elif value.get("class") == "COLUMN_REF":
            if len(value["column_names"]) > 1 or value["column_names"][0].lower() not in names:
                column = value["column_names"][-1]
                raise self.refuse(f"found column {column!r}, which is neither in GROUP BY nor in an aggregate", value)
        else:
            for each in value.values():
                self._lift(each, names, special)

    def resolve(self, node: Node) -> None:
        """Put items in the place of their names, in an expression that was lifted with them."""
        items = {item["alias"].lower(): item for item in self.select["select_list"]}
        for each in [each for each in nodes(node) if each.get("class") == "COLUMN_REF" and not self._own(each)]:
            if len(each["column_names"]) == 1 and each["column_names"][0].lower() in items:
                put(each, copy.deepcopy(items[each["column_names"][0].lower()]) | {"alias": ""})

    def _item_name(self, item: Node) -> str:
        if item.get("class") == "COLUMN_REF":
            return str(item["column_names"][-1])
        if item.get("class") == "STAR":
            raise self.refuse("found * in a selection with groups; name the columns instead", item)
        return self.parser.print_expression(item)

    def _column(self, node: Node) -> str | None:
        """The column that has the value of a node."""
        if "class" not in node:
            return None
        if same_value(node, self.call):
            return GROUP
        for at, each in enumerate(self.keys):
            if same_value(node, each):
                return key(at)
        if not calls(node, *self._aggregates):
            return None
        for at, known in enumerate(self.values):
            if same(node, known):
                return value(at)
        self.values.append(copy.deepcopy(node))
        return value(len(self.values) - 1)

    def select_from(self, table: Node) -> None:
        """Have the selection select from the relation with the columns."""
        self.select.update(
            from_table=table,
            where_clause=None,
            group_expressions=[],
            group_sets=[],
            aggregate_handling="STANDARD_HANDLING",
            having=None,
            sample=None,
        )

    def text(self, node: Node) -> str:
        """A node as a text."""
        own = copy.deepcopy(node)
        own["alias"] = ""
        return self.parser.print_expression(own)


GROUP = '"#group"'
"""The column of what the function of ours makes."""


def key(at: int) -> str:
    """The column of a key."""
    return f'"#key {at}"'


def value(at: int) -> str:
    """The column of an aggregate."""
    return f'"#value {at}"'


def calls(node: Node, *names: str) -> bool:
    """Whether a node calls one of some functions."""
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in names


def own_nodes(select: Node) -> Iterator[Node]:
    """The nodes of a selection's own expressions, without those of selections inside of them."""
    parts = ("select_list", "group_expressions", "having", "qualify", "modifiers")
    waiting: list[Any] = [select[part] for part in parts]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and each.get("type") != "SELECT_NODE":
            if "type" in each:
                yield each
            waiting += each.values()


def _column_names(node: Node) -> set[str]:
    """What the columns of an expression are called, without their tables."""
    return {each["column_names"][-1].lower() for each in nodes(node) if each.get("class") == "COLUMN_REF"}


def same_value(one: Any, other: Any) -> bool:
    """Whether two nodes say the same, wherever they stand; columns are named with their table, or without it."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.get("class") == other.get("class") == "COLUMN_REF":
            names = [[each.lower() for each in node["column_names"]] for node in (one, other)]
            shorter = min(map(len, names))
            return names[0][-shorter:] == names[1][-shorter:]
        said = [node.keys() - {*LOCATIONS, "alias"} for node in (one, other)]
        return said[0] == said[1] and all(same_value(one[name], other[name]) for name in said[0])
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)
