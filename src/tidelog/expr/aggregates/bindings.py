"""Calls of user-defined aggregates (:mod:`tidelog.aggregates`), such as ``approx_quantile(price, 0.9)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.aggregates import Aggregate, Binding, find, named, names
from tidelog.aggregates.binding import bind_positional
from tidelog.expr.aggregates.builtin import ALIASES
from tidelog.expr.aggregates.calls import UserCall
from tidelog.expr.expression import Expression
from tidelog.expr.parsing.binder import Binder
from tidelog.expr.parsing.lists import number_of
from tidelog.index.states import States
from tidelog.model.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

_READY_MADE = "tidelog.aggregates"


def user_call(
    binder: Binder, kind: type[Aggregate], call: exp.Expression, where: Expression | None, schema: pa.Schema, time: str
) -> UserCall:
    """What a call of a user-defined aggregate says, over columns of a schema.

    Raises :class:`ExpressionError` for what cannot be computed of them, and :class:`NotFoundError` if something that
    the aggregate depends on is not here.
    """
    columns, values = _arguments(binder, call)
    found = [binder.column(each.name, each).name for each in columns]
    try:
        binding = bind_positional(kind, found, values)
        states = States.of(schema, time, [binding], strict=True)
    except InputError as error:
        raise binder.error(str(error), call) from None
    return UserCall(binding, where, states)


def parse_binding(text: str) -> Binding:
    """The user-defined aggregate that a call such as ``second_largest(price)`` names, of columns as they are written.

    Raises :class:`ExpressionError` for what is no such call.
    """
    from sqlglot import exp

    from tidelog.expr.parsing.syntax import read

    source = read(text)
    call, binder = source.node, Binder(source, pa.schema([]))
    if not isinstance(call, exp.Anonymous):
        raise binder.error("expected a call of a user-defined aggregate, e.g. second_largest(price)", call)
    name = str(call.this).lower()
    kind = named(ALIASES.get(name, name))
    if kind is None:
        raise binder.error(
            f"there is no user-defined aggregate {name!r}; {did_you_mean(name, names())}. Import the module that "
            "registers it first",
            call,
        )
    columns, values = _arguments(binder, call)
    try:
        return bind_positional(kind, [each.name for each in columns], values)
    except InputError as error:
        raise binder.error(str(error), call) from None


def _arguments(binder: Binder, call: exp.Expression) -> tuple[list[exp.Expression], list[Any]]:
    """The columns of a call, and the values of parameters behind them."""
    from sqlglot import exp

    columns: list[exp.Expression] = []
    values: list[Any] = []
    for argument in call.expressions:
        if isinstance(argument, exp.Column) and not values:
            columns.append(argument)
        else:
            values.append(_value(binder, argument))
    return columns, values


def ready_made(function: str, column: str) -> Binding | None:
    """The user-defined aggregate that computes the same as an aggregate function of SQL does, if there is one."""
    kind = find(f"{_READY_MADE}:{function}")
    return None if kind is None else bind_positional(kind, [column], [])


def _value(binder: Binder, node: exp.Expression) -> Any:
    """The value of a parameter: a literal."""
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        value = _value(binder, node.this)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(node, exp.Literal):
        text = str(node.this)
        if node.is_string:
            return text
        _, number = number_of(text)
        return number if isinstance(number, int) else float(text)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    raise binder.error("expected names of columns, then numbers, texts or booleans", node)
