"""Bands: conditions by which the difference, or the sum, of a number of one row and one of the other has bounds.

They tell where partners may be, not where they are: bounds are a little wider than what arithmetic can lose. Whether a
pair is wanted is for the whole condition to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.expr.evaluate import constant_value
from tidelog.expr.functions.comparison import COMPARISONS, MIRRORED
from tidelog.expr.tree import Call, Cast, Node
from tidelog.operators.join.conditions.program import LEFT, Sides, Unsupported, leaf_column, values_of

_STEPS: Final = 32
"""Roundings that are reckoned with."""


@dataclass(frozen=True)
class Band:
    """``low <= left + right <= high`` for numbers of both rows, each taken with its sign."""

    leaves: tuple[Node, Node]
    signs: tuple[float, float]
    low: float
    high: float
    size: float
    """That of all constants together."""
    precision: float
    largest: float
    """Numbers beyond this are not looked at: they may have anything for a partner."""

    @property
    def has_both(self) -> bool:
        """Whether it has an end on both sides."""
        return self.low > -math.inf and self.high < math.inf

    def values(self, side: int, batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
        """The numbers of rows with their signs: NaN for NULL, which has no partners; infinity for what may have any."""
        leaf = self.leaves[side]
        numbers = values_of(leaf, batch, np.dtype(np.float64)) * self.signs[side]
        numbers[~(np.abs(numbers) <= self.largest)] = math.inf
        column = leaf_column(leaf)
        assert column is not None
        array = batch.column(column.name)
        if array.null_count:
            numbers[~np.asarray(array.is_valid())] = math.nan
        return numbers

    def bounds(self, values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Between which numbers partners of rows are; values are finite."""
        slack = (np.abs(values) + self.size) * (_STEPS * self.precision)
        return self.low - values - slack, self.high - values + slack


def band_of(conjuncts: Sequence[Node], sides: Sides) -> Band | None:
    """The narrowest band among some conditions that must all hold; None if there is none."""
    found: dict[Any, Band] = {}
    for node in conjuncts:
        for band in _bands(node, sides):
            key = (band.leaves, band.signs)
            known = found.get(key)
            if known is not None:
                band = replace(
                    known,
                    low=max(known.low, band.low),
                    high=min(known.high, band.high),
                    size=max(known.size, band.size),
                    precision=max(known.precision, band.precision),
                    largest=min(known.largest, band.largest),
                )
            found[key] = band
    return max(found.values(), key=lambda band: (band.has_both, -(band.high - band.low)), default=None)


def _bands(node: Node, sides: Sides) -> Iterator[Band]:
    if not isinstance(node, Call):
        return
    if node.name == "between":
        value, low, high = node.arguments
        comparisons = [(">=", value, low), ("<=", value, high)]
    elif node.name in COMPARISONS and node.name != "<>":
        comparisons = [(node.name, node.arguments[0], node.arguments[1])]
    else:
        return
    for name, one, other in comparisons:
        for operator, left, right in _without_absolute(name, one, other):
            band = _band(operator, left, right, sides)
            if band is not None:
                yield band


def _without_absolute(name: str, one: Node, other: Node) -> Iterator[tuple[str, _Sum, _Sum]]:
    """Comparisons that hold if one does, without an absolute value on either side."""
    if _is_absolute(other):
        name, one, other = MIRRORED[name], other, one
    left, right = _sum(one.operands[0] if _is_absolute(one) else one), _sum(other)
    if left is None or right is None:
        return
    if not _is_absolute(one):
        yield name, left, right
    elif name in ("<", "<=", "="):
        yield "<=", left, right
        yield ">=", left, right.negated


def _is_absolute(node: Node) -> bool:
    return isinstance(node, Call) and node.name == "abs"


@dataclass(frozen=True)
class _Sum:
    """A sum of columns, each with a sign, and constants."""

    terms: tuple[tuple[Node, float], ...]
    constant: float
    size: float
    is_narrow: bool

    @property
    def negated(self) -> _Sum:
        return _Sum(tuple((leaf, -sign) for leaf, sign in self.terms), -self.constant, self.size, self.is_narrow)

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(
            self.terms + other.terms,
            self.constant + other.constant,
            self.size + other.size,
            self.is_narrow or other.is_narrow,
        )


def _sum(node: Node) -> _Sum | None:
    is_narrow = pa.types.is_float32(node.type)
    column = leaf_column(node)
    if column is not None:
        return _Sum(((node, 1.0),), 0.0, 0.0, is_narrow or pa.types.is_float32(column.type))
    if node.is_constant:
        return _constant(node, is_narrow)
    if isinstance(node, Cast):
        is_wider = pa.types.is_float32(node.operand.type) and pa.types.is_float64(node.type)
        return _sum(node.operand) if is_wider and not node.lenient else None
    if not isinstance(node, Call) or node.name not in ("+", "-"):
        return None
    parts = [_sum(each) for each in node.arguments]
    sums = [part for part in parts if part is not None]
    if len(sums) < len(parts):
        return None
    if node.name == "-":
        sums[-1] = sums[-1].negated
    return sums[0] if len(sums) == 1 else sums[0].plus(sums[1])


def _constant(node: Node, is_narrow: bool) -> _Sum | None:
    try:
        value = constant_value(node)
        if pa.types.is_timestamp(value.type):
            value = value.cast(pa.int64())
        number = float(value.as_py())
    except (ExpressionError, TypeError, ValueError):
        return None
    return _Sum((), number, abs(number), is_narrow) if math.isfinite(number) else None


def _band(name: str, one: _Sum, other: _Sum, sides: Sides) -> Band | None:
    """The band of a comparison of two sums."""
    whole = one.plus(other.negated)
    if len(whole.terms) != 2:
        return None
    try:
        of = [sides.of(column) for leaf, _ in whole.terms if (column := leaf_column(leaf)) is not None]
    except Unsupported:
        return None
    if sorted(of) != [0, 1]:
        return None
    terms = whole.terms if of[0] == LEFT else whole.terms[::-1]
    (left, left_sign), (right, right_sign) = terms
    low = -whole.constant if name in (">", ">=", "=") else -math.inf
    high = -whole.constant if name in ("<", "<=", "=") else math.inf
    if left_sign < 0:
        left_sign, right_sign, low, high = 1.0, -right_sign, -high, -low
    precision, largest = (2.0**-23, 1e36) if whole.is_narrow else (2.0**-52, 1e300)
    if whole.size > largest:
        return None
    return Band((left, right), (left_sign, right_sign), low, high, whole.size, precision, largest)
