"""A clause that was read, over an input of known columns, as the query that the matcher takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tidelog.model.errors import TidelogError
from tidelog.operators.rowpattern.compiling import RowPatternQuery, compile_query
from tidelog.operators.rowpattern.conditions.conditions import condition_of
from tidelog.operators.rowpattern.syntax import (
    TIMED_OUT_COLUMN,
    Expression,
    Frame,
    Limits,
    Measure,
    OrderKey,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    counts_matches,
)
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.row_pattern.binding import Binding
from tidelog.sql.clauses.row_pattern.checks import check_clause, names_of
from tidelog.sql.clauses.row_pattern.expressions import Names, Taker
from tidelog.sql.clauses.row_pattern.grammar import pattern_of
from tidelog.sql.clauses.zones import check_zone
from tidelog.sql.text.tree import Node, beginning, nodes

_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400
_LIMITS: Final = {"rows": "match_rows", "states": "states"}


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns that rows are partitioned and ordered by, as the input has them."""

    partition: Sequence[str]
    order: Sequence[str]


def resolve(
    clause: Node,
    schema: pa.Schema,
    keys: Keys,
    context: Context,
    frame: Frame | None = None,
    hidden: Iterable[str] = (),
) -> RowPattern:
    """The query of a clause over rows of a schema, which has its keys; that of a window, if there is a frame.

    ``hidden`` has the columns that the input does not have by itself. Raises for whatever breaks a rule.
    """
    names = names_of(clause, schema, context.refuse)
    check_clause(clause, names, context.refuse)
    _check_keys(keys, schema, clause, context)
    rows = Rows[clause["rows"]]
    binding = Binding(schema, context.refuse, context.connect, context.functions.is_own)
    defines, measures = _expressions(clause, names, binding, context, is_final=rows is Rows.ONE)
    order = tuple(
        OrderKey(name, each["descending"], each["nulls_first"])
        for name, each in zip(keys.order, clause["order"], strict=True)
    )
    used = {*names.used, *keys.partition, *keys.order}
    read = (
        schema
        if rows is not Rows.ONE or frame is not None
        else pa.schema([each for each in schema if each.name in used] or [schema.field(0)])  # which counts the rows
    )
    skip = clause["skip"] or {"kind": Skip.PAST_LAST_ROW.name}
    query = RowPattern(
        read,
        pattern_of(clause["pattern"], names.variables),
        defines,
        measures,
        tuple(dict.fromkeys(keys.partition)),
        order,
        rows,
        Skip[skip["kind"]],
        (names.rows(skip["name"]) or frozenset()) if "name" in skip else frozenset(),
        skip.get("name", ""),
        None if clause["within"] is None else _within(clause, keys, schema, binding, context),
        Strategy[clause["strategy"]],
        clause["all_matches"],
        Limits(**{_LIMITS[kind]: limit for kind, limit in clause["limits"].items()}),
        clause["timeouts"] is not None,
        frame,
        frozenset(hidden),
    )
    if frame is None:
        _check_output(query, clause, context)
    return query


def ready(query: RowPattern, clause: Node, context: Context) -> RowPatternQuery:
    """A query that is ready to run. What the matcher refuses is told at the condition that it is about."""
    try:
        return compile_query(query)
    except TidelogError as error:  # of the matcher, which knows nothing of the statement
        raise context.refuse(str(error).partition("\n")[0], _refused(query, clause)) from None


def _refused(query: RowPattern, clause: Node) -> Node:
    """The first condition that cannot be taken apart; the clause if all can."""
    nodes_of = {each["name"].upper(): each["expression"] for each in clause["defines"]}
    for name, value in query.defines.items():
        try:
            condition_of(query, name, value)
        except TidelogError:
            return beginning(nodes_of[name.upper()])
    return clause


def _expressions(
    clause: Node, names: Names, binding: Binding, context: Context, *, is_final: bool
) -> tuple[dict[str, Expression], tuple[Measure, ...]]:
    """The conditions and the measures; ``is_final`` if these are about whole matches."""
    aggregates = context.functions.aggregates
    condition = Taker(names, context.parser, context.refuse, aggregates, is_define=True, is_final=False)
    measure = Taker(names, context.parser, context.refuse, aggregates, is_define=False, is_final=is_final)
    taken = [condition.take(each["expression"]) for each in clause["defines"]]
    taken += [measure.take(each["expression"]) for each in clause["measures"]]
    for each in taken[: len(clause["defines"])] if clause["all_matches"] else ():
        for term, node in each.terms.items():
            if counts_matches(Expression("", (term,))):
                raise context.refuse(
                    "found MATCH_NUMBER() in DEFINE together with ALL MATCHES, which are numbered when they are found; "
                    "expected it in MEASURES alone",
                    node,
                )
    for each in taken:
        check_zone(each.node, binding.schema, context, "row pattern")
    typed = binding.typed(taken)
    defines = {}
    for each, (value, kind) in zip(clause["defines"], typed, strict=False):
        if not (pa.types.is_boolean(kind) or value.text == "NULL"):
            raise context.refuse(
                f"found a condition of {each['name']} of type {kind}; expected one that is true or false", each
            )
        defines[names.variables[each["name"].upper()]] = value
    rest = typed[len(clause["defines"]) :]
    measures = [
        Measure(each.get("column", each["name"]), *found, each.get("is_function", False))
        for each, found in zip(clause["measures"], rest, strict=True)
    ]
    return defines, tuple(measures)


def _check_keys(keys: Keys, schema: pa.Schema, clause: Node, context: Context) -> None:
    """Raise for keys that rows cannot be told apart by."""
    named = [*zip(keys.partition, clause["partition"], strict=True)]
    named += zip(keys.order, (each["expression"] for each in clause["order"]), strict=True)
    for name, node in named:
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise context.refuse(
                f"found a key of type {kind}; expected one that is neither a list nor a struct", beginning(node)
            )
    for each in clause["order"]:
        if each["expression"].get("class") == "CONSTANT":
            raise context.refuse(
                "found an order by what is the same for all rows; expected a column, by its name", each["expression"]
            )


def _check_output(query: RowPattern, clause: Node, context: Context) -> None:
    """Raise for columns that would come out under one name."""
    taken = [name.lower() for name in query.output.names]
    if not taken:
        raise context.refuse("found neither MEASURES nor PARTITION BY, so that no column comes out", clause)
    if query.with_timeouts and taken.count(TIMED_OUT_COLUMN) > 1:
        raise context.refuse(
            f"found another column {TIMED_OUT_COLUMN} beside that of EMIT TIMEOUTS; give it another name",
            clause["timeouts"],
        )
    for each in clause["measures"]:
        if taken.count(each["name"].lower()) > 1:
            whose = "a column of the partition" if query.rows is Rows.ONE else "a column of the input"
            raise context.refuse(
                f"found measure {each['name']}, which is {whose} that comes out as well; give it another name", each
            )


def _within(clause: Node, keys: Keys, schema: pa.Schema, binding: Binding, context: Context) -> int:
    """The longest difference of the first key between the rows of a match, in its own ticks."""
    node = clause["within"]
    start = beginning(node)
    if not keys.order:
        raise context.refuse("found WITHIN without ORDER BY; it is measured on the first column of the order", start)
    kind = schema.field(keys.order[0]).type
    if any(each.get("class") in ("COLUMN_REF", "SUBQUERY") for each in nodes(node)):
        raise context.refuse("found WITHIN of something that varies; expected a constant", start)
    text = context.parser.print_expression({**node, "alias": ""})
    value = binding.constant(text, start)
    if pa.types.is_integer(kind):
        if not pa.types.is_integer(value.type) or not value.is_valid or value.as_py() < 0:
            raise context.refuse(
                f"found WITHIN {text} for an order of integers; expected an integer that is not negative", start
            )
        return int(value.as_py())
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise context.refuse(
            f"found WITHIN for rows ordered by {keys.order[0]!r} of type {kind}; expected a time or an integer as the "
            "first column of ORDER BY",
            start,
        )
    if pa.types.is_string(value.type):
        value = binding.constant(f"CAST({text} AS INTERVAL)", start)
    if not pa.types.is_interval(value.type) or not value.is_valid:
        raise context.refuse(
            f"found WITHIN {text} for an order of times; expected a length such as INTERVAL 5 MINUTES", start
        )
    months, days, nanos = value.as_py()
    if months:
        raise context.refuse("found WITHIN of months, which are not of one length; expected days or less", start)
    length = days * _DAY * 10**9 + nanos
    if length < 0:
        raise context.refuse("found WITHIN of a length below zero", start)
    if pa.types.is_date(kind):
        return int(length // (_DAY * 10**9) if pa.types.is_date32(kind) else length // 10**6)
    return int(length // (10**9 // _TICKS[kind.unit]))
