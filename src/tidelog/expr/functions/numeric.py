"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.arithmetic import NUMERIC
from tidelog.expr.functions.signatures import register, same
from tidelog.expr.tree import Cast, Literal, Node, Value
from tidelog.expr.values import decimals
from tidelog.expr.values.types import (
    BOOLEAN,
    HUGEINT,
    INTEGER,
    INTEGERS,
    SIGNED,
    decimal_type,
    is_decimal,
    is_float,
    is_integer,
    sql_name,
)
from tidelog.expr.values.vectors import all_valid, broadcast, is_scalar, length_of, made, numbers, per_distinct, refuse

_FLOATS = ("FLOAT", "DOUBLE")
_REAL = "number"


def _register_real(name: str, function: Callable[[Any], Any]) -> None:
    """A function from DOUBLE to DOUBLE by a NumPy function; outside its domain it gives NaN or an infinity."""

    @register(name, _REAL, "DOUBLE -> DOUBLE", total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        with np.errstate(all="ignore"):
            return made(function(numbers(values[0])), all_valid(values), result)


def _even(values: Any) -> Any:
    """Away from zero to the next even integer."""
    up = np.ceil(np.abs(values))
    return np.copysign(up + (np.fmod(up, 2) != 0), values)


_vector_gamma = np.frompyfunc(lambda x: _gamma(float(x)), 1, 1)
_vector_lgamma = np.frompyfunc(lambda x: _lgamma(float(x)), 1, 1)


def _gamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


_REAL_FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("sqrt", np.sqrt),
    ("cbrt", np.cbrt),
    ("exp", np.exp),
    ("ln", np.log),
    ("log10", np.log10),
    ("log2", np.log2),
    ("sin", np.sin),
    ("cos", np.cos),
    ("tan", np.tan),
    ("cot", lambda x: 1.0 / np.tan(x)),
    ("asin", np.arcsin),
    ("acos", np.arccos),
    ("atan", np.arctan),
    ("sinh", np.sinh),
    ("cosh", np.cosh),
    ("tanh", np.tanh),
    ("asinh", np.arcsinh),
    ("acosh", np.arccosh),
    ("atanh", np.arctanh),
    ("degrees", lambda x: x * (180.0 / math.pi)),
    ("radians", lambda x: x * (math.pi / 180.0)),
    ("even", _even),
    ("gamma", lambda x: _vector_gamma(x).astype(np.float64)),
    ("lgamma", lambda x: _vector_lgamma(x).astype(np.float64)),
]

for _name, _function in _REAL_FUNCTIONS:
    _register_real(_name, _function)


@register("log", _REAL, "DOUBLE -> DOUBLE; DOUBLE, DOUBLE -> DOUBLE", total=True)
def _log(values: Sequence[Value], result: pa.DataType) -> Value:
    with np.errstate(all="ignore"):
        parts = [np.log10(numbers(value)) for value in values]
        return made(parts[0] if len(parts) == 1 else parts[1] / parts[0], all_valid(values), result)


@register("atan2", _REAL, "DOUBLE, DOUBLE -> DOUBLE", total=True)
def _atan2(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(np.arctan2(numbers(values[0]), numbers(values[1])), all_valid(values), result)


@register("nextafter", _REAL, same(_FLOATS, 2), total=True)
def _nextafter(values: Sequence[Value], result: pa.DataType) -> Value:
    with np.errstate(all="ignore"):
        return made(np.nextafter(numbers(values[0]), numbers(values[1])), all_valid(values), result)


@register("pi", _REAL, "-> DOUBLE", total=True)
def _pi(values: Sequence[Value], result: pa.DataType) -> Value:
    return pa.repeat(pa.scalar(math.pi, result), length_of(values))


@register("isnan", _REAL, same(_FLOATS, 1, "BOOLEAN"), total=True)
def _isnan(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(np.isnan(numbers(values[0])), all_valid(values), result)


_INSTANTS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")


def _infinite(value: Value) -> Any:
    """Infinite floats, and the largest and smallest counts, which stand for infinity in dates and timestamps."""
    values = numbers(value)
    if values.dtype.kind == "f":
        return np.isinf(values)
    largest = np.iinfo(values.dtype).max
    return (values == largest) | (values == -largest)


@register("isinf", _REAL, same((*_FLOATS, *_INSTANTS), 1, "BOOLEAN"), total=True)
def _isinf(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(_infinite(values[0]), all_valid(values), result)


@register("isfinite", _REAL, same((*_FLOATS, *_INSTANTS), 1, "BOOLEAN"), total=True)
def _isfinite(values: Sequence[Value], result: pa.DataType) -> Value:
    value = values[0]
    finite = np.isfinite(numbers(value)) if is_float(value.type) else ~_infinite(value)
    return made(finite, all_valid(values), result)


@register("signbit", _REAL, same(_FLOATS, 1, "BOOLEAN"), total=True)
def _signbit(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(np.signbit(numbers(values[0])), all_valid(values), BOOLEAN)


@register("abs", _REAL, same(NUMERIC), aliases=("@",))
def _abs(values: Sequence[Value], result: pa.DataType) -> Value:
    if is_float(result) or is_decimal(result):
        return pc.abs(values[0])
    try:
        return pc.abs_checked(values[0])
    except pa.ArrowInvalid:
        raise EvaluationError(f"overflow in abs of {sql_name(result)}; cast to a wider type") from None


@register("sign", _REAL, same((*INTEGERS, *_FLOATS), 1, "TINYINT"), total=True)
def _sign(values: Sequence[Value], result: pa.DataType) -> Value:
    value = values[0]
    if value.type == HUGEINT:
        return pc.cast(pc.sign(value), result)
    if is_integer(value.type):
        signs = np.sign(numbers(value).astype(np.int64)) if not pa.types.is_uint64(value.type) else numbers(value) > 0
        return made(signs, all_valid(values), result)
    return made(np.nan_to_num(np.sign(numbers(value))), all_valid(values), result)


def _whole_shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    type_ = arguments[0].type
    return [None], pa.decimal128(type_.precision, 0)


def _register_whole(name: str, of_floats: Callable[[Any], Any], rounding: str, aliases: Sequence[str] = ()) -> None:
    @register(name, _REAL, same((*_FLOATS, "DECIMAL")), aliases=aliases, decimals=_whole_shape)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        if is_decimal(result):
            return _decimals_rounded(values[0], 0, result, rounding)
        return made(of_floats(numbers(values[0])), all_valid(values), result)


_register_whole("ceil", np.ceil, ROUND_CEILING, ("ceiling",))
_register_whole("floor", np.floor, ROUND_FLOOR)


_MOST_PLACES = 40
"""Places before the point from which on nothing is left of any number."""


def _decimals_rounded(value: Value, places: int, result: pa.DataType, rounding: str) -> Value:
    places = max(places, -_MOST_PLACES)

    def compute(number: Decimal) -> Decimal:
        return decimals.rounded_to(decimals.rounded_to(number, places, rounding), result.scale, rounding)

    try:
        return per_distinct([value], compute, result)
    except pa.ArrowInvalid:
        raise EvaluationError(f"a value has too many digits when rounded to {sql_name(result)}") from None


def _constant_places(arguments: Sequence[Node]) -> int:
    places = arguments[1]
    while isinstance(places, Cast):
        places = places.operand
    if not (isinstance(places, Literal) and places.is_loose_integer):
        raise ExpressionError("the number of places for a decimal must be an integer literal; cast the value to DOUBLE")
    return int(places.value)  # type: ignore[arg-type]


def _round_shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    type_ = arguments[0].type
    if len(arguments) == 1:
        return [None], pa.decimal128(type_.precision, 0)
    places = _constant_places(arguments)
    if places >= type_.scale:
        return [None, INTEGER], type_
    return [None, INTEGER], decimal_type(type_.precision, max(places, 0))


def _half_away(values: Any) -> Any:
    """Rounded to integers, halves away from zero, as C's round()."""
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)


def _floats_rounded(values: Any, places: Any, to_whole: Callable[[Any], Any]) -> Any:
    """Floats rounded at some place: scaled up, rounded, scaled back; unchanged where that overflows."""
    with np.errstate(all="ignore"):
        factor = np.power(10.0, np.abs(places).astype(np.float64))
        scaled = np.where(places >= 0, values * factor, values / factor)
        rounded = to_whole(scaled)
        result = np.where(places >= 0, rounded / factor, rounded * factor)
        lost = ~np.isfinite(result)
        return np.where(lost, np.where((places >= 0) | ~np.isfinite(values), values, 0.0), result).astype(values.dtype)


def _register_round(name: str, kinds: Sequence[str], to_whole: Callable[[Any], Any], rounding: str) -> None:
    text = same(kinds) + ";" + ";".join(f"{each}, INTEGER -> {each}" for each in kinds)

    @register(name, _REAL, text, decimals=_round_shape)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        value = values[0]
        places = values[1] if len(values) > 1 else pa.scalar(0, INTEGER)
        if is_decimal(result) and result != HUGEINT:
            return _decimals_rounded(
                as_length(value, values), places.as_py() if is_scalar(places) else 0, result, rounding
            )
        length = length_of(values)
        steps = broadcast(numbers(places), length)
        if is_float(result):
            floats = broadcast(numbers(value), length)
            if len(values) == 1:
                with np.errstate(invalid="ignore"):
                    return made(to_whole(floats), all_valid(values), result)
            return made(_floats_rounded(floats, steps, to_whole), all_valid(values), result)
        if len(values) == 1 or (steps >= 0).all():
            return as_length(value, values)
        return _integers_rounded(values, result, rounding)


def as_length(value: Value, values: Sequence[Value]) -> Value:
    """A value as an array as long as the others."""
    return pa.repeat(value, length_of(values)) if is_scalar(value) else value


def _integers_rounded(values: Sequence[Value], result: pa.DataType, rounding: str) -> Value:
    def compute(number: Any, places: int) -> Any:
        if places >= 0:
            return number
        rounded = decimals.rounded_to(Decimal(int(number)), max(places, -_MOST_PLACES), rounding)
        return Decimal(int(rounded)) if result == HUGEINT else int(rounded)

    try:
        return per_distinct(values, compute, result)
    except (pa.ArrowInvalid, OverflowError):
        raise EvaluationError(f"overflow in round of {sql_name(result)}; cast to a wider type") from None


_register_round("round", (*SIGNED, *_FLOATS, "DECIMAL"), _half_away, ROUND_HALF_UP)
_register_round("trunc", (*INTEGERS, *_FLOATS, "DECIMAL"), np.trunc, ROUND_DOWN)


def _register_divisors(name: str, function: Callable[[int, int], int]) -> None:
    @register(name, _REAL, "BIGINT, BIGINT -> BIGINT; HUGEINT, HUGEINT -> HUGEINT")
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        wide = result == HUGEINT
        try:
            return per_distinct(
                values, lambda a, b: Decimal(function(int(a), int(b))) if wide else function(a, b), result
            )
        except (OverflowError, pa.ArrowInvalid):
            raise EvaluationError(f"overflow in {name} of {sql_name(result)}") from None


_register_divisors("gcd", math.gcd)
_register_divisors("lcm", math.lcm)


@register("factorial", _REAL, "INTEGER -> HUGEINT")
def _factorial(values: Sequence[Value], result: pa.DataType) -> Value:
    refuse(numbers(values[0]) < 0, all_valid(values), "the factorial of a negative number is not defined")
    refuse(numbers(values[0]) > 33, all_valid(values), "overflow in factorial; 33 is the largest argument")
    return per_distinct(values, lambda n: Decimal(math.factorial(n)), result)


@register("bit_count", _REAL, same(SIGNED, 1, "TINYINT"), total=True)
def _bit_count(values: Sequence[Value], result: pa.DataType) -> Value:
    if values[0].type == HUGEINT:
        return per_distinct(values, lambda number: (int(number) % 2**128).bit_count(), result)
    array = numbers(values[0])
    bits = np.bitwise_count(array.view(f"u{array.dtype.itemsize}"))
    return made(bits, all_valid(values), result)
