"""Calls of aggregate functions: their text, their types, and their evaluation as states that can be merged.

A state is a tuple of plain Python values and Arrow scalars. It is never changed: :meth:`AggregateCall.add` and
:meth:`AggregateCall.merge` give a new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.aggregates import named, names
from tidelog.aggregates.binding import missing
from tidelog.expr.aggregates.accumulators import ACCUMULATORS, Accumulator
from tidelog.expr.aggregates.usercalls import ALIASES, UserCall, user_call
from tidelog.expr.conditions.predicate import Masker, masker
from tidelog.expr.errors import ExpressionError
from tidelog.expr.evaluate import evaluated
from tidelog.expr.expression import Expression
from tidelog.expr.parsing.binder import Binder, not_too_deep
from tidelog.expr.tree import Node
from tidelog.expr.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    HUGEINT,
    INTERVAL,
    NULL,
    is_float,
    is_integer,
    is_numeric,
    sql_name,
)
from tidelog.model.errors import did_you_mean
from tidelog.model.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

State = tuple[Any, ...]
"""What has been seen so far, to be passed to the methods of the same call only."""

_NAMES = (*ACCUMULATORS, *ALIASES)

_PLAIN_CALL: Final = re.compile(r" *([a-z_][a-z0-9_]*)\( *(\*|[a-z_][a-z0-9_]*) *\) *", re.ASCII | re.IGNORECASE)
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


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function, what it is applied to, and which rows count.

    ``argument`` is None for ``count(*)``; ``where`` is the condition behind FILTER, or None. ``type`` is the type of
    the result, as in DuckDB: sums of integers are HUGEINT, held as ``decimal128(38, 0)``.
    """

    function: str
    argument: Expression | None
    where: Expression | None
    type: pa.DataType
    _accumulator: Accumulator = field(repr=False, compare=False)
    _masker: Masker | None = field(repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, by the argument first; each once."""
        parts = [part for part in (self.argument, self.where) if part is not None]
        return tuple(dict.fromkeys(name for part in parts for name in part.columns))

    def start(self) -> State:
        """The state before any row."""
        return self._accumulator.start()

    def add(self, state: State, batch: pa.RecordBatch) -> State:
        """The state after the rows of ``batch``, which follow those seen before.

        Raises :class:`EvaluationError` where evaluating the argument does, and when a sum is beyond 38 digits.
        """
        if self._masker is not None:
            batch = batch.filter(pa.array(self._masker(batch)))
        if self.argument is None:
            return self._accumulator.merge(state, (batch.num_rows,))
        for _, values in evaluated(self.argument.node, batch):
            state = self._accumulator.merge(state, self._accumulator.of(values))
        return state

    def merge(self, earlier: State, later: State) -> State:
        """The state after the rows of both; those of ``earlier`` come first, which ``first`` and ``last`` go by."""
        return self._accumulator.merge(earlier, later)

    def result(self, state: State) -> pa.Scalar:
        """The aggregate of all rows seen, a scalar of :attr:`type`; NULL, but for counts, if none counted."""
        return self._accumulator.result(state, self.type)

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        where = "" if self.where is None else f" FILTER (WHERE {self.where})"
        return f"{self.function}({inner}){where}"


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
    name = str(call.this).lower()
    function = ALIASES.get(name, name)
    if function not in ACCUMULATORS:
        kind = named(function)
        if kind is not None:
            arrow = schema.arrow if isinstance(schema, Schema) else schema
            return user_call(binder, kind, call, where, arrow, time or getattr(schema, "time", ""))
        if absent and function in absent:
            raise missing(absent[function])
        known = (*_NAMES, *names())
        raise binder.error(f"there is no aggregate function {call.this!r}; {did_you_mean(name, known)}", call)
    argument = _argument(binder, function, call)
    argument, type_ = _typed(binder, function, argument, call)
    return _call(function, argument, where, type_)


def _call(function: str, argument: Node | None, where: Expression | None, type_: pa.DataType) -> AggregateCall:
    accumulator = ACCUMULATORS[function](BIGINT if argument is None else argument.type)
    shown = None if argument is None else Expression(argument)
    return AggregateCall(function, shown, where, type_, accumulator, None if where is None else masker(where.node))


def _plain_call(text: str, schema: Schema | pa.Schema) -> AggregateCall | None:
    """What sqlglot would make of a text such as ``count(*)`` or ``avg(price)``, without loading it; None for any other.

    Most questions are of this kind, and loading sqlglot takes longer than answering them. Whatever is not certain, and
    whatever is wrong, is left to sqlglot.
    """
    match = _PLAIN_CALL.fullmatch(text)
    if match is None:
        return None
    name, inner = match[1].lower(), match[2]
    function = ALIASES.get(name, name)
    if function not in ACCUMULATORS:
        return None
    binder = Binder(text, schema)
    argument: Node | None = None
    if inner != "*":
        if inner.lower() in _WORDS or not binder.has_column(inner):
            return None
        try:
            argument = binder.column(inner, None)
            if argument.type == INTERVAL:
                return None
            argument, type_ = _typed(binder, function, argument, None)
        except ExpressionError:
            return None
    elif function == "count":
        type_ = BIGINT
    else:
        return None
    return _call(function, argument, None, type_)


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


def _typed(
    binder: Binder, function: str, argument: Node | None, call: exp.Expression | None
) -> tuple[Node | None, pa.DataType]:
    """The argument as the function takes it, and the type of the result."""
    if argument is None or function == "count":
        return argument, BIGINT
    if function in ("min", "max", "first", "last"):
        if argument.type == INTERVAL and function in ("min", "max"):
            raise binder.unsupported(f"{function} of INTERVAL", call)
        return argument, argument.type
    numeric = is_numeric(argument.type) or argument.type == NULL or (function == "sum" and argument.type == BOOLEAN)
    if not numeric:
        message = f"there is no {function}({sql_name(argument.type)}); expected a number. Perhaps add a cast"
        raise binder.error(message, call) from None
    if function == "sum":
        if is_float(argument.type):
            return argument, DOUBLE
        exact = is_integer(argument.type) or argument.type in (BOOLEAN, NULL)
        return argument, HUGEINT if exact else pa.decimal128(38, argument.type.scale)
    if function == "avg":
        return argument, DOUBLE
    return binder.fitted(argument, DOUBLE, call), DOUBLE


__all__ = ["AggregateCall", "ExpressionError", "State", "parse_aggregate"]
