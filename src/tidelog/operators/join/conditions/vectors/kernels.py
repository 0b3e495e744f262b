"""Operations on vectors: arithmetic, comparisons and logic, each of two vectors, or of a vector and a constant.

Loops do nothing else, so that they are vectors for the processor too.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tidelog.jit import called, i64

ADD: Final = 0
SUBTRACT: Final = 1
SUBTRACT_FROM: Final = 2
MULTIPLY: Final = 3
DIVIDE: Final = 4
DIVIDE_INTO: Final = 5
SQUARE: Final = 6
"""The square of a difference."""
ADD_SQUARE: Final = 7
"""The same, added to what the result was."""
NEGATE: Final = 8
ABSOLUTE: Final = 9
ROOT: Final = 10
NARROW: Final = 11
"""Rounded to 32 bits."""
BOUND: Final = 12
"""What the operand is; a fault unless its size is below a constant."""
LESS: Final = 20
LESS_EQUAL: Final = 21
GREATER: Final = 22
GREATER_EQUAL: Final = 23
EQUAL: Final = 24
UNEQUAL: Final = 25
AND: Final = 30
OR: Final = 31

_LARGE: Final = 1 << 62
_HALF: Final = 1 << 31


@called
def floats(operation: Any, result: Any, one: Any, other: Any, count: Any) -> Any:
    """Arithmetic on floats, of two vectors; true for a fault."""
    if operation == ADD:
        for at in range(count):
            result[at] = one[at] + other[at]
    elif operation == SUBTRACT:
        for at in range(count):
            result[at] = one[at] - other[at]
    elif operation == MULTIPLY:
        for at in range(count):
            result[at] = one[at] * other[at]
    elif operation == DIVIDE:
        for at in range(count):
            result[at] = one[at] / other[at]
    elif operation == SQUARE:
        for at in range(count):
            away = one[at] - other[at]
            result[at] = away * away
    elif operation == ADD_SQUARE:
        for at in range(count):
            away = one[at] - other[at]
            result[at] += away * away
    return False


@called
def floats_with(operation: Any, result: Any, one: Any, other: Any, count: Any) -> Any:
    """Arithmetic on floats, of a vector and a constant; true for a fault."""
    if operation == ADD:
        for at in range(count):
            result[at] = one[at] + other
    elif operation == SUBTRACT:
        for at in range(count):
            result[at] = one[at] - other
    elif operation == SUBTRACT_FROM:
        for at in range(count):
            result[at] = other - one[at]
    elif operation == MULTIPLY:
        for at in range(count):
            result[at] = one[at] * other
    elif operation == DIVIDE:
        for at in range(count):
            result[at] = one[at] / other
    elif operation == DIVIDE_INTO:
        for at in range(count):
            result[at] = other / one[at]
    elif operation == SQUARE:
        for at in range(count):
            away = one[at] - other
            result[at] = away * away
    elif operation == ADD_SQUARE:
        for at in range(count):
            away = one[at] - other
            result[at] += away * away
    elif operation == NEGATE:
        for at in range(count):
            result[at] = -one[at]
    elif operation == ABSOLUTE:
        for at in range(count):
            result[at] = abs(one[at])
    elif operation == ROOT:
        is_negative = False
        for at in range(count):
            is_negative |= one[at] < 0
            result[at] = math.sqrt(one[at])
        return is_negative
    elif operation == NARROW:
        for at in range(count):
            result[at] = np.float32(one[at])
    return False


@called
def three_squares(
    adds: Any, result: Any, one: Any, two: Any, three: Any, first: Any, second: Any, third: Any, count: Any
) -> None:
    """The squares of differences of three vectors and constants, in their order; added to what there was if ``adds``.

    The same as three operations, one after the other, of which only the last one writes.
    """
    if adds:
        for at in range(count):
            away, next_away, last_away = one[at] - first, two[at] - second, three[at] - third
            result[at] = result[at] + away * away + next_away * next_away + last_away * last_away
    else:
        for at in range(count):
            away, next_away, last_away = one[at] - first, two[at] - second, three[at] - third
            result[at] = away * away + next_away * next_away + last_away * last_away


@called
def compared_floats(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Comparisons of two vectors of floats: NaN equals itself, and is above everything."""
    if operation == LESS:
        for at in range(count):
            result[at] = (one[at] < other[at]) | ((other[at] != other[at]) & (one[at] == one[at]))
    elif operation == LESS_EQUAL:
        for at in range(count):
            result[at] = (one[at] <= other[at]) | (other[at] != other[at])
    elif operation == GREATER:
        for at in range(count):
            result[at] = (one[at] > other[at]) | ((one[at] != one[at]) & (other[at] == other[at]))
    elif operation == GREATER_EQUAL:
        for at in range(count):
            result[at] = (one[at] >= other[at]) | (one[at] != one[at])
    elif operation == EQUAL:
        for at in range(count):
            result[at] = (one[at] == other[at]) | ((one[at] != one[at]) & (other[at] != other[at]))
    else:
        for at in range(count):
            result[at] = (one[at] != other[at]) & ((one[at] == one[at]) | (other[at] == other[at]))


@called
def compared_floats_with(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Comparisons of a vector of floats with a constant."""
    is_nan = other != other
    if operation == LESS:
        for at in range(count):
            result[at] = (one[at] < other) | (is_nan & (one[at] == one[at]))
    elif operation == LESS_EQUAL:
        for at in range(count):
            result[at] = (one[at] <= other) | is_nan
    elif operation == GREATER:
        for at in range(count):
            result[at] = (one[at] > other) | ((one[at] != one[at]) & (not is_nan))
    elif operation == GREATER_EQUAL:
        for at in range(count):
            result[at] = (one[at] >= other) | (one[at] != one[at])
    elif operation == EQUAL:
        for at in range(count):
            result[at] = (one[at] == other) | ((one[at] != one[at]) & is_nan)
    else:
        for at in range(count):
            result[at] = (one[at] != other) & ((one[at] == one[at]) | (not is_nan))


@called
def integers(operation: Any, result: Any, one: Any, other: Any, count: Any) -> Any:
    """Arithmetic on integers, of two vectors; true if it may be too much for 64 bits."""
    limit = _HALF if operation == MULTIPLY else _LARGE
    is_large = False
    for at in range(count):
        is_large |= (one[at] >= limit) | (one[at] <= -limit) | (other[at] >= limit) | (other[at] <= -limit)
    if operation == ADD:
        for at in range(count):
            result[at] = one[at] + other[at]
    elif operation == SUBTRACT:
        for at in range(count):
            result[at] = one[at] - other[at]
    elif operation == MULTIPLY:
        for at in range(count):
            result[at] = one[at] * other[at]
    return is_large


@called
def integers_with(operation: Any, result: Any, one: Any, other: Any, count: Any) -> Any:
    """Arithmetic on integers, of a vector and a constant; true if it may be too much for 64 bits."""
    limit = i64(_HALF) if operation == MULTIPLY else other if operation == BOUND else i64(_LARGE)
    is_large = operation != BOUND and (other >= limit or other <= -limit)
    for at in range(count):
        is_large |= (one[at] >= limit) | (one[at] <= -limit)
    if operation == ADD:
        for at in range(count):
            result[at] = one[at] + other
    elif operation == SUBTRACT:
        for at in range(count):
            result[at] = one[at] - other
    elif operation == SUBTRACT_FROM:
        for at in range(count):
            result[at] = other - one[at]
    elif operation == MULTIPLY:
        for at in range(count):
            result[at] = one[at] * other
    elif operation == NEGATE:
        for at in range(count):
            result[at] = -one[at]
    elif operation == ABSOLUTE:
        for at in range(count):
            result[at] = abs(one[at])
    elif operation == BOUND:
        for at in range(count):
            result[at] = one[at]
    return is_large


@called
def compared_integers(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Comparisons of two vectors of integers."""
    if operation == LESS:
        for at in range(count):
            result[at] = one[at] < other[at]
    elif operation == LESS_EQUAL:
        for at in range(count):
            result[at] = one[at] <= other[at]
    elif operation == GREATER:
        for at in range(count):
            result[at] = one[at] > other[at]
    elif operation == GREATER_EQUAL:
        for at in range(count):
            result[at] = one[at] >= other[at]
    elif operation == EQUAL:
        for at in range(count):
            result[at] = one[at] == other[at]
    else:
        for at in range(count):
            result[at] = one[at] != other[at]


@called
def compared_integers_with(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Comparisons of a vector of integers with a constant."""
    if operation == LESS:
        for at in range(count):
            result[at] = one[at] < other
    elif operation == LESS_EQUAL:
        for at in range(count):
            result[at] = one[at] <= other
    elif operation == GREATER:
        for at in range(count):
            result[at] = one[at] > other
    elif operation == GREATER_EQUAL:
        for at in range(count):
            result[at] = one[at] >= other
    elif operation == EQUAL:
        for at in range(count):
            result[at] = one[at] == other
    else:
        for at in range(count):
            result[at] = one[at] != other


@called
def logic(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Both, or one of two vectors of flags."""
    if operation == AND:
        for at in range(count):
            result[at] = one[at] & other[at]
    else:
        for at in range(count):
            result[at] = one[at] | other[at]


@called
def logic_with(operation: Any, result: Any, one: Any, other: Any, count: Any) -> None:
    """Both, or one of flags and a constant."""
    if operation == AND:
        for at in range(count):
            result[at] = one[at] & other
    else:
        for at in range(count):
            result[at] = one[at] | other
