"""Groups of few events that are put together here: DuckDB has nothing to add.

To bind a statement, to be handed a thousand events and to group them takes DuckDB longer than reading them takes us. So
where few events are to be read, and all of a selection is groups, aggregates of these that
:mod:`tidelog.plan.partial` knows, and perhaps a condition on them, all events are reduced at once, to the rows of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr import Predicate
from tidelog.plan.partial.reducer import Reducer, State, state_name
from tidelog.plan.reading import estimate
from tidelog.sql.planning.blocks import Block, NotSo, known_predicate, quoted
from tidelog.sql.planning.calls import Functions, parts
from tidelog.sql.planning.direct import is_same
from tidelog.sql.planning.outline import Outline, outline
from tidelog.sql.planning.reduced import LEAST_ROWS, Parts, groups_of_events, keys_of
from tidelog.sql.planning.selection import described, native_condition, refuse_other_clauses, refuse_other_columns
from tidelog.sql.reading.dataset import Relation
from tidelog.sql.text.tree import Node, nodes

if TYPE_CHECKING:
    import duckdb

_MOST_ROWS: Final = LEAST_ROWS
"""Events that are taken at once."""


@dataclass(frozen=True, slots=True)
class FewGroups:
    """The groups of few events, and what is made of them."""

    relation: Relation
    schema: pa.Schema
    """The columns of the result."""
    _reducer: Reducer
    _where: str | None
    _columns: Mapping[str, tuple[str, State | None, pa.DataType]]
    """Columns by their names: which of the reducer they are made of, and of what type they are to be."""
    _having: Predicate | None
    _outline: Outline

    def rows(self) -> pa.Table | None:
        """The rows of the result; None if DuckDB has to find them."""
        reducer = self._reducer.narrowed(self._reducer.schema.names)
        texts = [] if self._where is None else [self._where]
        events, count = [], 0
        self.relation.readings.clear()
        for batch in self.relation.watched(self.relation.reading(reducer.columns, texts)):
            count += batch.num_rows
            if count > _MOST_ROWS:
                return None
            events.append(batch)
        if not count:
            is_grouped = any(state is None for _, state, _ in self._columns.values())
            return self.schema.empty_table() if is_grouped else None
        found = reducer.reduce(events[0] if len(events) == 1 else _as_one(events), 0)
        if reducer.is_unique:
            return None
        columns = {name: _made(found, *how) for name, how in self._columns.items()}
        groups = pa.table(columns)
        if self._having is not None:
            (batch,) = groups.to_batches()
            groups = groups.filter(pa.array(self._having.mask(batch)))
        return self._outline.rows(groups)


def _as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches, some of which may have strings as dictionaries, as one."""
    if any(batch.schema != batches[0].schema for batch in batches):
        batches = [
            pa.record_batch(
                [pc.dictionary_encode(each) if pa.types.is_string(each.type) else each for each in batch.columns],
                names=batch.schema.names,
            )
            for batch in batches
        ]
    (batch,) = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return batch


def _made(found: pa.RecordBatch, name: str, state: State | None, kind: pa.DataType) -> pa.Array:
    """A column of the result, of what events were reduced to."""
    column = found.column(name)
    if state is not None and state.function == "avg":
        column = pc.divide(column, found.column(f"{name} rows").cast(pa.float64()))
    return column if column.type == kind else column.cast(kind)


def few_groups(
    block: Block, statement: Node, functions: Functions, connect: Callable[[], duckdb.DuckDBPyConnection]
) -> FewGroups:
    """How the groups of a statement are put together. Raises :class:`NotSo` if DuckDB has to do that."""
    select, relation = block.select, block.relation
    if statement is not select or not relation.is_one or relation.end is not None or relation.is_indexed:
        raise NotSo("the statement is more than one selection of one stream")
    refuse_other_clauses(block)
    calls = [node for node in nodes([*parts(block), select["qualify"]]) if functions.aggregates(node)]
    groups = groups_of_events(block, functions)
    if not calls and not groups:
        raise NotSo("there is no aggregate")
    stream = relation.stream
    confined = block.confined()
    rows = estimate(stream.snapshot, relation.within & confined, None)
    if rows > _MOST_ROWS:
        raise NotSo("there are many events")
    where = None if select["where_clause"] is None else native_condition(block, select["where_clause"])
    refuse_other_columns(block, groups, calls)
    wanted = Parts(block, stream.snapshot.layout.stored)
    states = [wanted.state_of(node) for node in calls]
    keys, names = keys_of(block, groups, confined, rows)
    probes = [*(block.text(node) for node in calls), *(f"first({block.text(group)})" for group in groups)]
    titles, _, kinds = described(block, connect, probes)
    reducer = Reducer(stream.time, keys, dict(enumerate(wanted.states)), wanted.stored)
    columns: dict[str, tuple[str, State | None, pa.DataType]] = {}
    places: dict[int, str] = {}
    for at, (node, number, kind) in enumerate(zip(calls, states, kinds, strict=False)):
        places[id(node)] = f"#call {at}"
        columns[f"#call {at}"] = state_name(number), wanted.states[number], kind
    for at, (name, kind) in enumerate(zip(names, kinds[len(calls) :], strict=True)):
        columns[f"#group {at}"] = name, None, kind
    for name, state, kind in columns.values():
        own = reducer.schema.field(name).type
        if not is_same(own, kind) or (state is not None and _is_whole_sum(state, wanted.stored)):
            raise NotSo(f"{kind} is made by DuckDB")

    def column(node: Node) -> str | None:
        at = next((at for at, group in enumerate(groups) if node is group or block.alike(node, group)), None)
        return places.get(id(node)) if at is None else f"#group {at}"

    plain = outline(block, groups, column, titles)
    if plain is None:
        raise NotSo("rows are computed, or ordered, by DuckDB")
    schema = pa.schema([(name, kind) for name, (_, _, kind) in columns.items()])
    having = None if select["having"] is None else _condition(block, select["having"], column, schema)
    relation.way += f", put together in groups by {', '.join(map(block.text, groups))}" if groups else ", put together"
    rows_of = plain.rows(schema.empty_table()).schema
    return FewGroups(relation, rows_of, reducer, None if where is None else str(where), columns, having, plain)


def _is_whole_sum(state: State, stored: pa.Schema) -> bool:
    return state.function in ("sum", "avg") and not pa.types.is_floating(state.type(stored))


def _condition(block: Block, having: Node, column: Callable[[Node], str | None], schema: pa.Schema) -> Predicate:
    """A condition on groups as one on their columns."""

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(each) for each in value]
        if not isinstance(value, dict):
            return value
        name = column(value) if "class" in value else None
        return (
            {key: put(each) for key, each in value.items()} if name is None else block.parser.expression(quoted(name))
        )

    text = block.parser.print_expression(put(having))
    found = known_predicate(text, schema)
    if isinstance(found, str) or not found.expression.node.is_native:
        raise NotSo(f"the condition {block.text(having)} is computed by DuckDB")
    if block.timezone != "UTC" and any(pa.types.is_timestamp(each.type) for each in schema):
        raise NotSo("a condition on groups with times is computed by DuckDB unless the session's zone is UTC")
    return found
