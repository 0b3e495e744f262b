"""Boolean expressions as filters: masks of the rows that satisfy them, and what blocks need reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.conditions import kernels
from tidelog.expr.conditions.atoms import monotone, point_of
from tidelog.expr.conditions.condition import ALWAYS, NEVER, ColumnRange, Condition, Goal, condition
from tidelog.expr.conditions.pruning import Summaries, may_hold
from tidelog.expr.conditions.ranges import column_ranges, exact_range
from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.evaluate import column_values, constant_value, truths
from tidelog.expr.expression import Expression
from tidelog.expr.functions.comparison import COMPARISONS, MIRRORED, NEGATED, compare_floats, compare_floats_with
from tidelog.expr.parsing.binder import Binder, not_too_deep
from tidelog.expr.tree import Call, Column, Node
from tidelog.expr.values.types import BLOB, BOOLEAN, VARCHAR, is_float
from tidelog.expr.values.vectors import Mask, all_valid, has_numbers, numbers, valid_rows
from tidelog.model.schema import Schema

Masker = Callable[[pa.RecordBatch], Mask]
"""Gives a new mask of the rows of a batch that satisfy something."""


@dataclass(frozen=True)
class Predicate:
    """A boolean expression used as a filter: a row satisfies it if it is true, not if it is false or NULL."""

    expression: Expression
    schema: pa.Schema
    _masker: Masker = field(repr=False, compare=False)
    _possible: Condition = field(repr=False, compare=False)
    _uncertain: Condition = field(repr=False, compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, in the order of the schema."""
        return self.expression.columns

    @property
    def ranges(self) -> dict[str, ColumnRange]:
        """See :func:`tidelog.expr.conditions.ranges.column_ranges`."""
        return column_ranges(self.expression)

    @cached_property
    def exact_range(self) -> ColumnRange | None:
        """The values of one column for which the predicate is true, and for no others; None if it is not that simple.

        NULL is not among them.
        """
        return exact_range(self._possible, self._uncertain)

    @property
    def is_always(self) -> bool:
        """Whether the predicate is known to be true for every row, whatever its values."""
        return self._uncertain == NEVER

    @property
    def prunes(self) -> bool:
        """Whether there are values of columns that tell that it is not true, so that :meth:`may_match` may be false."""
        return self._possible != ALWAYS

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Which rows of ``batch`` satisfy the predicate. Raises :class:`EvaluationError` as evaluation does.

        Once no row is left, the rest of a conjunction is not looked at. Columns of texts may be dictionaries:
        conditions of one of them are told from its distinct values.
        """
        if any(map(pa.types.is_dictionary, batch.schema.types)):
            return _all([partial(_by_distinct, each) for each in self.conjuncts], batch)
        return self._masker(batch)

    @cached_property
    def conjuncts(self) -> tuple[Predicate, ...]:
        """The predicates that must all hold, each of them once."""
        nodes = {str(Expression(node)): node for node in _conjuncts(self.expression.node)}
        return tuple(_of_node(node, self.schema) for node in nodes.values())

    def may_match(self, summaries: Mapping[str, Summaries], rows: npt.NDArray[np.integer[Any]]) -> Mask:
        """For each block whether some of its rows may satisfy the predicate; false only if certainly none does.

        ``summaries`` has an array of :data:`~tidelog.storage.summary.SUMMARY` records for each column that is known
        (others exclude nothing), ``rows`` the number of rows of each block.
        """
        return may_hold(self._possible, summaries, rows, self.schema)

    def must_match(self, summaries: Mapping[str, Summaries], rows: npt.NDArray[np.integer[Any]]) -> Mask:
        """For each block whether all of its rows certainly satisfy the predicate; see :meth:`may_match`."""
        return ~may_hold(self._uncertain, summaries, rows, self.schema)

    def __str__(self) -> str:
        return str(self.expression)


def predicate(text: str, schema: Schema | pa.Schema) -> Predicate:
    """The predicate that ``text`` says. Numbers count as booleans, as in DuckDB's WHERE.

    Raises :class:`ExpressionError` as :func:`tidelog.expr.parse` does, and for what is no condition.
    """
    from tidelog.expr.parsing.grammar import translate
    from tidelog.expr.parsing.syntax import read

    with not_too_deep(text):
        source = read(text)
        binder = Binder(source, schema)
        node = binder.fitted(translate(binder, source.node), BOOLEAN, source.node)
        return _of_node(node, schema.arrow if isinstance(schema, Schema) else schema)


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    """What says that all of some predicates of one schema hold, of which there is at least one."""
    if len(predicates) == 1:
        return predicates[0]
    return _of_node(Call(BOOLEAN, "and", tuple(each.expression.node for each in predicates)), predicates[0].schema)


def _of_node(node: Node, schema: pa.Schema) -> Predicate:
    return Predicate(Expression(node), schema, masker(node), condition(node, Goal.TRUE), condition(node, Goal.NOT_TRUE))


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.name == "and":
        for each in node.arguments:
            yield from _conjuncts(each)
    else:
        yield node


def _by_distinct(predicate: Predicate, batch: pa.RecordBatch) -> Mask:
    """A predicate of a batch that may have dictionaries; if it is about one of them alone, of the values in it."""
    columns = [batch.column(name) for name in predicate.columns]
    if len(columns) != 1 or not pa.types.is_dictionary(columns[0].type):
        return _by_row(predicate, columns, batch)
    (column,) = columns
    values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)])
    try:
        truth = predicate._masker(_named(predicate, [values]))
    except EvaluationError:  # of a value that perhaps no row has
        return _by_row(predicate, columns, batch)
    indexes = column.indices.fill_null(len(values) - 1) if column.null_count else column.indices
    found = np.empty(len(indexes), np.bool_)
    if indexes.type == pa.int32():
        kernels.pick(truth, numbers(indexes), found)
    else:
        np.take(truth, numbers(indexes), out=found)
    return found


def _by_row(predicate: Predicate, columns: list[pa.Array], batch: pa.RecordBatch) -> Mask:
    plain = [each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in columns]
    return predicate._masker(_named(predicate, plain) if plain else batch)


def _named(predicate: Predicate, columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.record_batch(columns, names=list(predicate.columns))


def masker(node: Node) -> Masker:
    """What finds the rows of a batch for which a boolean expression is true."""
    return _compiled(node, True)


def _compiled(node: Node, wanted: bool) -> Masker:
    """What finds the rows for which a node is true, or those for which it is false."""
    if isinstance(node, Call):
        if node.name in ("and", "or"):
            return _connected(node, wanted)
        if node.name == "not":
            return _compiled(node.arguments[0], not wanted)
        if node.name in COMPARISONS:
            found = _comparison(node.name, node.arguments[0], node.arguments[1], wanted)
            if found is not None:
                return found
        if node.name == "between":
            value, low, high = node.arguments
            both = [_comparison(">=", value, low, wanted), _comparison("<=", value, high, wanted)]
            maskers = [each for each in both if each is not None]
            if len(maskers) == 2:
                return partial(_all if wanted else _any, maskers)
        if node.name in ("is null", "is not null") and isinstance(node.arguments[0], Column):
            return partial(_validity, node.arguments[0], (node.name == "is not null") == wanted)
    return partial(truths, node if wanted else Call(BOOLEAN, "not", (node,)))


def _connected(node: Call, wanted: bool) -> Masker:
    """Parts that are all to hold, or one of them; what DuckDB computes comes last, and all of it at once."""
    together = (node.name == "and") == wanted
    here = [part for part in node.arguments if part.is_native or part.is_constant]
    outside = [part for part in node.arguments if not (part.is_native or part.is_constant)]
    parts = [_compiled(part, wanted) for part in here]
    if outside:
        rest = outside[0] if len(outside) == 1 else Call(BOOLEAN, node.name, tuple(outside))
        last = partial(truths, rest if wanted else Call(BOOLEAN, "not", (rest,)))
        if together and parts:
            return partial(_among_few, parts, last, rest.columns)
        parts.append(last)
    return partial(_all if together else _any, parts)


def _among_few(parts: list[Masker], last: Masker, names: tuple[str, ...], batch: pa.RecordBatch) -> Mask:
    """Rows for which all parts hold and then the last one, which is asked about some columns of those that are left."""
    result = _all(parts, batch)
    left = int(np.count_nonzero(result))
    if left == len(result):
        return last(batch)
    if left:
        result[result] = last(batch.select(names).filter(pa.array(result)))
    return result


def _all(parts: list[Masker], batch: pa.RecordBatch) -> Mask:
    result = parts[0](batch)
    for part in parts[1:]:
        if not result.any():
            break
        np.logical_and(result, part(batch), out=result)
    return result


def _any(parts: list[Masker], batch: pa.RecordBatch) -> Mask:
    result = parts[0](batch)
    for part in parts[1:]:
        np.logical_or(result, part(batch), out=result)
    return result


def _true_rows(found: pa.Array) -> Mask:
    result, valid = numbers(found), valid_rows(found)
    return result.copy() if valid is None else np.logical_and(result, valid)


def _validity(column: Column, wanted: bool, batch: pa.RecordBatch) -> Mask:
    valid = valid_rows(column_values(column, batch))
    if valid is None:
        return np.full(batch.num_rows, wanted)
    return valid.copy() if wanted else ~valid


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _columns(left: Column, operator: str, right: Column, batch: pa.RecordBatch) -> Mask:
    values = [column_values(left, batch), column_values(right, batch)]
    compared = compare_floats if is_float(left.type) else _compared
    result, valid = compared(operator, numbers(values[0]), numbers(values[1])), all_valid(values)
    return result if valid is None else np.logical_and(result, valid, out=result)


def _compared(operator: str, left: Any, right: Any) -> Mask:
    result: Mask = _FUNCTIONS[operator](left, right)
    return result


def _comparison(operator: str, left: Node, right: Node, wanted: bool) -> Masker | None:
    """A comparison of columns, or of one with a constant, straight on their memory; None if it is none."""
    if isinstance(left, Column) and isinstance(right, Column) and left.type == right.type and has_numbers(left.type):
        return partial(_columns, left, operator if wanted else NEGATED[operator], right)
    if left.is_constant:
        operator, left, right = MIRRORED[operator], right, left
    found = monotone(left) if right.is_constant else None
    if (
        found is None
        or not found.direct
        or (not has_numbers(found.column.type) and found.column.type not in (VARCHAR, BLOB))
    ):
        return None
    try:
        constant = constant_value(right)
    except ExpressionError:
        return None  # raised again when rows are there to raise it for
    if not constant.is_valid:
        return lambda batch: np.zeros(batch.num_rows, np.bool_)
    if not wanted:
        operator = NEGATED[operator]
    column = found.column
    if isinstance(left, Column):
        if is_float(column.type):
            return partial(_floats, column, operator, numbers(constant)[0])
        if column.type in (VARCHAR, BLOB):
            return partial(_texts, column, operator, constant)
        return partial(_numbers, column, operator, numbers(constant)[0])
    values = found.back(operator, point_of(constant)) if has_numbers(column.type) else None
    if values is None or is_float(column.type) or len(values.intervals) > 1:
        return None
    if not values.intervals:
        return lambda batch: np.zeros(batch.num_rows, np.bool_)
    interval = values.intervals[0]  # of integers, so its bounds are part of it
    if interval.low is None and interval.high is None:
        return partial(_validity, column, True)
    if interval.high is None:
        return partial(_numbers, column, ">=", interval.low)
    if interval.low is None:
        return partial(_numbers, column, "<=", interval.high)
    if interval.low == interval.high:
        return partial(_numbers, column, "=", interval.low)
    both: list[Masker] = [partial(_numbers, column, ">=", interval.low), partial(_numbers, column, "<=", interval.high)]
    return partial(_all, both)


def _floats(column: Column, operator: str, constant: Any, batch: pa.RecordBatch) -> Mask:
    array = column_values(column, batch)
    return _only_valid(compare_floats_with(operator, numbers(array), constant), array)


def _numbers(column: Column, operator: str, constant: Any, batch: pa.RecordBatch) -> Mask:
    array = column_values(column, batch)
    return _only_valid(_FUNCTIONS[operator](numbers(array), constant), array)


def _texts(column: Column, operator: str, constant: pa.Scalar, batch: pa.RecordBatch) -> Mask:
    kernels = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
    return _true_rows(pc.call_function(kernels[operator], [column_values(column, batch), constant]))


def _only_valid(found: Mask, array: pa.Array) -> Mask:
    valid = valid_rows(array)
    return found if valid is None else np.logical_and(found, valid, out=found)
