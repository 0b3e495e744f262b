"""Calls of user-defined aggregates (:mod:`tidelog.aggregates`), such as ``approx_quantile(price, 0.9)``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidelog.aggregates import Aggregate, Binding, find, named, names
from tidelog.aggregates.binding import bind_positional
from tidelog.expr.conditions.predicate import Masker, masker
from tidelog.expr.expression import Expression
from tidelog.expr.parsing.binder import Binder
from tidelog.expr.parsing.lists import number_of
from tidelog.index.states import States
from tidelog.model.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from sqlglot import exp

ALIASES = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
}
"""Other names of aggregate functions."""

_READY_MADE = "tidelog.aggregates"


@dataclass(frozen=True)
class UserCall:
    """A user-defined aggregate applied to columns, and which rows count; see :class:`AggregateCall`.

    Its states are rows of words (:mod:`tidelog.index.states`).
    """

    binding: Binding
    where: Expression | None
    states: States = field(repr=False, compare=False)
    _masker: Masker | None = field(repr=False, compare=False)

    @property
    def function(self) -> str:
        """Its name."""
        return self.binding.id.rpartition(":")[2]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, by the aggregate first; each once."""
        tested = () if self.where is None else self.where.columns
        return tuple(dict.fromkeys((*self.states.columns, *tested)))

    @property
    def type(self) -> pa.DataType | None:
        """The type of the result, if the code says it."""
        return self.states.result_type(self.binding)

    def start(self) -> Any:
        """The state before any row."""
        return np.zeros((1, self.states.words), np.uint64)

    def add(self, state: Any, batch: pa.RecordBatch) -> Any:
        """The state after the rows of ``batch``, which have not been seen before."""
        if self._masker is not None:
            batch = batch.filter(pa.array(self._masker(batch)))
        return self.merge(state, self.states.of_rows(batch, np.array([0, batch.num_rows], np.int64)))

    def merge(self, earlier: Any, later: Any) -> Any:
        """The state after the rows of both."""
        return self.states.merge(np.concatenate([earlier, later]), np.array([0, 2], np.int64))

    def result(self, state: Any) -> Any:
        """The result, a plain Python value; None if no rows took part."""
        return self.states.result(self.binding, state[0])

    def __str__(self) -> str:
        where = "" if self.where is None else f" FILTER (WHERE {self.where})"
        return f"{self.binding.name}{where}"


def user_call(
    binder: Binder, kind: type[Aggregate], call: exp.Expression, where: Expression | None, schema: pa.Schema, time: str
) -> UserCall:
    """What a call of a user-defined aggregate says, over columns of a schema.

    Raises :class:`ExpressionError` for what cannot be computed of them, and :class:`NotFoundError` if something that
    the aggregate depends on is not here.
    """
    from sqlglot import exp

    columns: list[str] = []
    values: list[Any] = []
    for argument in call.expressions:
        if isinstance(argument, exp.Column) and not values:
            columns.append(binder.column(argument.name, argument).name)
        else:
            values.append(_value(binder, argument))
    try:
        binding = bind_positional(kind, columns, values)
        states = States.of(schema, time, [binding], strict=True)
    except InputError as error:
        raise binder.error(str(error), call) from None
    return UserCall(binding, where, states, None if where is None else masker(where.node))


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
    columns: list[str] = []
    values: list[Any] = []
    for argument in call.expressions:
        if isinstance(argument, exp.Column) and not values:
            columns.append(argument.name)
        else:
            values.append(_value(binder, argument))
    try:
        return bind_positional(kind, columns, values)
    except InputError as error:
        raise binder.error(str(error), call) from None


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


__all__ = ["ALIASES", "UserCall", "parse_binding", "ready_made", "user_call"]
