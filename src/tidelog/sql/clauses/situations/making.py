"""``SITUATIONS`` and ``DERIVE`` of a statement as relations: what the operator makes of the rows of their input."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.operators.replaying import replay
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.inputs import read_input
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.clauses.situations.resolving import resolve
from tidelog.sql.text.tree import Node


def make_situations(clause: Node, scope: Scope, context: Context) -> Operation:
    """The relation of a clause."""
    word = clause["word"]
    time = clause["time"]
    if time is not None and time.get("class") != "COLUMN_REF":
        raise context.refuse(f"found what is no column behind ORDER BY of {word}; expected that of the time", time)
    side = read_input(clause["input"], scope.ctes, context, time)
    found = resolve(clause, side.schema, side.time, context)
    names = {name: name for name in found.columns}
    if side.relation is not None:
        side.relation.way = f"the events, for {word}"

    def run() -> Iterator[pa.RecordBatch]:
        return replay(found.make(), [side.rows(names)])

    way = "rows in order of time through one pass"
    return Operation(word, found.make().output.schema, run, way, work=Work(found.make, lambda: [side.selected(names)]))
