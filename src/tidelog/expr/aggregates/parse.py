"""From SQL text to calls of aggregate functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.aggregates import named, names
from tidelog.aggregates.binding import missing
from tidelog.expr.aggregates.bindings import user_call
from tidelog.expr.aggregates.builtin import ALIASES, BUILT_IN
from tidelog.expr.aggregates.calls import AggregateCall, UserCall
from tidelog.expr.errors import ExpressionError
from tidelog.expr.expression import Expression
from tidelog.expr.parsing.binder import Binder, not_too_deep
from tidelog.expr.tree import Node
from tidelog.expr.values.types import (
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    NULL,
    is_numeric,
    sql_name,
)
from tidelog.model.errors import did_you_mean
from tidelog.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

_NAMES = (*BUILT_IN, *ALIASES)

_PLAIN_CALL: Final = re.compile(
    r" *([a-z_][a-z0-9_]*)\( *(?:(\*|[a-z_][a-z0-9_]*)|\"([a-z_][a-z0-9_]*)\") *\) *", re.ASCII | re.IGNORECASE
)
_LANGUAGE: Final = """
all alter and any as between case cast columns connect_by_root create cross current_catalog current_date
current_role current_schema current_time current_timestamp current_user distinct drop else except exists
extract false fetch for force from glob grant group having ilike inner insert install intersect interval
into join lambda lateral like limit localtime localtimestamp map not notnull null on only or order outer
partitioned_by positional prior qualify regexp returning revoke rlike rollback select session_user
summarize tablesample then true try_cast uncache union unnest using when where with xor
"""
_WORDS: Final = frozenset(_LANGUAGE.split())
"""Words that mean something else than a column of that name to sqlglot, or may."""


def parse_aggregate(
    text: str, schema: Schema | pa.Schema, time: str = "", absent: Mapping[str, str] | None = None
) -> AggregateCall | UserCall:
    """The call that ``text`` says, e.g. ``sum(price * volume) FILTER (WHERE symbol = 'TIDE')``.

    ``time`` is the column of event times, which some user-defined aggregates need. ``absent`` are the ids, by their
    names, of those that a stream has and whose code is not here: :class:`NotFoundError` says where it is. Raises
    :class:`ExpressionError` for what is no call of a known aggregate function.
    """
    with not_too_deep(text):
        return _parsed(text, schema, time, absent)


def _parsed(
    text: str, schema: Schema | pa.Schema, time: str, absent: Mapping[str, str] | None
) -> AggregateCall | UserCall:
    plain = _plain_call(text, schema)
    if plain is not None:
        return plain
    from sqlglot import exp

    from tidelog.expr.parsing.grammar import translate
    from tidelog.expr.parsing.syntax import read

    source = read(text)
    binder = Binder(source, schema)
    where = None
    node = call = source.node
    if isinstance(node, exp.Filter):
        condition = node.expression.this
        where, call = Expression(binder.fitted(translate(binder, condition), BOOLEAN, condition)), node.this
    if not isinstance(call, exp.Anonymous):
        raise binder.error("expected a call of an aggregate function, e.g. avg(price)", call)
    name = call.name.lower()  # which may stand between quotes
    function = ALIASES.get(name, name)
    if function not in BUILT_IN:
        kind = named(function)
        if kind is not None:
            arrow = schema.arrow if isinstance(schema, Schema) else schema
            return user_call(binder, kind, call, where, arrow, time or getattr(schema, "time", ""))
        if absent and function in absent:
            raise missing(absent[function])
        known = (*_NAMES, *names())
        raise binder.error(f"there is no aggregate function {call.name!r}; {did_you_mean(name, known)}", call)
    argument = _argument(binder, function, call)
    argument = _fitted(binder, function, argument, call)
    return _call(function, argument, where)


def _call(function: str, argument: Node | None, where: Expression | None) -> AggregateCall:
    aggregate = BUILT_IN[function]([] if argument is None else [argument.type])
    return AggregateCall(function, None if argument is None else Expression(argument), where, aggregate)


def _plain_call(text: str, schema: Schema | pa.Schema) -> AggregateCall | None:
    """What sqlglot would make of a text such as ``count(*)`` or ``avg(price)``, without loading it; None for any other.

    Most questions are of this kind, and loading sqlglot takes longer than answering them. Whatever is not certain, and
    whatever is wrong, is left to sqlglot.
    """
    match = _PLAIN_CALL.fullmatch(text)
    if match is None:
        return None
    name, inner, is_quoted = match[1].lower(), match[2] or match[3], match[2] is None
    function = ALIASES.get(name, name)
    if function not in BUILT_IN:
        return None
    binder = Binder(text, schema)
    argument: Node | None = None
    if inner != "*":
        if (inner.lower() in _WORDS and not is_quoted) or not binder.has_column(inner):
            return None
        try:
            argument = binder.column(inner, None)
            if argument.type == INTERVAL:
                return None
            argument = _fitted(binder, function, argument, None)
        except ExpressionError:
            return None
    elif function != "count":
        return None
    return _call(function, argument, None)


def _argument(binder: Binder, function: str, call: exp.Expression) -> Node | None:
    from sqlglot import exp

    from tidelog.expr.parsing.grammar import translate

    arguments = call.expressions
    if function == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return None
    if len(arguments) != 1:
        raise binder.error(f"{function} takes one argument, found {len(arguments)}", call)
    if isinstance(arguments[0], exp.Distinct):
        raise binder.unsupported("DISTINCT in an aggregate", call)
    if isinstance(arguments[0], exp.Order):
        raise binder.unsupported("ORDER BY in an aggregate", call)
    return translate(binder, arguments[0])


def _fitted(binder: Binder, function: str, argument: Node | None, call: exp.Expression | None) -> Node | None:
    """The argument as the function takes it."""
    if argument is None or function in ("count", "first", "last"):
        return argument
    if function in ("min", "max"):
        if argument.type == INTERVAL:
            raise binder.unsupported(f"{function} of INTERVAL", call)
        return argument
    numeric = is_numeric(argument.type) or argument.type == NULL or (function == "sum" and argument.type == BOOLEAN)
    if not numeric:
        message = f"there is no {function}({sql_name(argument.type)}); expected a number. Perhaps add a cast"
        raise binder.error(message, call) from None
    return argument if function in ("sum", "avg") else binder.fitted(argument, DOUBLE, call)
