"""``EXPLAIN``: by which way each stream is answered, why not by a faster one, and what that takes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tidelog.model.times.interval import Interval
from tidelog.plan.answers import bounds
from tidelog.sql.clauses.operation import Operation, milliseconds
from tidelog.sql.query import Query
from tidelog.sql.reading.dataset import Relation


def explain(query: Query, *, analyze: bool = False) -> str:
    """What a statement does with its streams, by estimate; with ``analyze`` it is run, and told what it took."""
    if not analyze:
        lines = [line for operation in query.operations.values() for line in _clause(operation)]
        with query.database.mutex:  # texts are printed for it
            lines += [line for name, relation in query.relations.items() for line in _expected(name, relation)]
        with query.opened() as running:
            plan = running.relation.explain()
        return "\n".join([*lines, plan.rstrip()])
    began = time.perf_counter()
    rows = query.arrow().num_rows
    spent = time.perf_counter() - began
    lines = [line for operation in query.operations.values() for line in (*_clause(operation), *_took(operation))]
    lines += [line for name, relation in query.relations.items() for line in _seen(name, relation)]
    planned = f"planned in {query.planned * 1000:.1f} ms, with what the index was asked for"
    return "\n".join([*lines, planned, f"{rows:,} rows in {spent * 1000:.1f} ms"])


def _clause(operation: Operation) -> Iterator[str]:
    yield f"{operation.title}: {operation.way}"
    for reason in operation.reasons:
        yield f"  {reason}"


def _took(operation: Operation) -> Iterator[str]:
    """What it took to get the rows of a clause, beside what was expected."""
    estimate = "" if operation.expected is None else f", estimated {milliseconds(operation.expected)}"
    yield f"  took {milliseconds(operation.spent)} of processors{estimate}: {operation.rows:,} rows"


def _shown(name: str) -> str:
    return name.partition(" ")[2]


def _expected(name: str, relation: Relation) -> Iterator[str]:
    yield f"{_shown(name)}: from {relation.way}"
    if not relation.is_indexed:
        within = relation.within.bounds.intersect(relation.confined())
        found = [bounds(stream.snapshot, stream.options, within) for stream in relation.streams]
        rows = sum(each[2] for each in found if each is not None)
        yield f"  times {_interval(relation, within)}: at most {rows:,} events" + _blocks(relation, rows)
        for condition in (relation.where, relation.hint):
            if condition is not None:
                yield f"  reads only what may satisfy {condition}"
    for reason in relation.reasons:
        yield f"  {reason}"


def _blocks(relation: Relation, rows: int) -> str:
    return f" in about {-(-rows // relation.stream.options.leaf_rows):,} blocks"


def _seen(name: str, relation: Relation) -> Iterator[str]:
    yield f"{_shown(name)}: from {relation.way}"
    for reading in relation.readings:
        columns = ", ".join(reading.columns)
        spent = f"in {reading.seconds * 1000:.1f} ms"
        yield f"  read {reading.rows:,} events of {reading.counters.leaves:,} blocks, columns {columns}, {spent}"
        yield f"  times {_interval(relation, reading.times.bounds)}"
        if reading.where is not None:
            yield f"  where {reading.where}"
        if reading.hint is not None:
            yield f"  left out what cannot satisfy {reading.hint}"
    for reason in relation.reasons:
        yield f"  {reason}"


def _interval(relation: Relation, interval: Interval) -> str:
    clock = relation.stream.snapshot.layout.schema.clock
    start = "the beginning" if interval.start is None else clock.format(interval.start)
    end = "the end" if interval.end is None else clock.format(interval.end)
    return f"from {start} to {end}"
