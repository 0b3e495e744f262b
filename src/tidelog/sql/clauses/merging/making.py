"""``FROM LOGICAL_MERGE(...)``: the operator, and its rows of what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from tidelog.model.errors import TidelogError, did_you_mean
from tidelog.operators.base import Shape
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.options import MergeOptions
from tidelog.operators.merge.ports import Input
from tidelog.operators.replaying import replay
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.inputs import read_input
from tidelog.sql.clauses.merging.reading import WORD
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node


def make_merge(clause: Node, scope: Scope, context: Context) -> Operation:
    """The merge of a clause. What is there is merged whole: whatever one input has comes out."""
    sides = [read_input(each["relation"], scope.ctes, context, each["time"]) for each in clause["inputs"]]
    stored = next((side for side in sides if not side.is_read_by_duckdb), sides[0])
    sides = [side.in_zones_of(stored) if side.is_read_by_duckdb else side for side in sides]
    first = Shape(sides[0].schema, sides[0].time)
    names = [
        same_names(Shape(side.schema, side.time), first, each["relation"], context.refuse)
        for side, each in zip(sides, clause["inputs"], strict=True)
    ]
    shapes = [side.shape(own) for side, own in zip(sides, names, strict=True)]
    constants = Constants(context.parser, context.connect, partial(_refuse, context.refuse))
    make = merge_maker(clause, shapes, constants, context.refuse, delayed=False)
    operator = make()
    for side in sides:
        if side.relation is not None:
            side.relation.way = f"the events, for {WORD}"

    def run() -> Iterator[pa.RecordBatch]:
        return replay(make(), [side.rows(own) for side, own in zip(sides, names, strict=True)])

    work = Work(make, lambda: [side.selected(own) for side, own in zip(sides, names, strict=True)])
    way = f"{len(sides)} inputs by {operator.algorithm.name}, for {operator.algorithm.text}"
    return Operation(WORD, operator.output.schema, run, way, work=work)


def same_names(shape: Shape, first: Shape, node: Node, refuse: Refuse) -> dict[str, str]:
    """The columns of an input by their names in the first one, in its order; raises unless it has just these."""
    own = {name.lower(): name for name in shape.schema.names}
    found = {}
    for field in first.schema:
        name = shape.time if field.name == first.time else own.get(field.name.lower())
        if name is None:
            raise refuse(
                f"found no column {field.name!r}, which the first input has; {did_you_mean(field.name, own.values())}",
                node,
            )
        if shape.schema.field(name).type != field.type:
            raise refuse(
                f"found column {name!r} of type {shape.schema.field(name).type}; expected {field.type}, as of the "
                "first input: cast it, by a query in parentheses",
                node,
            )
        found[name] = field.name
    more = [name for name in shape.schema.names if name not in found]
    if more:
        raise refuse(f"found a column {more[0]!r}, which the first input does not have", node)
    return found


def merge_maker(
    clause: Node, shapes: Sequence[Shape], constants: Constants, refuse: Refuse, *, delayed: bool
) -> Callable[[], MergeOperator]:
    """What makes the operator. Raises what ``refuse`` makes for options that do not fit.

    ``delayed``: rows arrive, and inputs that are farther behind than the delay are not waited for.
    """
    options = clause["options"]
    delay = None
    if "delay" in options:
        node, clock = options["delay"], shapes[0].clock
        delay = constants.ticks(constants.length(node, clock, least=0), clock, node)
    values = {name: constants.value(node) for name, node in options.items() if name != "delay"}
    key = clause["key"]
    columns = None if key is None else [_column(each, shapes[0].schema, key, refuse) for each in key["names"]]
    at = next(iter(options.values()), key or clause)

    def make() -> MergeOperator:
        asked = MergeOptions.of(key=columns, **values)
        operator = asked.make([Input(str(number), shape) for number, shape in enumerate(shapes, 1)])
        operator.patience = delay if delayed else None
        return operator

    try:
        make()
    except SqlError:
        raise
    except TidelogError as error:
        raise refuse(f"{WORD}: {str(error).partition(chr(10))[0]}", at) from None
    return make


def _column(name: str, schema: pa.Schema, node: Node, refuse: Refuse) -> str:
    for each in schema.names:
        if each.lower() == name.lower():
            return str(each)
    raise refuse(f"there is no column {name!r}; {did_you_mean(name, schema.names)}", node)


def _refuse(refuse: Refuse, message: str, node: Node) -> Exception:
    return refuse(f"found {WORD} {message}", node)
