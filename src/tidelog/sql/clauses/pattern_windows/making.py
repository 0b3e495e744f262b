"""A window with a row pattern as a relation: the rows that it is over, and what is computed over it as columns more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.syntax import Frame
from tidelog.sql.clauses.context import Context, Scope
from tidelog.sql.clauses.grouping import own_nodes
from tidelog.sql.clauses.operation import Operation, Work
from tidelog.sql.clauses.row_pattern.binding import Binding
from tidelog.sql.clauses.row_pattern.making import Source
from tidelog.sql.clauses.row_pattern.queries import answer_queries
from tidelog.sql.clauses.row_pattern.resolving import ready, resolve
from tidelog.sql.text.tree import Node, beginning, nodes

_END: Final = "#end"
"""The column that tells the end of frames."""


def make_pattern_window(node: Node, scope: Scope, context: Context) -> Operation:
    """The relation of a window."""
    _refuse_aggregates(node, scope, context)
    answered = answer_queries(node, scope, context)
    end = node["frame"]["end"]
    varies = isinstance(end, dict) and any(each.get("class") in ("COLUMN_REF", "SUBQUERY") for each in nodes(end))
    source = Source(node, scope, context, more={_END: end} if varies else {}).with_computed_columns()
    frame = _frame(node, source, context, varies=varies)
    query = resolve(node, source.schema, source.keys, context, frame)
    compiled = ready(query, node, context)
    hidden = [*source.computed, *(each.name for each in query.measures)]
    if source.is_stream and SEQUENCE_COLUMN in query.schema.names:
        hidden.append(SEQUENCE_COLUMN)
    _hide(hidden, node, scope, source)
    rows = source.rows(query)
    start = "the first match in the frame of each row" if frame.is_seeking else "a match that begins with each row"
    reasons = [*answered, *source.reasons, f"searched for {start}, by one thread", *compiled.explain]
    work = Work(query, lambda: [source.selected(query)])
    title = f"WINDOW {node['name'] or '(...)'} with a row pattern"
    return Operation(title, query.output, lambda: evaluate(compiled, rows()), source.way, reasons, work=work)


def _refuse_aggregates(node: Node, scope: Scope, context: Context) -> None:
    for each in own_nodes(scope.select):
        if each.get("class") == "FUNCTION" and context.functions.aggregates(each):
            raise context.refuse(
                f"found the aggregate {each['function_name']} beside a window with a row pattern; aggregate in a query "
                "in parentheses, before or after it",
                each,
            )
    for measure in node["measures"]:
        value = measure["expression"]
        if measure.get("is_aggregate") and not context.functions.aggregates(value):
            raise context.refuse(
                f"found {value['function_name']} over a window with a row pattern; expected an aggregate, a function "
                "of windows such as first_value, or a measure",
                measure,
            )


def _frame(node: Node, source: Source, context: Context, *, varies: bool) -> Frame:
    """The frame of the rows, of which perhaps a column tells the end."""
    end, is_seeking = node["frame"]["end"], node["frame"]["is_seeking"]
    if end is None or isinstance(end, int):
        return Frame(end, is_seeking=is_seeking)
    place = beginning(end)
    if varies:
        kind = source.schema.field(_END).type
        if not pa.types.is_integer(kind):
            raise context.refuse(f"found {kind} as the end of a frame; expected a whole number of rows", place)
        return Frame(column=_END, is_seeking=is_seeking)
    text = context.parser.print_expression({**end, "alias": ""})
    binding = Binding(source.schema, context.refuse, context.connect, context.functions.is_own)
    value = binding.constant(text, place)
    if not pa.types.is_integer(value.type) or not value.is_valid or value.as_py() < 0:
        raise context.refuse(f"found {text} FOLLOWING as the end of a frame; expected a whole number of rows", place)
    return Frame(value.as_py(), is_seeking=is_seeking)


def _hide(columns: Iterable[str], node: Node, scope: Scope, source: Source) -> None:
    """Leave columns out of what ``*`` stands for: nobody has given them their names."""
    alias = node["alias"]
    known = {name.lower() for name in source.schema.names}
    for each in own_nodes({**scope.select, "modifiers": []}):  # in which ORDER BY ALL is a *
        what = None
        if each.get("class") == "COLUMN_REF" and [name.lower() for name in each["column_names"]] == [alias.lower()]:
            what = "a whole row" if alias.lower() not in known else None
        elif each.get("class") == "STAR":
            what = "COLUMNS with a condition" if each["expr"] is not None else None
            each["qualified_exclude_list"] += [
                {"catalog": "", "schema": "", "table": alias, "column": name} for name in columns
            ]
        if what is not None:
            raise source.context.refuse(
                f"found {what} beside a window with a row pattern; name the columns instead", each
            )
