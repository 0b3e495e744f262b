"""Expressions as others see them: parsed, typed, evaluated and shown."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidelog.expr.evaluate import evaluate
from tidelog.expr.nullability import may_be_null
from tidelog.expr.parsing.binder import Binder, not_too_deep
from tidelog.expr.parsing.render import render
from tidelog.expr.tree import Node
from tidelog.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Expression:
    """A value for every row of a batch. ``str()`` gives SQL text that parses back to an equal expression."""

    node: Node
    """The typed tree of it."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the result; what DuckDB would export the result's SQL type as."""
        return self.node.type

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, in the order of the schema, each once."""
        return self.node.columns

    @property
    def is_constant(self) -> bool:
        """Whether no column is used, so that the value is the same for every row."""
        return self.node.is_constant

    @property
    def nullable(self) -> bool:
        """Whether the result may be NULL; true when that is not known."""
        try:
            return may_be_null(self.node)
        except RecursionError:
            return True

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The value for each row of ``batch``, an array of :attr:`type` and of the batch's length.

        The batch has the columns used, in any order, of the types in the schema. Raises
        :class:`EvaluationError` where DuckDB raises: on overflow, on casts that fail, on integer division by zero.
        """
        return evaluate(self.node, batch)

    def __str__(self) -> str:
        return render(self.node)


def parse(text: str, schema: Schema | pa.Schema) -> Expression:
    """The expression that ``text`` says, over columns of ``schema``, with DuckDB's types.

    Raises :class:`ExpressionError` for a syntax error, unknown columns and functions, and operands of types that do
    not fit.
    """
    from tidelog.expr.parsing.grammar import translate
    from tidelog.expr.parsing.syntax import read

    with not_too_deep(text):
        source = read(text)
        return Expression(translate(Binder(source, schema), source.node))
