"""Functions of text and of bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.signatures import Shape, register
from tidelog.expr.tree import Expression, Value
from tidelog.expr.types import BIGINT, BLOB, NULL, VARCHAR
from tidelog.expr.vectors import as_array, is_scalar, length_of, per_distinct

_TEXT = "text"


def _kernel(name: str, theme_signature: str, kernel: Callable[..., Any], aliases: Sequence[str] = ()) -> None:
    """A function of one argument that an Arrow kernel computes."""

    @register(name, _TEXT, theme_signature, aliases=aliases, total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        return pc.cast(kernel(values[0]), result)


_kernel("lower", "VARCHAR -> VARCHAR", pc.utf8_lower, ("lcase",))
_kernel("upper", "VARCHAR -> VARCHAR", pc.utf8_upper, ("ucase",))
_kernel("length", "VARCHAR -> BIGINT", pc.utf8_length, ("len", "char_length", "character_length"))
_kernel("strlen", "VARCHAR -> BIGINT", pc.binary_length)
_kernel("octet_length", "BLOB -> BIGINT", pc.binary_length)
_kernel("bit_length", "VARCHAR -> BIGINT", lambda value: pc.multiply(pc.cast(pc.binary_length(value), BIGINT), 8))
_kernel("reverse", "VARCHAR -> VARCHAR", pc.utf8_reverse)


def _each(name: str, text: str, compute: Callable[..., Any], aliases: Sequence[str] = (), total: bool = True) -> None:
    """A function computed in Python once for every distinct combination of arguments."""

    @register(name, _TEXT, text, aliases=aliases, total=total)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        return per_distinct(values, compute, result)


def _all_constant(values: Sequence[Value]) -> bool:
    """Whether all arguments but the first are the same in every row, as Arrow's kernels want it."""
    return not is_scalar(values[0]) and all(is_scalar(value) for value in values[1:])


def substring(text: str, start: int, count: int | None = None) -> str:
    """Characters from ``start`` on, counted from 1, or from the end if negative; a negative count goes back."""
    begin = start if start >= 0 else len(text) + 1 + start
    if count is None:
        return text[max(begin - 1, 0) :]
    first, last = (begin, begin + count) if count >= 0 else (begin + count, begin)
    return text[max(first - 1, 0) : max(last - 1, 0)]


@register(
    "substr",
    _TEXT,
    "VARCHAR, BIGINT -> VARCHAR; VARCHAR, BIGINT, BIGINT -> VARCHAR",
    aliases=("substring",),
    total=True,
)
def _substr(values: Sequence[Value], result: pa.DataType) -> Value:
    if _all_constant(values):
        start, count = values[1].as_py(), values[2].as_py() if len(values) > 2 else None
        if start > 0 and (count is None or count >= 0):
            return pc.utf8_slice_codeunits(values[0], start - 1, None if count is None else _bounded(start - 1 + count))
    return per_distinct(values, substring, result)


def _bounded(place: int) -> int:
    return min(place, 2**62)


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def _right(text: str, count: int) -> str:
    if count >= 0:
        return text[max(len(text) - count, 0) :]
    return text[min(-count, len(text)) :]


@register("left", _TEXT, "VARCHAR, BIGINT -> VARCHAR", total=True)
def _left_part(values: Sequence[Value], result: pa.DataType) -> Value:
    if _all_constant(values) and values[1].as_py() >= 0:
        return pc.utf8_slice_codeunits(values[0], 0, _bounded(values[1].as_py()))
    return per_distinct(values, _left, result)


@register("right", _TEXT, "VARCHAR, BIGINT -> VARCHAR", total=True)
def _right_part(values: Sequence[Value], result: pa.DataType) -> Value:
    return per_distinct(values, _right, result)


def _register_trim(name: str, kernel: Callable[..., Any], compute: Callable[[str, str], str]) -> None:
    @register(name, _TEXT, "VARCHAR -> VARCHAR; VARCHAR, VARCHAR -> VARCHAR", total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        if len(values) == 1:
            return kernel(values[0], characters=" ")
        if _all_constant(values):
            characters = values[1].as_py()
            return kernel(values[0], characters=characters) if characters else values[0]
        return per_distinct(values, lambda text, chars: compute(text, chars) if chars else text, result)


_register_trim("trim", pc.utf8_trim, str.strip)
_register_trim("ltrim", pc.utf8_ltrim, str.lstrip)
_register_trim("rtrim", pc.utf8_rtrim, str.rstrip)


@register("replace", _TEXT, "VARCHAR, VARCHAR, VARCHAR -> VARCHAR", total=True)
def _replace(values: Sequence[Value], result: pa.DataType) -> Value:
    if _all_constant(values):
        old = values[1].as_py()
        return pc.replace_substring(values[0], old, values[2].as_py()) if old else values[0]
    return per_distinct(values, lambda text, old, new: text.replace(old, new) if old else text, result)


def _pipe_shape(arguments: Sequence[Expression]) -> tuple[list[pa.DataType | None], pa.DataType]:
    if any(argument.type == NULL for argument in arguments):
        return [None, None], NULL
    type_ = BLOB if all(argument.type == BLOB for argument in arguments) else VARCHAR
    return [type_] * len(arguments), type_


@register("||", "operator", shape=_pipe_shape, total=True)
def _pipe(values: Sequence[Value], result: pa.DataType) -> Value:
    arrays = [as_array(value, length_of(values)) for value in values]
    return pc.binary_join_element_wise(*arrays, pa.scalar("" if result == VARCHAR else b"", result))


def _texts(name: str, least: int) -> Shape:
    def shape(arguments: Sequence[Expression]) -> tuple[list[pa.DataType | None], pa.DataType]:
        if len(arguments) < least:
            raise ExpressionError(f"{name} takes at least {least} arguments, found {len(arguments)}")
        return [VARCHAR] * len(arguments), VARCHAR

    return shape


@register("concat", _TEXT, shape=_texts("concat", 1), strict=False, total=True)
def _concat(values: Sequence[Value], _result: pa.DataType) -> Value:
    arrays = [pc.fill_null(as_array(value, length_of(values)), "") for value in values]
    return pc.binary_join_element_wise(*arrays, "")


@register("concat_ws", _TEXT, shape=_texts("concat_ws", 2), strict=False, total=True)
def _concat_ws(values: Sequence[Value], result: pa.DataType) -> Value:
    separator, *rest = values
    length = length_of(values)
    if not is_scalar(separator):
        missing = pa.scalar(None, result)
        parts = [_concat_ws([each, *rest], result) for each in pc.unique(separator)]  # a loop over distinct separators
        joined = pa.nulls(length, result)
        for each, part in zip(pc.unique(separator), parts, strict=True):
            joined = pc.if_else(pc.equal(separator, each).fill_null(False), part, joined)
        return pc.if_else(pc.is_valid(separator), joined, missing)
    if not separator.is_valid:
        return pa.nulls(length, result)
    # Arrow leaves out rows of nothing but nulls; a first part that is never null keeps them, and is cut off again.
    arrays = [pa.repeat(pa.scalar("", result), length), *(as_array(value, length) for value in rest)]
    joined = pc.binary_join_element_wise(*arrays, separator, null_handling="skip")
    return pc.utf8_slice_codeunits(joined, len(separator.as_py()))


def _register_search(
    name: str, kernel: Callable[..., Any], compute: Callable[[str, str], bool], aliases: Sequence[str]
) -> None:
    @register(name, _TEXT, "VARCHAR, VARCHAR -> BOOLEAN", aliases=aliases, total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        if _all_constant(values):
            return kernel(values[0], values[1].as_py())
        return per_distinct(values, compute, result)


_register_search("contains", pc.match_substring, str.__contains__, ())
_register_search("starts_with", pc.starts_with, str.startswith, ("prefix", "^@"))
_register_search("ends_with", pc.ends_with, str.endswith, ("suffix",))


@register("strpos", _TEXT, "VARCHAR, VARCHAR -> BIGINT", aliases=("instr",), total=True)
def _strpos(values: Sequence[Value], result: pa.DataType) -> Value:
    if _all_constant(values) and pc.all(pc.string_is_ascii(values[0]), min_count=0).as_py() is not False:
        found = pc.find_substring(values[0], values[1].as_py())  # in bytes, which here are characters
        return pc.add(pc.cast(found, result), 1)
    return per_distinct(values, lambda text, part: text.find(part) + 1, result)


def _pad(text: str, width: int, fill: str, name: str) -> str:
    """The characters to add to reach ``width``."""
    missing = width - len(text)
    if missing <= 0:
        return ""
    if not fill:
        raise EvaluationError(f"{name} cannot pad with an empty string")
    return (fill * (missing // len(fill) + 1))[:missing]


def _lpad(text: str, width: int, fill: str) -> str:
    return (_pad(text, width, fill, "lpad") + text) if len(text) < width else text[: max(width, 0)]


def _rpad(text: str, width: int, fill: str) -> str:
    return text + _pad(text, width, fill, "rpad") if len(text) < width else text[: max(width, 0)]


def _split_part(text: str, separator: str, place: int) -> str:
    parts = text.split(separator) if separator else list(text)
    if place > 0:
        return parts[place - 1] if place <= len(parts) else ""
    return parts[place] if place < 0 and -place <= len(parts) else ""


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return text.translate(table)


def _chr(code: int) -> str:
    if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
        raise EvaluationError(f"{code} is not the code point of a character")
    return chr(code)


def _hex(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _digest(name: str) -> Callable[[str | bytes], str]:
    return lambda value: hashlib.new(name, value.encode() if isinstance(value, str) else value).hexdigest()


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    except ValueError:
        raise EvaluationError(f"{text!r} is not made of hexadecimal digits") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError(f"{text!r} is not base64") from None


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError(f"{value!r} is not UTF-8") from None


def _levenshtein(left: str, right: str) -> int:
    before, after = left.encode(), right.encode()
    row = list(range(len(after) + 1))
    for i, a in enumerate(before, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(after, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def _hamming(left: str, right: str) -> int:
    before, after = left.encode(), right.encode()
    if len(before) != len(after) or not before:
        raise EvaluationError("hamming takes texts of equal length")
    return sum(a != b for a, b in zip(before, after, strict=True))


def _repeat(value: Any, count: int) -> Any:
    if len(value) * count > 2**31:
        raise EvaluationError("the result of repeat is too long; expected less than 2 GiB")
    return value * max(count, 0)


_each("lpad", "VARCHAR, INTEGER, VARCHAR -> VARCHAR", _lpad, total=False)
_each("rpad", "VARCHAR, INTEGER, VARCHAR -> VARCHAR", _rpad, total=False)
_each("repeat", "VARCHAR, BIGINT -> VARCHAR; BLOB, BIGINT -> BLOB", _repeat, total=False)
_each("split_part", "VARCHAR, VARCHAR, BIGINT -> VARCHAR", _split_part)
_each("translate", "VARCHAR, VARCHAR, VARCHAR -> VARCHAR", _translate)
_each("ascii", "VARCHAR -> INTEGER", lambda text: ord(text[0]) if text else 0)
_each("unicode", "VARCHAR -> INTEGER", lambda text: ord(text[0]) if text else -1, ("ord",))
_each("chr", "INTEGER -> VARCHAR", _chr, total=False)
_each("md5", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("md5"))
_each("sha1", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("sha1"))
_each("sha256", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("sha256"))
_each("to_base64", "BLOB -> VARCHAR", lambda value: base64.b64encode(value).decode(), ("base64",))
_each("from_base64", "VARCHAR -> BLOB", _from_base64, total=False)
_each("encode", "VARCHAR -> BLOB", str.encode)
_each("decode", "BLOB -> VARCHAR", _decode, total=False)
_each("unhex", "VARCHAR -> BLOB", _unhex, ("from_hex",), total=False)
_each("levenshtein", "VARCHAR, VARCHAR -> BIGINT", _levenshtein, ("editdist3",))
_each("hamming", "VARCHAR, VARCHAR -> BIGINT", _hamming, ("mismatches",), total=False)


def _register_digits(name: str, of_bytes: Callable[[Any], str], form: str, aliases: Sequence[str]) -> None:
    text = "VARCHAR -> VARCHAR; BIGINT -> VARCHAR; UBIGINT -> VARCHAR"
    text += "; BLOB -> VARCHAR" if form == "X" else ""

    @register(name, _TEXT, text, aliases=aliases, total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        if pa.types.is_integer(values[0].type):
            return per_distinct(values, lambda number: format(number % 2**64, form), result)
        return per_distinct(values, of_bytes, result)


_register_digits("hex", _hex, "X", ("to_hex",))
_register_digits("bin", lambda text: "".join(f"{byte:08b}" for byte in text.encode()), "b", ("to_binary",))
