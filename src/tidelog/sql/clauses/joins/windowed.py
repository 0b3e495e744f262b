"""``FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => ..., LEFT => ..., RIGHT => ...)``: joins of two windows.

It gives the columns of both, and the later time, ``time``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa

from tidelog.expr import ExpressionError
from tidelog.model.errors import TidelogError
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Shape
from tidelog.operators.join.pairs import Path
from tidelog.operators.join.partners import JoinWindow, RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.replaying import replay
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.inputs import read_input
from tidelog.sql.clauses.joins.names import Names
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.errors import SqlError
from tidelog.sql.planning.blocks import conjuncts
from tidelog.sql.text.tree import Node, Parser, nodes

TIME: Final = "time"
"""The column with the later time, unless another name is given."""


@dataclass(frozen=True)
class Condition:
    """What pairs have to satisfy: equal keys, and the rest, as a text about the columns of the join."""

    by: dict[str, str]
    where: str | None


def make_window_join(clause: Node, scope: Scope, context: Context) -> Operation:
    """The join of a clause; the selection around names columns as they are called in it from now on."""
    sides = [read_input(each["relation"], scope.ctes, context, each["time"]) for each in clause["inputs"]]
    check_sides(sides[0].alias, sides[1].alias, clause, context.refuse)
    names = Names(sides)
    wanted = names.wanted(scope.select)
    shapes = [side.shape(own) for side, own in zip(sides, wanted, strict=True)]
    condition = condition_of(clause["on"], names.resolved, shapes, context.parser, context.refuse)
    constants = Constants(context.parser, context.connect, partial(_refuse, context.refuse))
    make = join_maker(clause, shapes, condition, constants, context.refuse)
    operator = make()

    def run() -> Iterator[pa.RecordBatch]:
        return replay(make(), [side.rows(own) for side, own in zip(sides, wanted, strict=True)])

    names.put_columns(scope.select, clause["alias"], context.refuse, context.parser)
    work = Work(make, lambda: [side.selected(own) for side, own in zip(sides, wanted, strict=True)])
    reasons = _reasons(condition, operator.path)
    return Operation("WINDOW_JOIN", operator.output.schema, run, _way(condition, operator.path), reasons, work=work)


def check_sides(left: str, right: str, node: Node, refuse: Refuse) -> None:
    """Raise unless both sides of a join have names of their own."""
    if left.lower() == right.lower():
        raise refuse(f"found two sides called {left!r}; give them names, by AS", node)


def _way(condition: Condition, path: Path) -> str:
    """How a join is computed, for people."""
    keys = f" ({', '.join(condition.by)})" if condition.by else ""
    rest = f", then {condition.where}" if condition.where is not None else ""
    return f"replay of both sides in order, partners among {path.value}{keys}{rest}"


def _reasons(condition: Condition, path: Path) -> list[str]:
    """Why partners are not found faster."""
    if path is not Path.ROWS:
        return []
    if condition.where is None:
        return ["all pairs are wanted, as there is no condition (ON => ...)"]
    return [
        "not by keys, because no column of one side has to equal one of the other of the same type; not by values, "
        "because nothing bounds the difference or the sum of two numbers"
    ]


def join_maker(
    clause: Node, shapes: Sequence[Shape], condition: Condition, constants: Constants, refuse: Refuse
) -> Callable[[], WindowJoin]:
    """What makes the operator. Raises what ``refuse`` makes for arguments that do not fit."""
    windows = [window_of(each, shapes[0].clock, constants) for each in clause["windows"]]
    literal = clause["complete_only"] is not None and constants.flag(clause["complete_only"])
    time = clause["time"] or TIME
    if any(time.lower() == name.lower() for shape in shapes for name in shape.schema.names):
        raise refuse(f"found a column {time!r} beside the later time; name that, by TIME => another name", clause)

    def make() -> WindowJoin:
        return WindowJoin(
            shapes[0],
            shapes[1],
            (windows[0], windows[1]),
            condition.by,
            condition.where,
            literal=literal,
            time=time,
        )

    try:
        make()
    except ExpressionError as error:
        raise refuse(str(error).partition("\n")[0], clause["on"]) from None
    except TidelogError as error:
        if isinstance(error, SqlError):
            raise
        raise refuse(str(error).partition("\n")[0], clause) from None
    return make


def window_of(node: Node, clock: Clock, constants: Constants) -> JoinWindow:
    """The window of one side."""
    if node["rows"]:
        return RowWindow(constants.count(node["size"]), 1 if node["slide"] is None else constants.count(node["slide"]))
    size, slide = node["size"], node["slide"]
    ticks = constants.ticks(constants.length(size, clock), clock, size)
    moves = 1 if slide is None else constants.ticks(constants.length(slide, clock), clock, slide)
    for node, length in ((size, ticks), (slide, moves)):
        if length < 1:
            raise constants.refuse("of a window below one tick of the clock; expected more", node)
    return TimeWindow(ticks, moves)


Resolve: TypeAlias = Callable[[Node], tuple[int, list[str]] | None]
"""Tells of a column its side, 0 or 1, and its name in the join, with what is behind it; None for what is no column."""


def condition_of(
    node: Node | None, resolve: Resolve, shapes: Sequence[Shape], parser: Parser, refuse: Refuse
) -> Condition:
    """A condition on pairs. Raises what ``refuse`` makes for columns that no side has, or both have."""
    by: dict[str, str] = {}
    rest: list[str] = []
    for part in conjuncts(node):
        pair = equal_columns(part, resolve, shapes)
        if pair is not None and pair[0] not in by:
            by[pair[0]] = pair[1]
            continue
        own = copy.deepcopy(part)
        for each in nodes(own):
            if each.get("class") == "SUBQUERY":
                raise refuse("found a query in the condition of a join; expected the columns of both sides", each)
            if each.get("class") == "COLUMN_REF":
                found = resolve(each)
                if found is None:
                    told = ".".join(each["column_names"])
                    raise refuse(f"found {told} in the condition of a join, which is no column of one side", each)
                each["column_names"] = found[1]
        rest.append(f"({parser.print_expression(own)})")
    return Condition(by, " AND ".join(rest) or None)


def equal_columns(node: Node, resolve: Resolve, shapes: Sequence[Shape]) -> tuple[str, str] | None:
    """The columns, by their names in the join, that a condition says are equal; the left one first."""
    if node["type"] != "COMPARE_EQUAL" or any(node[each].get("class") != "COLUMN_REF" for each in ("left", "right")):
        return None
    found = [each for each in (resolve(node["left"]), resolve(node["right"])) if each is not None]
    if [len(names) for _, names in found] != [1, 1] or found[0][0] == found[1][0]:
        return None
    (_, left), (_, right) = sorted(found, key=lambda each: each[0])
    types = [shape.schema.field(names[0]).type for shape, names in zip(shapes, (left, right), strict=True)]
    return (left[0], right[0]) if types[0] == types[1] else None


def _refuse(refuse: Refuse, message: str, node: Node) -> Exception:
    return refuse(f"found WINDOW_JOIN {message}", node)
