"""What a predicate says about single columns, as far as it can be told without evaluating it.

A :class:`Condition` is necessary for a goal: a row for which it does not hold cannot make the predicate come out as
the goal says. Goals are not only "true": a block all of whose rows match is one in which no row may be "not true".
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.conditions.atoms import ValueSet, compared, constant_or_none, monotone, point_of
from tidelog.expr.conditions.intervals import (
    EVERYTHING,
    NOTHING,
    Interval,
    Intervals,
    at_most,
    closed,
    complement,
    intersect,
    unite,
)
from tidelog.expr.errors import ExpressionError
from tidelog.expr.evaluate import constant_value
from tidelog.expr.functions.comparison import COMPARISONS, MIRRORED
from tidelog.expr.functions.members import ConstantSet, constants
from tidelog.expr.functions.patterns import is_prefix_pattern, like_parts, literal_prefix
from tidelog.expr.tree import Call, Cast, Column, Members, Node
from tidelog.expr.values.types import BLOB, BOOLEAN, VARCHAR, is_float, is_integer

MOST_INTERVALS = 64
"""A range of more intervals than this is made coarser: looking at them all would cost more than it saves."""


class Goal(enum.Enum):
    """How a predicate is to come out for a row."""

    TRUE = enum.auto()
    FALSE = enum.auto()
    NOT_TRUE = enum.auto()
    NOT_FALSE = enum.auto()


_NEGATED = {
    Goal.TRUE: Goal.FALSE,
    Goal.FALSE: Goal.TRUE,
    Goal.NOT_TRUE: Goal.NOT_FALSE,
    Goal.NOT_FALSE: Goal.NOT_TRUE,
}
_NULL_COUNTS = (Goal.NOT_TRUE, Goal.NOT_FALSE)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """A set of values of one column.

    ``intervals`` are sorted and disjoint, in the domain of the column's SQL type (see
    :mod:`tidelog.expr.conditions.intervals`): microseconds for a timestamp in microseconds, unscaled integers for
    decimals, bytes for text. ``nulls`` and ``nans`` say whether NULL and NaN belong to the set; NaN is in no interval.
    """

    column: str
    type: pa.DataType
    intervals: Intervals
    nulls: bool = False
    nans: bool = False

    @property
    def low(self) -> Any:
        """The lower end of the lowest interval; None if there is no bound or no interval."""
        return self.intervals[0].low if self.intervals else None

    @property
    def high(self) -> Any:
        """The upper end of the highest interval; None if there is no bound or no interval."""
        return self.intervals[-1].high if self.intervals else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is in the set."""
        return not (self.intervals or self.nulls or self.nans)

    @property
    def is_everything(self) -> bool:
        """Whether the set excludes nothing."""
        return self.intervals == EVERYTHING and self.nulls and (self.nans or not is_float(self.type))

    def intersect(self, other: ColumnRange) -> ColumnRange:
        """The values in both sets of the same column."""
        both = self._tidied(intersect(self.intervals, other.intervals))
        return ColumnRange(self.column, self.type, both, self.nulls and other.nulls, self.nans and other.nans)

    def unite(self, other: ColumnRange) -> ColumnRange:
        """The values in either set of the same column."""
        either = self._tidied(unite((*self.intervals, *other.intervals)))
        return ColumnRange(self.column, self.type, either, self.nulls or other.nulls, self.nans or other.nans)

    def _tidied(self, intervals: Intervals) -> Intervals:
        discrete = not (is_float(self.type) or self.type in (VARCHAR, BLOB))
        return at_most(closed(intervals) if discrete else intervals, MOST_INTERVALS)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something about a row: base of the classes below."""


@dataclass(frozen=True, slots=True)
class InRange(Condition):
    """A column's value is in a set."""

    range: ColumnRange


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """All parts hold; with no parts, always."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """Some part holds; with no parts, never."""

    parts: tuple[Condition, ...]


ALWAYS = AllOf(())
NEVER = AnyOf(())


def all_of(parts: list[Condition]) -> Condition:
    """A condition that holds if all parts do, in its simplest form."""
    flat = [each for part in parts for each in (part.parts if isinstance(part, AllOf) else (part,))]
    if NEVER in flat:
        return NEVER
    return flat[0] if len(flat) == 1 else AllOf(tuple(flat))


def any_of(parts: list[Condition]) -> Condition:
    """A condition that holds if some part does, in its simplest form."""
    flat = [each for part in parts for each in (part.parts if isinstance(part, AnyOf) else (part,))]
    if ALWAYS in flat:
        return ALWAYS
    return flat[0] if len(flat) == 1 else AnyOf(tuple(flat))


def condition(node: Node, goal: Goal) -> Condition:
    """What must hold for a row in which the boolean ``node`` comes out as ``goal`` says."""
    if node.type != BOOLEAN:
        return ALWAYS
    if node.is_constant:
        return _of_constant(node, goal)
    if isinstance(node, Column):
        return _in_set(node, ValueSet((Interval(1, True, 1, True),)), goal)
    if not isinstance(node, Call):
        return ALWAYS
    if node.name in ("and", "or"):
        parts = [condition(part, goal) for part in node.arguments]
        conjunction = (node.name == "and") == (goal in (Goal.TRUE, Goal.NOT_FALSE))
        return all_of(parts) if conjunction else any_of(parts)
    if node.name == "not":
        return condition(node.arguments[0], _NEGATED[goal])
    rule = _RULES.get(node.name)
    return ALWAYS if rule is None else rule(node, goal)


def _of_constant(node: Node, goal: Goal) -> Condition:
    try:
        value = constant_value(node).as_py()
    except ExpressionError:
        return ALWAYS  # evaluating it must raise, so rows must be read
    holds = {
        Goal.TRUE: value is True,
        Goal.FALSE: value is False,
        Goal.NOT_TRUE: value is not True,
        Goal.NOT_FALSE: value is not False,
    }[goal]
    return ALWAYS if holds else NEVER


def _in_set(column: Column, values: ValueSet, goal: Goal, *, direct: bool = True) -> Condition:
    """The condition for a test that is true exactly for some values of a column, and NULL for NULL."""
    if goal is Goal.NOT_TRUE and not direct:
        return ALWAYS  # arithmetic on the column may raise, and nobody may call the outcome certain
    if goal in (Goal.FALSE, Goal.NOT_TRUE):
        values = ValueSet(complement(values.intervals), not values.nans)
    nans = values.nans and is_float(column.type)
    empty = ColumnRange(column.name, column.type, NOTHING)
    found = ColumnRange(column.name, column.type, empty._tidied(values.intervals), goal in _NULL_COUNTS, nans)
    if found.is_everything:
        return ALWAYS
    return NEVER if found.is_empty else InRange(found)


def _compare(operator: str, left: Node, right: Node, goal: Goal) -> Condition:
    if left.is_constant:
        operator, left, right = MIRRORED[operator], right, left
    if not right.is_constant:
        return ALWAYS
    try:
        constant = constant_value(right)
    except ExpressionError:
        return ALWAYS
    return _compare_with(operator, left, constant, goal)


def _compare_with(operator: str, left: Node, constant: pa.Scalar, goal: Goal) -> Condition:
    if not constant.is_valid:  # the comparison is NULL whatever the column
        return ALWAYS if goal in _NULL_COUNTS else NEVER
    found = monotone(left)
    point = point_of(constant)
    values = None if found is None or point is None else found.back(operator, point)
    if found is None or values is None:
        return ALWAYS
    return _in_set(found.column, values, goal, direct=found.direct)


def _comparison(node: Call, goal: Goal) -> Condition:
    return _compare(node.name, node.arguments[0], node.arguments[1], goal)


def _between(node: Call, goal: Goal) -> Condition:
    value, low, high = node.arguments
    parts = [_compare(">=", value, low, goal), _compare("<=", value, high, goal)]
    return all_of(parts) if goal in (Goal.TRUE, Goal.NOT_FALSE) else any_of(parts)


@dataclass(frozen=True, slots=True)
class InPoints(Condition):
    """A column's value is one of many: sorted numbers, or the first eight bytes of text as words that sort alike.

    ``nulls`` and ``nans`` as in :class:`ColumnRange`.
    """

    column: str
    type: pa.DataType
    points: npt.NDArray[Any] = field(compare=False)
    nulls: bool
    nans: bool


def _in_many(value: Node, known: ConstantSet, goal: Goal) -> Condition:
    """The condition for a value being among so many constants that they are not looked at one by one."""
    if goal not in (Goal.TRUE, Goal.NOT_FALSE):
        return NEVER if known.has_null and goal is Goal.FALSE else ALWAYS
    if known.has_null and goal is Goal.NOT_FALSE:
        return ALWAYS
    parts = []
    if known.bounds is not None:
        low, high = known.bounds
        parts.append(all_of([_compare_with(">=", value, low, goal), _compare_with("<=", value, high, goal)]))
    if known.has_nan:
        parts.append(_compare_with("=", value, pa.scalar(math.nan, known.type), goal))
    found = any_of(parts)
    column, points = _unconverted(value), known.points()
    if column is None or points is None or found == NEVER:
        return found
    return all_of([found, InPoints(column.name, column.type, points, goal in _NULL_COUNTS, known.has_nan)])


def _unconverted(value: Node) -> Column | None:
    """The column whose values, as numbers, are those of an expression."""
    while isinstance(value, Cast) and not value.lenient and is_integer(value.operand.type) and is_integer(value.type):
        value = value.operand
    return value if isinstance(value, Column) else None


def _in(node: Call, goal: Goal) -> Condition:
    value, *members = node.arguments
    if isinstance(members[0], Members):
        if members[0].count > MOST_INTERVALS:
            parts = [_in_many(value, constants(members[0]), goal)]
            parts += [_compare("=", value, member, goal) for member in members[1:]]
            return any_of(parts) if goal in (Goal.TRUE, Goal.NOT_FALSE) else all_of(parts)
        members[:1] = [Cast(members[0].type, each, implicit=True) for each in members[0].singly()]
    parts = [_compare("=", value, member, goal) for member in members]
    if goal not in (Goal.TRUE, Goal.NOT_FALSE):
        return _as_one(all_of(parts), together=True)
    return _as_one(any_of(parts), together=False)


def _as_one(found: Condition, *, together: bool) -> Condition:
    """Ranges of one column as one range: the members of a long IN list are looked at as a whole."""
    parts = found.parts if isinstance(found, AllOf | AnyOf) else ()
    ranges = [part.range for part in parts if isinstance(part, InRange)]
    if len(parts) < 2 or len(ranges) < len(parts) or len({each.column for each in ranges}) > 1:
        return found
    if together:
        result = ranges[0]
        for each in ranges[1:]:
            result = result.intersect(each)
        return NEVER if result.is_empty else InRange(result)
    first = ranges[0]
    intervals = first._tidied(unite(interval for each in ranges for interval in each.intervals))
    nulls, nans = any(each.nulls for each in ranges), any(each.nans for each in ranges)
    return InRange(ColumnRange(first.column, first.type, intervals, nulls, nans))


def _null_test(node: Call, goal: Goal) -> Condition:
    wanted = (node.name == "is null") == (goal in (Goal.TRUE, Goal.NOT_FALSE))
    operand = node.arguments[0]
    if not isinstance(operand, Column):
        return ALWAYS
    if wanted:
        return InRange(ColumnRange(operand.name, operand.type, NOTHING, nulls=True))
    return InRange(ColumnRange(operand.name, operand.type, EVERYTHING, nans=is_float(operand.type)))


def _truth_test(node: Call, goal: Goal) -> Condition:
    about_truth, negated = node.name.endswith("true"), " not " in node.name
    holds = goal in (Goal.TRUE, Goal.NOT_FALSE)  # the test itself is never NULL
    goals = (Goal.TRUE, Goal.NOT_TRUE) if about_truth else (Goal.FALSE, Goal.NOT_FALSE)
    return condition(node.arguments[0], goals[0] if holds != negated else goals[1])


def _distinct_test(node: Call, goal: Goal) -> Condition:
    left, right = node.arguments
    if left.is_constant:
        left, right = right, left
    if not isinstance(left, Column) or not right.is_constant:
        return ALWAYS
    same = (node.name == "is not distinct from") == (goal in (Goal.TRUE, Goal.NOT_FALSE))
    constant = constant_or_none(right)
    if constant is None:
        return (
            ALWAYS
            if not _is_null(right)
            else _null_test(Call(BOOLEAN, "is null" if same else "is not null", (left,)), Goal.TRUE)
        )
    point = point_of(constant)
    if point is None:
        return ALWAYS
    values = compared("=", point, left.type)
    return _in_set(left, values, Goal.TRUE if same else Goal.NOT_TRUE)


def _is_null(node: Node) -> bool:
    try:
        return not constant_value(node).is_valid
    except ExpressionError:
        return False


def _text_range(low: str) -> Intervals:
    """All text that starts with ``low``."""
    prefix = low.encode()
    if not prefix:
        return EVERYTHING
    return (Interval(prefix, True, prefix[:-1] + bytes([prefix[-1] + 1]), False),)  # no byte of UTF-8 is 0xff


def _like(node: Call, goal: Goal) -> Condition:
    column = node.arguments[0]
    texts = [constant_or_none(argument) for argument in node.arguments[1:]]
    if not isinstance(column, Column) or None in texts:
        return ALWAYS
    try:
        parts = like_parts(*(str(text.as_py()) for text in texts), *([None] if len(texts) == 1 else []))  # type: ignore[union-attr]
    except ExpressionError:
        return ALWAYS
    prefix = literal_prefix(parts)
    if len(prefix) == len(parts):
        return _in_set(column, compared("=", prefix.encode(), column.type), goal)
    if is_prefix_pattern(parts):
        return _in_set(column, ValueSet(_text_range(prefix)), goal)
    return _in_set(column, ValueSet(_text_range(prefix)), goal) if goal in (Goal.TRUE, Goal.NOT_FALSE) else ALWAYS


def _starts_with(node: Call, goal: Goal) -> Condition:
    column, prefix = node.arguments
    text = constant_or_none(prefix) if prefix.is_constant else None
    if not isinstance(column, Column) or text is None:
        return ALWAYS
    return _in_set(column, ValueSet(_text_range(text.as_py())), goal)


def _isnan(node: Call, goal: Goal) -> Condition:
    column = node.arguments[0]
    if not isinstance(column, Column):
        return ALWAYS
    return _in_set(column, ValueSet(NOTHING, True), goal)


_RULES = {
    **dict.fromkeys(COMPARISONS, _comparison),
    "between": _between,
    "in": _in,
    "is null": _null_test,
    "is not null": _null_test,
    **{f"is {negation}{truth}": _truth_test for negation in ("", "not ") for truth in ("true", "false")},
    "is distinct from": _distinct_test,
    "is not distinct from": _distinct_test,
    "like": _like,
    "starts_with": _starts_with,
    "isnan": _isnan,
}
