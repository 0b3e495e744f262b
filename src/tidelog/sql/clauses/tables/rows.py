"""``FROM TUMBLE(...)``, ``HOP`` and ``SESSION`` as they are: each row once for every window that it is in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from tidelog.model.errors import TidelogError, did_you_mean
from tidelog.operators.base import Operator, Shape
from tidelog.operators.replaying import replay
from tidelog.operators.window.assigning import COLUMNS, SessionRows, WindowRows
from tidelog.operators.window.frames import Frames
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.inputs import push_conditions, read_input
from tidelog.sql.clauses.joins.names import Names
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.clauses.tables.reading import window_call
from tidelog.sql.clauses.window_arguments import Arguments
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node, Parser

_WHY: Final = "not by aggregates of windows, because "


@dataclass
class _Call:
    """The call in GROUP BY that means the same windows."""

    call: Node
    parser: Parser
    refuse: Refuse

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(self.call["function_name"])

    def text(self, node: Node) -> str:
        """A node as a text."""
        own = copy.deepcopy(node)
        own["alias"] = ""
        return self.parser.print_expression(own)


def make_window_rows(clause: Node, scope: Scope, context: Context) -> Operation:
    """The rows of a clause with their windows."""
    side = read_input(clause["inputs"][0], scope.ctes, context, clause["time"])
    names = Names([side])
    keys = [_key(each, side.schema.names, context.refuse) for each in clause["keys"]]
    wanted = names.wanted(scope.select, [*keys, side.time])[0]
    shape = side.shape(wanted)
    make = rows_maker(clause, shape, keys, context)
    schema = make().output.schema
    if side.relation is not None:
        side.relation.way = f"the events, for {clause['word']}"
        if scope.select["from_table"] is clause and clause["word"] != "SESSION":
            push_conditions(
                scope.select,
                clause["inputs"][0],
                side.relation,
                context,
                lambda each: side.column(each["column_names"][-1]) is not None,
            )

    def run() -> Iterator[pa.RecordBatch]:
        return replay(make(), [side.rows(wanted)])

    reason = clause.get("reason")
    return Operation(
        clause["word"],
        schema,
        run,
        "each row in order, once for every window",
        [] if reason is None else [f"{_WHY}{reason}"],
        work=Work(make, lambda: [side.selected(wanted)]),
    )


def rows_maker(clause: Node, shape: Shape, keys: Sequence[str], context: Context) -> Callable[[], Operator]:
    """What makes the operator. Raises what the context's ``refuse`` makes for arguments that do not fit."""
    own = _Call(window_call(clause, context.parser), context.parser, context.refuse)
    taken = [name for name in COLUMNS if name in shape.schema.names]
    if taken:
        raise context.refuse(f"found a column {taken[0]!r} beside that of windows; give it another name", clause)
    try:
        kind = Arguments(own, context.connect).kind(shape.clock)
        if kind.gap is not None:
            make: Callable[[], Operator] = partial(SessionRows, shape, kind.gap, keys)
        else:
            frames = kind.frames
            assert isinstance(frames, Frames)
            make = partial(WindowRows, shape, frames)
        make()
    except SqlError:
        raise
    except TidelogError as error:  # of the operator, which knows nothing of the statement
        raise context.refuse(f"{clause['word']}: {str(error).partition(chr(10))[0]}", clause) from None
    return make


def _key(node: Node, names: Sequence[str], refuse: Refuse) -> str:
    name = node["column_names"][-1]
    found = next((each for each in names if each.lower() == name.lower()), None)
    if found is None:
        raise refuse(f"there is no column {name!r}; {did_you_mean(name, names)}", node)
    return found
