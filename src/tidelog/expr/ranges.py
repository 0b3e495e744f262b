"""The ranges that a predicate confines columns to, for indexes that know one column each."""

from __future__ import annotations

from tidelog.expr.conditions import NEVER, AllOf, AnyOf, ColumnRange, Condition, Goal, InRange, condition
from tidelog.expr.intervals import NOTHING
from tidelog.expr.tree import Expression

__all__ = ["ColumnRange", "column_ranges"]


def column_ranges(expression: Expression) -> dict[str, ColumnRange]:
    """For each column that a boolean expression confines, the values it has in rows that satisfy it.

    A row can satisfy the expression only if every column listed lies in its range. Columns that may have any value are
    not listed; an expression that no row can satisfy has an empty range for some column, or, if it uses none, gives
    a range for the column ``""``.
    """
    found = _ranges(condition(expression, Goal.TRUE))
    if found is None:
        name = next(iter(expression.columns), "")
        return {name: ColumnRange(name, expression.type, NOTHING)}
    return {name: each for name, each in found.items() if not each.is_everything}


def _ranges(found: Condition) -> dict[str, ColumnRange] | None:
    """Ranges by column; None if no row fits."""
    if found == NEVER:
        return None
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
