"""Statements that change the events of a stream: ``INSERT`` and ``DELETE``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from tidelog.model.schema import Schema
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.sql.changing.changes import Changes
from tidelog.sql.changing.clauses import Clauses, is_expression
from tidelog.sql.query import Query
from tidelog.sql.running import stoppable
from tidelog.sql.text.tree import Node

_ROWS: Final = '"rows to insert"'
_BATCH_ROWS: Final = 65_536
_BEFORE: Final = {
    "COMPARE_LESSTHAN": (False, False),
    "COMPARE_LESSTHANOREQUALTO": (False, True),
    "COMPARE_GREATERTHAN": (True, False),
    "COMPARE_GREATERTHANOREQUALTO": (True, True),
}
"""Comparisons by which a column is before something: whether it stands on the right, and whether equal ones count."""
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "(")


def insert(clauses: Clauses, changes: Changes) -> pa.Table:
    """``INSERT INTO``: values, or what is selected."""
    clauses.expect("INSERT", "INTO")
    name = clauses.stream()
    schema = clauses.sources.stream(name, None).snapshot.layout.schema
    columns = ""
    behind = clauses.peek(1)
    if clauses.comes("(") and behind is not None and not behind.says(*_QUERIES):
        columns = _columns(clauses, schema)
    if clauses.accept("BY", "NAME"):
        columns += " BY NAME"
    else:
        clauses.accept("BY", "POSITION")
    if not clauses.comes(*_QUERIES):
        raise clauses.error("expected VALUES, or a SELECT")
    start = clauses.place
    with clauses.placed(start):
        query = clauses.query(start, len(clauses.text))
        with _converted(query, schema, columns) as rows, clauses.blaming(start):
            count = changes.insert(name, rows)
    return pa.table({"count": pa.array([count], pa.int64())})


def _columns(clauses: Clauses, schema: Schema) -> str:
    clauses.expect("(")
    found: list[str] = []
    while True:
        place = clauses.place
        column = clauses.column(schema)
        if column in found:
            raise clauses.wrong(f"found column {column!r} twice; name it once", place)
        found.append(column)
        if clauses.accept(")"):
            return "(" + ", ".join('"' + each.replace('"', '""') + '"' for each in found) + ")"
        clauses.expect(",")


@contextmanager
def _converted(query: Query, schema: Schema, columns: str) -> Iterator[pa.RecordBatchReader]:
    """The rows of a statement as DuckDB would insert them into a table of the columns of a stream.

    It does: into a table of its own, which is in memory, or spilled. So nothing is stored before all of it fits.
    """
    cursor = query.cursor()
    try:
        with query.told():
            cursor.register("columns", schema.arrow.empty_table())
            cursor.execute(f"CREATE TEMP TABLE {_ROWS} AS FROM columns")
            stoppable(cursor, lambda: cursor.execute(f"INSERT INTO {_ROWS} {columns} {_source(query)}"))
            reader = cursor.sql(f"FROM {_ROWS}").to_arrow_reader(_BATCH_ROWS)
        names = schema.arrow.names  # which DuckDB has changed where two differ by case alone
        named = pa.schema([field.with_name(name) for field, name in zip(reader.schema, names, strict=True)])
        batches = (pa.RecordBatch.from_arrays(batch.columns, schema=named) for batch in reader)
        yield pa.RecordBatchReader.from_batches(named, batches)
    finally:
        cursor.close()


def _source(query: Query) -> str:
    """The statement behind INSERT. Values are printed as what is selected of them, and would be taken for one type."""
    node = query.tree["statements"][0]["node"]
    before, behind = "SELECT * FROM (VALUES ", ") AS valueslist"
    is_values = node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "EXPRESSION_LIST"
    if is_values and query.printed.startswith(before) and query.printed.endswith(behind):
        return query.printed[len("SELECT * FROM (") : -len(behind)]
    return query.printed


def delete(clauses: Clauses, changes: Changes) -> pa.Table:
    """``DELETE FROM`` a stream what is before a time."""
    clauses.expect("DELETE", "FROM")
    name = clauses.stream()
    schema = clauses.sources.stream(name, None).snapshot.layout.schema
    expected = f"expected WHERE {schema.time} < and a time"
    if not clauses.accept("WHERE"):
        raise clauses.error(f"{expected}; to delete all events, DROP STREAM and create it again")
    start = clauses.place
    before = "SELECT "
    with clauses.placed(start, before):
        query = clauses.query(start, len(clauses.text), before)
        node = query.tree["statements"][0]["node"]["select_list"][0] if is_expression(query) else {}
        if node.get("type") not in _BEFORE:
            raise clauses.wrong(
                f"{expected}: events are deleted from the oldest one on, and not by anything else", start
            )
        is_right, with_equal = _BEFORE[node["type"]]
        column, value = (node["right"], node["left"]) if is_right else (node["left"], node["right"])
        if not _is_column(column, schema.time, name) or _has_columns(value):
            raise clauses.wrong(
                f"{expected}: events are deleted from the oldest one on, and not by anything else", start
            )
        bound = _bound(query, value, clauses.database.type_of(schema.time_type), with_equal=with_equal)
        if bound is not None and not INT64_MIN < bound < INT64_MAX:
            raise clauses.wrong(
                "found a time without end; to delete all events, DROP STREAM and create it again", start
            )
    if bound is not None:
        changes.delete_before(name, bound)
    told = pa.array([bound], pa.int64()).cast(schema.time_type)
    return pa.table({"deleted_before": told})


def _is_column(node: Node, time: str, stream: str) -> bool:
    if node.get("class") != "COLUMN_REF":
        return False
    *before, last = node["column_names"]
    return last.lower() == time.lower() and [each.lower() for each in before] in ([], [stream.lower()])


def _has_columns(tree: Any) -> bool:
    """Whether an expression depends on an event: names a column, but for those of what it selects itself."""
    if isinstance(tree, list):
        return any(map(_has_columns, tree))
    if not isinstance(tree, dict) or tree.get("class") == "SUBQUERY":
        return False
    return tree.get("class") == "COLUMN_REF" or any(map(_has_columns, tree.values()))


def _bound(query: Query, value: Node, called: str, *, with_equal: bool) -> int | None:
    """The time, in ticks, that exactly those events are before that compare as wanted; None if none does.

    What they are compared with may be finer than the times of the stream, or no time at all: DuckDB says.
    """
    parser = query.database.parser
    statement = {**query.tree, "statements": [_selecting(query.tree["statements"][0], value)]}
    with query.database.mutex:
        text = parser.print(statement).removeprefix("SELECT ")
    cast = f"CAST(({text}) AS {called})"
    cursor = query.cursor()
    try:
        with query.told():
            row = cursor.sql(f"SELECT {cast}, {cast} < ({text}), {cast} > ({text})").to_arrow_table()
    finally:
        cursor.close()
    ticks, is_before, is_behind = (row.column(index).combine_chunks() for index in range(3))
    if not ticks.is_valid()[0].as_py():
        return None
    bound = int(ticks.cast(pa.int64())[0].as_py())
    if is_behind[0].as_py():
        return bound
    return bound + 1 if with_equal or is_before[0].as_py() else bound


def _selecting(statement: Node, value: Node) -> Node:
    return {**statement, "node": {**statement["node"], "select_list": [value]}}
