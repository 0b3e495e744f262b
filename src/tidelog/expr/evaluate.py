"""Evaluation of a tree over a record batch.

What is native is computed here, column by column, constants kept as scalars until the end. All else is computed by
DuckDB, for as much of a tree at once as possible (:mod:`tidelog.expr.database`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.database import binding, lengths, literals
from tidelog.expr.database.lengths import Tested, grows, too_long_by
from tidelog.expr.database.projection import projection
from tidelog.expr.errors import EvaluationError, ExpressionError, too_deep
from tidelog.expr.functions.comparison import COMPARISONS
from tidelog.expr.functions.library import NATIVE
from tidelog.expr.functions.members import constants
from tidelog.expr.parsing.render import render
from tidelog.expr.text import ForDuckDB
from tidelog.expr.tree import Call, Case, Cast, Column, Literal, Members, Node, Value
from tidelog.expr.values.casts import cast
from tidelog.expr.values.types import BOOLEAN, NULL, VARCHAR, sql_name, sql_type
from tidelog.expr.values.vectors import Mask, as_array, is_scalar, numbers, valid_rows
from tidelog.model.errors import did_you_mean

_MANY = 16
"""Constants of a list from which on they are looked up here, whoever computes the rest."""


def evaluate(expression: Node, batch: pa.RecordBatch) -> pa.Array:
    """See :meth:`tidelog.expr.Expression.evaluate`."""
    found = [values for _, values in evaluated(expression, batch)]
    if len(found) == 1:
        return found[0]
    size = sum(values.nbytes for values in found)
    if size > lengths.RESULT_BYTES:
        raise EvaluationError(
            f"the results for {batch.num_rows:,} rows take {size:,} bytes; expected {lengths.RESULT_BYTES:,} at the "
            "most: evaluate fewer rows at a time"
        )
    return pa.concat_arrays(found)


def evaluated(expression: Node, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """The value for each row, in order, of as many rows at a time as what is made in between has room in memory for."""
    try:
        if expression.is_native or expression.is_constant:
            yield from _repeated(expression, batch)
            return
        first = 0
        for values in _by_duckdb(expression, batch):
            yield (batch if len(values) == batch.num_rows else batch.slice(first, len(values))), values
            first += len(values)
    except RecursionError:
        raise too_deep("") from None


def _repeated(expression: Node, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """What is computed here; a long text that is the same in all rows takes several times."""
    value, rows = value_of(expression, batch), batch.num_rows
    if is_scalar(value) and value.is_valid and value.type in (pa.string(), pa.binary()):
        size = max(lengths.BATCH_BYTES // max(len(value.as_buffer()), 1), 1)
        for first in range(0, rows, size) if rows > size else ():
            part = batch.slice(first, size)
            yield part, as_array(value, part.num_rows)
        if rows > size:
            return
    yield batch, as_array(value, rows)


def truths(expression: Node, batch: pa.RecordBatch) -> Mask:
    """Where a boolean expression is true, neither false nor NULL."""
    try:
        if expression.is_native or expression.is_constant:
            found = as_array(value_of(expression, batch), batch.num_rows)
            result, valid = numbers(found), valid_rows(found)
            return result.copy() if valid is None else result & valid
        whole, batch = _without_lists(expression, batch)
        if whole.is_native:
            return truths(whole, batch)
        arrays = [column_values(column, batch) for column in projection(whole).columns]
        return projection(whole).truths(arrays, batch.num_rows, lambda node: _greatest(node, batch))
    except EvaluationError as error:
        raise _named(error, expression) from None
    except RecursionError:
        raise too_deep("") from None


def _by_duckdb(node: Node, batch: pa.RecordBatch) -> Iterator[pa.Array]:
    if node.type == NULL:
        yield pa.nulls(batch.num_rows)
        return
    whole, batch = _without_lists(node, batch)
    if whole.is_native:
        yield as_array(value_of(whole, batch), batch.num_rows)
        return
    computing = projection(whole)
    arrays = [column_values(column, batch) for column in computing.columns]
    try:
        yield from computing.values(arrays, batch.num_rows, lambda each: _greatest(each, batch))
    except EvaluationError as error:
        raise _named(error, node) from None


def _greatest(node: Node, batch: pa.RecordBatch) -> float:
    """The greatest value of an expression of integers, as far as it can be told without DuckDB."""
    try:
        if node.is_constant:
            value = constant_value(node)
        elif node.is_native and pa.types.is_integer(node.type):
            value = pc.max(as_array(value_of(node, batch), batch.num_rows))
        else:
            return math.inf
    except ExpressionError:
        return math.inf
    return float(value.as_py() or 0)


class _Lists:
    """Lists of many constants in what DuckDB computes, each replaced by a column that is computed here."""

    def __init__(self, node: Node) -> None:
        self.found: list[tuple[str, Call, Members]] = []
        self._next = max((each.position for each in node.walk() if isinstance(each, Column)), default=0) + 1
        self.node = self._replaced(node)

    def _replaced(self, node: Node) -> Node:
        if isinstance(node, Call):
            members = node.arguments[1] if node.name == "in" else None
            if isinstance(members, Members) and members.count > _MANY:
                name = f"\0list {len(self.found)}"
                self.found.append((name, node, members))
                return Column(BOOLEAN, name, self._next + len(self.found) - 1)
            arguments = tuple(map(self._replaced, node.arguments))
            return node if arguments == node.arguments else type(node)(node.type, node.name, arguments)
        if isinstance(node, Cast):
            operand = self._replaced(node.operand)
            return node if operand is node.operand else Cast(node.type, operand, node.lenient, node.implicit)
        if isinstance(node, Case):
            branches = tuple((self._replaced(test), self._replaced(value)) for test, value in node.branches)
            return Case(node.type, branches, self._replaced(node.otherwise))
        return node


def _without_lists(node: Node, batch: pa.RecordBatch) -> tuple[Node, pa.RecordBatch]:
    """An expression in which no list is long, and the rows with what is in long lists."""
    lists = next((each for each in node.known if isinstance(each, _Lists)), None)
    if lists is None:
        has_many = any(isinstance(each, Members) and each.count > _MANY for each in node.walk())
        if not has_many:
            return node, batch
        lists = _Lists(node)
        node.known.append(lists)
    for name, each, members in lists.found:
        batch = batch.append_column(name, as_array(_in_list(each, members, batch), batch.num_rows))
    return lists.node, batch


def constant_value(expression: Node) -> pa.Scalar:
    """The value of an expression without columns, computed once. Raises :class:`EvaluationError` as evaluation does."""
    found = next((each for each in expression.known if isinstance(each, pa.Scalar)), None)
    if found is None:
        try:
            found = _constant(expression)
        except EvaluationError as error:
            raise _named(error, expression) from None
        expression.known.append(found)
    return found


_NO_COLUMNS = pa.RecordBatch.from_arrays([pa.nulls(1)], ["_"])


def _constant(node: Node) -> pa.Scalar:
    if isinstance(node, Literal):
        return pa.scalar(node.value, node.type)
    if node.type == NULL:
        return pa.scalar(None, NULL)
    written = node.operand if isinstance(node, Cast) and not node.lenient else None
    if isinstance(written, Literal) and isinstance(written.value, str):
        return literals.read(pa.array([written.value], VARCHAR), node.type)[0]
    if node.is_native:
        value = _native(node, _NO_COLUMNS)
        return value if is_scalar(value) else value[0]
    if any(isinstance(each, Members) for each in node.walk()):
        whole, batch = _without_lists(node, _NO_COLUMNS)
        return value_of(whole, batch)[0]
    text = (Tested() if grows(node) else ForDuckDB()).text(node)
    try:
        return binding.constant(f"CAST({text} AS {sql_name(node.type)})", node.type)
    except EvaluationError as error:
        raise too_long_by(str(error)) or error from None


def _named(error: EvaluationError, node: Node) -> EvaluationError:
    """An error that tells of the expression it is about."""
    return error if error.text else EvaluationError(str(error), text=render(node))


def value_of(node: Node, batch: pa.RecordBatch) -> Value:
    """The value of a node for each row: an array, or a scalar where it is the same for all."""
    if isinstance(node, Column):
        return column_values(node, batch)
    if node.is_constant:
        return constant_value(node)
    if not node.is_native:
        found = list(_by_duckdb(node, batch))
        return found[0] if len(found) == 1 else pa.concat_arrays(found)
    return _native(node, batch)


def _native(node: Node, batch: pa.RecordBatch) -> Value:
    try:
        if isinstance(node, Cast):
            value = value_of(node.operand, batch)
            return cast(as_array(value, 1), node.type)[0] if is_scalar(value) else cast(value, node.type)
        assert isinstance(node, Call)
        if node.name == "in" and isinstance(node.arguments[1], Members):
            return _in_list(node, node.arguments[1], batch)
        return _call(node, batch)
    except EvaluationError as error:
        raise _named(error, node) from None
    except ExpressionError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise EvaluationError(f"{render(node)} cannot be evaluated: {error}", text=render(node)) from error


def column_values(node: Column, batch: pa.RecordBatch) -> pa.Array:
    """The column a node names, as the SQL type it has in expressions. Raises :class:`ExpressionError`."""
    index = batch.schema.get_field_index(node.name)
    if index < 0:
        raise ExpressionError(
            f"the batch has no column {node.name!r}; {did_you_mean(node.name, batch.schema.names)}", column=node.name
        )
    array = batch.column(index)
    if array.type == node.type:
        return array
    if sql_type(array.type) != node.type:
        raise ExpressionError(
            f"column {node.name!r} of the batch is {array.type}, expected {sql_name(node.type)} as in the schema the "
            "expression was made for",
            column=node.name,
        )
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pc.cast(array, node.type)


def _call(node: Call, batch: pa.RecordBatch) -> Value:
    function = NATIVE[node.name]
    if node.type == NULL:
        return pa.scalar(None, NULL)
    # Next to a NULL nothing else is evaluated, and so nothing else can raise; but comparisons look to the left first.
    decisive = node.arguments[:1] if node.name in COMPARISONS else node.arguments
    if function.strict and any(_always_null(each) for each in decisive):
        return pa.scalar(None, node.type)
    values = [value_of(each, batch) for each in node.arguments]
    if function.strict and any(is_scalar(value) and not value.is_valid for value in values):
        return pa.scalar(None, node.type)
    if all(is_scalar(value) for value in values):
        kept = function.constants
        columns = [each if index in kept else as_array(each, 1) for index, each in enumerate(values)]
        return function.run(columns, node.type)[0]
    return function.run(values, node.type)


def _in_list(node: Call, members: Members, batch: pa.RecordBatch) -> Value:
    """Whether a value is among the literals of a list, or equals one of the expressions behind them."""
    operand, _, *others = node.arguments
    value = value_of(operand, batch)
    found = constants(members).contains(as_array(value, 1) if is_scalar(value) else value)
    if is_scalar(value):
        found = found[0]
    if others:
        rest = value_of(Call(node.type, node.name, (operand, *others)), batch)
        found = pc.or_kleene(found, rest)
    return found


def _always_null(node: Node) -> bool:
    """Whether a node is NULL for every row because a NULL was written into it."""
    if isinstance(node, Literal):
        return node.value is None
    if isinstance(node, Cast):
        return _always_null(node.operand)
    is_strict = isinstance(node, Call) and node.is_native and NATIVE[node.name].strict
    return is_strict and any(map(_always_null, node.operands))
