"""``a ASOF [NEAREST] [LEFT] JOIN b ON a.k = b.k AND a.ts >= b.ts [TOLERANCE '1 s']``.

Joins of two streams by their times, and those with more than DuckDB knows, are computed by the operator; all others are
left to DuckDB, which takes any of several rows of one time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from tidelog.model.errors import TidelogError
from tidelog.model.times.interval import Interval
from tidelog.operators.base import Shape
from tidelog.operators.join.asof import AsOfJoin, Direction
from tidelog.operators.replaying import replay
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.inputs import push_conditions, read_input
from tidelog.sql.clauses.joins.names import Names
from tidelog.sql.clauses.joins.windowed import check_sides
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.errors import SqlError
from tidelog.sql.planning.blocks import NotSo, conjuncts
from tidelog.sql.text.tree import Node, nodes

_DIRECTIONS: Final = {
    "COMPARE_GREATERTHANOREQUALTO": (Direction.BACKWARD, False),
    "COMPARE_GREATERTHAN": (Direction.BACKWARD, True),
    "COMPARE_LESSTHANOREQUALTO": (Direction.FORWARD, False),
    "COMPARE_LESSTHAN": (Direction.FORWARD, True),
}
"""Where partners are looked for, and whether not at the very time, by how the left time compares to the right one."""
_SWAPPED: Final = dict(zip(_DIRECTIONS, (*list(_DIRECTIONS)[2:], *list(_DIRECTIONS)[:2]), strict=True))
_TABLES: Final = ("BASE_TABLE", "SUBQUERY", "TABLE_FUNCTION")
_LEFT: Final = ("INNER", "LEFT")


@dataclass(frozen=True)
class AsOf:
    """What a join says: times and equal columns, as nodes of the left and the right side."""

    direction: Direction
    strict: bool
    times: tuple[Node, Node]
    equal: Sequence[tuple[Node, Node]]
    hidden: Sequence[str] = ()
    """Columns that both sides have, and that are told once."""


def is_as_of(node: Node) -> bool:
    """Whether a node is an AS-OF join."""
    return bool(node["type"] == "JOIN" and node["ref_type"] == "ASOF")


def is_extended(node: Node) -> bool:
    """Whether more stands beside a join than DuckDB knows."""
    return "nearest" in node


def read_as_of(node: Node, side_of: Callable[[Node], int | None], refuse: Refuse) -> AsOf:
    """What a join says. ``side_of`` tells whether a column is the left (0) or the right one's (1).

    Raises what ``refuse`` makes for other conditions than equal columns and one comparison of times.
    """
    if node["join_type"] not in _LEFT:
        raise refuse(f"found ASOF {node['join_type']} JOIN; expected ASOF JOIN or ASOF LEFT JOIN", node)
    nearest = bool(node.get("nearest"))
    if node["using_columns"]:
        *keys, time = [_columns(name) for name in node["using_columns"]]
        direction = Direction.NEAREST if nearest else Direction.BACKWARD
        return AsOf(direction, False, time, keys, node["using_columns"])
    times: tuple[Node, Node] | None = None
    equal: list[tuple[Node, Node]] = []
    direction, strict = Direction.BACKWARD, False
    for part in conjuncts(node["condition"]):
        kind = part["type"]
        pair = _pair(part, side_of) if kind == "COMPARE_EQUAL" or kind in _DIRECTIONS else None
        if pair is None or (kind in _DIRECTIONS and times is not None):
            raise refuse(
                "found another condition of an AS-OF join than equal columns of both sides and one comparison of "
                "their times, >=, >, <= or <",
                part,
            )
        if kind == "COMPARE_EQUAL":
            equal.append(pair)
            continue
        times = pair
        direction, strict = _DIRECTIONS[kind if pair[0] is part["left"] else _SWAPPED[kind]]
    if times is None:
        raise refuse("found an AS-OF join without a comparison of times; expected one such as a.ts >= b.ts", node)
    return AsOf(Direction.NEAREST if nearest else direction, strict, times, equal)


def _columns(name: str) -> tuple[Node, Node]:
    """A column of both sides."""
    node = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [name]}
    return node, dict(node)


def _pair(node: Node, side_of: Callable[[Node], int | None]) -> tuple[Node, Node] | None:
    """The columns that are compared, the left side's first; None if they are not one of each side."""
    both = node["left"], node["right"]
    if any(each.get("class") != "COLUMN_REF" for each in both):
        return None
    sides = [side_of(each) for each in both]
    if sides == [0, 1]:
        return both
    return (both[1], both[0]) if sides == [1, 0] else None


def as_of_maker(
    node: Node, join: AsOf, shapes: Sequence[Shape], by: Mapping[str, str], constants: Constants, refuse: Refuse
) -> tuple[Callable[[], AsOfJoin], int | None]:
    """What makes the operator, and the tolerance. Raises what ``refuse`` makes for what does not fit."""
    length = node.get("tolerance")
    clock = shapes[0].clock
    tolerance = None if length is None else constants.ticks(constants.length(length, clock), clock, length)
    outer = node["join_type"] == "LEFT"

    def make() -> AsOfJoin:
        return AsOfJoin(shapes[0], shapes[1], by, join.direction, strict=join.strict, tolerance=tolerance, outer=outer)

    try:
        make()
    except TidelogError as error:
        raise refuse(str(error).partition("\n")[0], node) from None
    return make, tolerance


def make_as_of(node: Node, scope: Scope, alias: str, context: Context) -> Operation | None:
    """The join of a node; None if it is left to DuckDB. The selection around names its columns from now on."""
    try:
        return _AsOfClause(node, scope, alias, context).operation()
    except (NotSo, SqlError):
        if is_extended(node):
            raise
        return None


class _AsOfClause:
    def __init__(self, node: Node, scope: Scope, alias: str, context: Context) -> None:
        self._node, self._scope, self._alias, self._context = node, scope, alias, context
        self._tables = node["left"], node["right"]

    def operation(self) -> Operation:
        """The join."""
        node, context = self._node, self._context
        for table in self._tables:
            if table["type"] not in _TABLES:
                raise context.refuse(
                    "found more than a table beside an AS-OF join; expected a stream, a table, or a query in "
                    "parentheses with a name",
                    table,
                )
            if not is_extended(node) and table.get("table_name") not in context.relations:
                raise NotSo("it is not of two streams")
        sides = [read_input(table, self._scope.ctes, context, self._any_time(table)) for table in self._tables]
        check_sides(sides[0].alias, sides[1].alias, node, context.refuse)
        names = Names(sides)
        join = read_as_of(node, lambda each: _side(each, names), context.refuse)
        sides = [
            read_input(table, self._scope.ctes, context, time)
            for table, time in zip(self._tables, join.times, strict=True)
        ]
        if not is_extended(node) and any(side.relation is None for side in sides):
            raise NotSo("it is not by the times of two streams")
        names = Names(sides, join.hidden)
        by = {self._column(left, 0, names): self._column(right, 1, names) for left, right in join.equal}
        wanted = names.wanted(self._scope.select, [*by, *by.values(), *(side.time for side in sides)])
        shapes = [side.shape(own) for side, own in zip(sides, wanted, strict=True)]
        constants = Constants(context.parser, context.connect, partial(_refuse, context.refuse))
        make, tolerance = as_of_maker(node, join, shapes, by, constants, context.refuse)
        # A column that cannot be named leaves the join to DuckDB, with the selection as it was.
        names.put_columns(copy.deepcopy(self._scope.select), self._alias, context.refuse, context.parser)
        self._confine(names, join.direction, tolerance)
        schema = make().output.schema

        def run() -> Iterator[pa.RecordBatch]:
            return replay(make(), [side.rows(own) for side, own in zip(sides, wanted, strict=True)])

        names.put_columns(self._scope.select, self._alias, context.refuse, context.parser)
        way = f"one pass over both sides, {join.direction.value}"
        way += f", by {', '.join(by)}" if by else ""
        for side in sides:
            if side.relation is not None:
                side.relation.way = "the events, for ASOF JOIN"
        work = Work(make, lambda: [side.selected(own) for side, own in zip(sides, wanted, strict=True)])
        return Operation("ASOF JOIN", schema, run, way, work=work)

    def _any_time(self, table: Node) -> Node | None:
        """A column of the condition that is of a table, so that something is its time for the moment."""
        using = self._node["using_columns"]
        if using:
            return _columns(using[-1])[0]
        alias = (table.get("alias") or table.get("table_name") or "").lower()
        for part in conjuncts(self._node["condition"]):
            if part["type"] in _DIRECTIONS:
                for each in nodes(part):
                    names = each.get("column_names", ())
                    if len(names) > 1 and names[0].lower() == alias:
                        return each
        return None

    def _column(self, node: Node, side: int, names: Names) -> str:
        own = names.sides[side].column(node["column_names"][-1])
        if own is None:
            raise self._context.refuse(
                f"there is no column {node['column_names'][-1]!r} of {names.sides[side].alias}", self._node
            )
        return names.by_side[side][own]

    def _confine(self, names: Names, direction: Direction, tolerance: int | None) -> None:
        """Read of the left side only what the selection asks for, and of the right one only what may be a partner.

        Where there are more relations, one that is asked for may have none of these rows.
        """
        select, (left, right) = self._scope.select, [side.relation for side in names.sides]
        if select["from_table"] is not self._node or left is None:
            return
        times = push_conditions(select, self._tables[0], left, self._context, lambda each: _side(each, names) == 0)
        if right is not None:
            start, end = times.start, times.end
            if direction is not Direction.FORWARD:
                start = None if start is None or tolerance is None else start - tolerance
            if direction is not Direction.BACKWARD:
                end = None if end is None or tolerance is None else end + tolerance
            right.within = right.within & Interval(start, end)


def _side(node: Node, names: Names) -> int | None:
    found = names.resolved(node)
    return None if found is None else found[0]


def _refuse(refuse: Refuse, message: str, node: Node) -> Exception:
    return refuse(f"found TOLERANCE {message}", node)
