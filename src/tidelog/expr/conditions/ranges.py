"""The ranges that a predicate confines columns to, for indexes that know one column each."""

from __future__ import annotations

from tidelog.expr.conditions.condition import (
    NEVER,
    AllOf,
    AnyOf,
    ColumnRange,
    Condition,
    Goal,
    InPoints,
    InRange,
    condition,
)
from tidelog.expr.conditions.intervals import NOTHING, closed, complement
from tidelog.expr.expression import Expression
from tidelog.expr.values.types import BLOB, VARCHAR, is_float

__all__ = ["ColumnRange", "column_ranges", "exact_range"]


def column_ranges(expression: Expression) -> dict[str, ColumnRange]:
    """For each column that a boolean expression confines, the values it has in rows that satisfy it.

    A row can satisfy the expression only if every column listed lies in its range. Columns that may have any value are
    not listed; an expression that no row can satisfy has an empty range for some column, or, if it uses none, gives
    a range for the column ``""``.
    """
    found = _ranges(condition(expression.node, Goal.TRUE))
    if found is None:
        name = next(iter(expression.columns), "")
        return {name: ColumnRange(name, expression.type, NOTHING)}
    return {name: each for name, each in found.items() if not each.is_everything}


def _ranges(found: Condition) -> dict[str, ColumnRange] | None:
    """Ranges by column; None if no row fits."""
    if found == NEVER:
        return None
    if isinstance(found, InPoints):  # always beside a range that has them all
        return {}
    if isinstance(found, InRange):
        return {found.range.column: found.range}
    if isinstance(found, AllOf):
        result: dict[str, ColumnRange] = {}
        for part in found.parts:
            inner = _ranges(part)
            if inner is None:
                return None
            for name, each in inner.items():
                result[name] = result[name].intersect(each) if name in result else each
        return None if any(each.is_empty for each in result.values()) else result
    assert isinstance(found, AnyOf)
    possible = [inner for part in found.parts if (inner := _ranges(part)) is not None]
    if not possible:
        return None
    united = dict(possible[0])
    for inner in possible[1:]:
        united = {name: each.unite(inner[name]) for name, each in united.items() if name in inner}
    return united


def exact_range(possible: Condition, uncertain: Condition) -> ColumnRange | None:
    """The values of one column for which a predicate is true, if it is true for all of them and for no others.

    ``possible`` is what must hold where the predicate is true, ``uncertain`` where it is not: if these are ranges of
    one column that complement each other, both are exact. None if they do not, or if the predicate is true for NULL.
    """
    inside, outside = _only_range(possible), _only_range(uncertain)
    if inside is None or outside is None or inside.column != outside.column or inside.nulls or not outside.nulls:
        return None
    rest = complement(outside.intervals)
    if not (is_float(inside.type) or inside.type in (VARCHAR, BLOB)):
        rest = closed(rest)
    if rest != inside.intervals or (is_float(inside.type) and inside.nans == outside.nans):
        return None
    return inside


def _only_range(found: Condition) -> ColumnRange | None:
    """A condition as a range of the one column that it is about; None if it is not about one."""
    if isinstance(found, InRange):
        return found.range
    if isinstance(found, InPoints):
        return None
    assert isinstance(found, AllOf | AnyOf)
    ranges = [_only_range(part) for part in found.parts]
    result = ranges[0] if ranges else None
    for each in ranges[1:]:
        if result is None or each is None or each.column != result.column:
            return None
        result = result.intersect(each) if isinstance(found, AllOf) else result.unite(each)
    return result
