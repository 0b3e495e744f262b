"""Evaluation of a tree over a record batch: column by column, constants kept as scalars until the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError, too_deep
from tidelog.expr.functions.comparison import COMPARISONS, chosen
from tidelog.expr.functions.library import FUNCTIONS
from tidelog.expr.functions.members import constants
from tidelog.expr.parsing.render import render
from tidelog.expr.tree import Call, Case, Cast, Column, Literal, Members, Node, Value
from tidelog.expr.values.bounds import BATCH_BYTES, RESULT_BYTES, TooMuch, too_long
from tidelog.expr.values.casts import cast
from tidelog.expr.values.types import INTERVAL, NULL, sql_name, sql_type
from tidelog.expr.values.vectors import Mask, as_array, is_scalar, numbers
from tidelog.model.errors import did_you_mean


def evaluate(expression: Node, batch: pa.RecordBatch) -> pa.Array:
    """See :meth:`tidelog.expr.Expression.evaluate`."""
    found = [values for _, values in evaluated(expression, batch)]
    if len(found) == 1:
        return found[0]
    size = sum(values.nbytes for values in found)
    if size > RESULT_BYTES:
        raise EvaluationError(
            f"the results for {batch.num_rows:,} rows take {size:,} bytes; expected {RESULT_BYTES:,} at the most: "
            "evaluate fewer rows at a time"
        )
    return pa.concat_arrays(found)


def evaluated(expression: Node, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """The value for each row, in order, of as many rows at a time as what is made in between has room in memory for."""
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        try:
            values = _evaluated(expression, part)
        except TooMuch as error:
            rows = part.num_rows
            if rows < 2:
                raise too_long(error.size) from None
            size = max(rows * BATCH_BYTES // (2 * error.size), 1)
            waiting += [part.slice(first, size) for first in range(0, rows, size)][::-1]
            continue
        except RecursionError:
            raise too_deep("") from None
        yield part, values


def _evaluated(expression: Node, batch: pa.RecordBatch) -> pa.Array:
    return as_array(value_of(expression, batch), batch.num_rows)


def constant_value(expression: Node) -> pa.Scalar:
    """The value of an expression without columns. Raises :class:`EvaluationError` as evaluation would."""
    value = value_of(expression, _NO_COLUMNS)
    return value if is_scalar(value) else value[0]


_NO_COLUMNS = pa.RecordBatch.from_arrays([pa.nulls(1)], ["_"])


def value_of(node: Node, batch: pa.RecordBatch) -> Value:
    """The value of a node for each row: an array, or a scalar where it is the same for all."""
    try:
        return _value(node, batch)
    except ExpressionError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise EvaluationError(f"{render(node)} cannot be evaluated: {error}", text=render(node)) from error


def _value(node: Node, batch: pa.RecordBatch) -> Value:
    if isinstance(node, Column):
        return column_values(node, batch)
    if isinstance(node, Literal):
        return pa.scalar(node.value, node.type)
    if isinstance(node, Cast):
        return _cast(node, batch)
    if isinstance(node, Case):
        return _case(node, batch)
    assert isinstance(node, Call)
    if node.name == "in" and isinstance(node.arguments[1], Members):
        return _in_list(node, node.arguments[1], batch)
    if node.name == "coalesce" and not all(never_raises(argument) for argument in node.arguments[1:]):
        return _coalesce(node, batch)
    return _call(node, batch)


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
    function = FUNCTIONS[node.name]
    if node.type == NULL:
        return pa.scalar(None, NULL)
    # Next to a NULL nothing else is evaluated, and so nothing else can raise; but comparisons look to the left first.
    decisive = node.arguments[:1] if node.name in COMPARISONS else node.arguments
    if function.strict and any(_always_null(each) for each in decisive):
        return pa.scalar(None, node.type)
    values = [constant_value(each) if each.is_constant else value_of(each, batch) for each in node.arguments]
    if function.strict and any(is_scalar(value) and not value.is_valid for value in values):
        return pa.scalar(None, node.type)
    try:
        if all(is_scalar(value) for value in values):
            kept = function.constants
            columns = [each if index in kept else as_array(each, 1) for index, each in enumerate(values)] or [
                pa.nulls(1)
            ]
            return _scalar(function.run(columns, node.type))
        return function.run(values, node.type)
    except EvaluationError as error:
        if error.text:
            raise
        raise EvaluationError(str(error), text=render(node)) from error


def _in_list(node: Call, members: Members, batch: pa.RecordBatch) -> Value:
    """Whether a value is among the literals of a list, or equals one of the expressions behind them."""
    operand, _, *others = node.arguments
    value = constant_value(operand) if operand.is_constant else value_of(operand, batch)
    found = constants(members).contains(as_array(value, 1) if is_scalar(value) else value)
    if is_scalar(value):
        found = _scalar(found)
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
    return isinstance(node, Call) and FUNCTIONS[node.name].strict and any(map(_always_null, node.arguments))


def _scalar(array: pa.Array) -> pa.Scalar:
    return array[0]


def _cast(node: Cast, batch: pa.RecordBatch) -> Value:
    value = value_of(node.operand, batch)
    try:
        if is_scalar(value):
            return _scalar(cast(as_array(value, 1), node.type, lenient=node.lenient))
        return cast(value, node.type, lenient=node.lenient)
    except EvaluationError as error:
        if error.text:
            raise
        raise EvaluationError(str(error), text=render(node)) from error


def _case(node: Case, batch: pa.RecordBatch) -> Value:
    if batch.num_rows == 0:
        return pa.array([], node.type) if node.type != INTERVAL else as_array(pa.scalar(None, INTERVAL), 0)
    left = np.ones(batch.num_rows, np.bool_)
    choices: list[tuple[pa.Array, Node]] = []
    for condition, value in node.branches:
        taken = _rows(condition, batch, left) & left
        choices.append((pa.array(taken), value))
        left &= ~taken
    result = _where(node.otherwise, batch, pa.array(left), node.type)
    for mask, value in choices:
        result = chosen(mask, _where(value, batch, mask, node.type), result)
    return result


def _rows(condition: Node, batch: pa.RecordBatch, among: Mask) -> Mask:
    """Where a condition is true, looked at only among some rows."""
    found = _where(condition, batch, pa.array(among), condition.type)
    return numbers(found.fill_null(False))


def _where(node: Node, batch: pa.RecordBatch, mask: pa.Array, type_: pa.DataType) -> pa.Array:
    """The values of a node in the rows of a mask, anything elsewhere. Other rows cannot make it raise."""
    wanted = mask.true_count
    if wanted == 0:
        return as_array(pa.scalar(None, type_), len(mask))
    if wanted == len(mask) or never_raises(node):
        return _evaluated(node, batch)
    if not batch.schema.names:
        return _evaluated(node, batch)
    rows = numbers(mask)
    part = _evaluated(node, batch.filter(mask))
    places = np.zeros(len(rows), np.int64)
    places[rows] = np.arange(wanted)
    return part.take(pa.array(places))


def _coalesce(node: Call, batch: pa.RecordBatch) -> Value:
    result = _evaluated(node.arguments[0], batch)
    for argument in node.arguments[1:]:
        if result.null_count == 0:
            break
        missing = pc.is_null(result)
        result = chosen(missing, _where(argument, batch, missing, node.type), result)
    return result


def never_raises(node: Node) -> bool:
    """Whether no values of columns can make the evaluation of a node raise."""
    for each in node.walk():
        if isinstance(each, Cast) and not each.lenient:
            if each.operand.type != each.type and not (
                isinstance(each.operand, Literal) and each.operand.value is None
            ):
                return False
        elif isinstance(each, Call) and not FUNCTIONS[each.name].total:
            return False
    return True
