"""``SITUATIONS`` and ``DERIVE`` of a statement as relations: what the operator makes of the rows of their input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Operator
from tidelog.operators.replaying import replay
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Bound, Instant, Situations
from tidelog.plan.situations import SituationPlan, plan_situations
from tidelog.plan.stretches import NotPruned
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.inputs import Input, push_conditions, read_input
from tidelog.sql.clauses.operation import Operation, Stretch, Work
from tidelog.sql.clauses.row_pattern.pushing import partition_condition
from tidelog.sql.clauses.situations.resolving import Resolved, resolve
from tidelog.sql.text.tree import Node, nodes


def make_situations(clause: Node, scope: Scope, context: Context) -> Operation:
    """The relation of a clause."""
    word = clause["word"]
    time = clause["time"]
    if time is not None and time.get("class") != "COLUMN_REF":
        raise context.refuse(f"found what is no column behind ORDER BY of {word}; expected that of the time", time)
    side = read_input(clause["input"], scope.ctes, context, time, "ORDER BY column")
    found = resolve(clause, side.schema, side.time, context)
    side = side.with_computed(found.computed)
    names = {name: name for name in found.columns}
    operator = found.make()
    reasons: list[str] = []
    plan = _pruned(side, found, word, reasons)
    if plan is None:
        side = _of_fewer_partitions(side, clause, scope, context, reasons)
    known = len(reasons)
    reasons += _orders(operator)

    def run() -> Iterator[pa.RecordBatch]:
        if plan is not None and side.relation is not None:
            yield from plan.batches(side.relation.readings.append)
            return
        own = found.make()
        yield from replay(own, [side.rows(names)])
        reasons[known:] = _orders(own)  # as they were chosen in the end, which EXPLAIN ANALYZE tells

    def times() -> Intervals | None:
        return None if plan is None else plan.read_times()

    return Operation(
        word,
        operator.output.schema,
        run,
        "rows in the order of time, all of them" if plan is None else plan.explained,
        reasons,
        work=Work(found.make, lambda: [replace(side.selected(names), times=times())]),
        stretches=_stretches(found),
    )


def _orders(operator: Operator) -> list[str]:
    """In which order situations are joined, and why, and what else is to be known."""
    return operator.explain if isinstance(operator, SituationsOperator | DeriveOperator) else []


def _pruned(side: Input, found: Resolved, word: str, reasons: list[str]) -> SituationPlan | None:
    """What finds situations by reading only where some may be; None, and a reason, if that is not known."""
    relation = side.relation
    if relation is None:
        return None
    relation.way = f"the events, for {word}"
    if found.computed:
        reasons.append("all rows are read, because what they are partitioned by is computed")
        return None
    try:
        plan = plan_situations(found.query, found.make().inputs[0], relation.stream.snapshot, relation.stream.numbers)
    except NotPruned as reason:
        reasons.append(f"all rows are read, because {reason}")
        return None
    relation.way = f"{plan.explained}, for {word}"
    return plan


def _of_fewer_partitions(side: Input, clause: Node, scope: Scope, context: Context, reasons: list[str]) -> Input:
    """The same without rows of partitions that nobody asks for, as far as that is known."""
    condition = partition_condition(clause, scope)
    if condition is None or (side.relation is None and not side.is_read_by_duckdb):
        return side
    for each in nodes(condition):
        if each.get("class") == "COLUMN_REF":
            each["column_names"] = [side.column(each["column_names"][-1])]
    text = context.parser.print_expression({**condition, "alias": ""})
    reasons.append(f"only partitions with {text}")
    if side.relation is None:
        return side.filtered(text)
    select = {**scope.select, "where_clause": condition}
    push_conditions(select, clause["input"], side.relation, context, lambda _: True)
    return side


def _stretches(found: Resolved) -> list[Stretch]:
    """The columns of a result that tell when situations start and end."""
    query = found.query
    if not isinstance(query, Situations):
        return [Stretch("", "start_time", "end_time", "situation")]
    columns = {each.terms[0]: each.name for each in query.returned if each.text == '"#0"'}
    stretches = []
    for each in query.definitions:
        with suppress(KeyError):  # of those that are not returned nothing can be drawn
            start, end = (columns[Instant(each.name, bound)] for bound in (Bound.START, Bound.END))
            stretches.append(Stretch(each.name, start, end))
    return stretches
