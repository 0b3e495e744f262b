"""Functions of text and of bytes."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.signatures import Shape, register
from tidelog.expr.tree import Node, Value
from tidelog.expr.values.bounds import check_size, check_sizes, most_of, sizes_of
from tidelog.expr.values.types import BIGINT, BLOB, NULL, VARCHAR
from tidelog.expr.values.vectors import as_array, is_scalar, length_of, per_distinct

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


def _replaced(text: str, old: str, new: str) -> str:
    if not old:
        return text
    if len(new) > len(old):
        check_size(len(text) + text.count(old) * (len(new) - len(old)), 4 * max(len(text), len(new)))
    return text.replace(old, new)


@register("replace", _TEXT, "VARCHAR, VARCHAR, VARCHAR -> VARCHAR")
def _replace(values: Sequence[Value], result: pa.DataType) -> Value:
    if not _all_constant(values):
        return per_distinct(values, _replaced, result)
    text, old, new = values[0], values[1].as_py(), values[2].as_py()
    if not old:
        return text
    growth = len(new.encode()) - len(old.encode())
    if growth > 0:
        own = sizes_of(text, len(text))
        times = pc.fill_null(pc.count_substring(text, old), 0).to_numpy(zero_copy_only=False)
        check_sizes(own + times.astype(np.int64) * growth, own)
    return pc.replace_substring(text, old, new)


def _pipe_shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    if any(argument.type == NULL for argument in arguments):
        return [None, None], NULL
    type_ = BLOB if all(argument.type == BLOB for argument in arguments) else VARCHAR
    return [type_] * len(arguments), type_


def _check_joined(values: Sequence[Value]) -> None:
    """Raise if texts become too long together."""
    sizes = [sizes_of(value, length_of(values)) for value in values]
    check_sizes(np.sum(sizes, axis=0), most_of(sizes))


@register("||", "operator", shape=_pipe_shape)
def _pipe(values: Sequence[Value], result: pa.DataType) -> Value:
    _check_joined(values)
    arrays = [as_array(value, length_of(values)) for value in values]
    return pc.binary_join_element_wise(*arrays, pa.scalar("" if result == VARCHAR else b"", result))


def _texts(name: str, least: int) -> Shape:
    def shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
        if len(arguments) < least:
            raise ExpressionError(f"{name} takes at least {least} arguments, found {len(arguments)}")
        return [VARCHAR] * len(arguments), VARCHAR

    return shape


@register("concat", _TEXT, shape=_texts("concat", 1), strict=False)
def _concat(values: Sequence[Value], _result: pa.DataType) -> Value:
    _check_joined(values)
    arrays = [pc.fill_null(as_array(value, length_of(values)), "") for value in values]
    return pc.binary_join_element_wise(*arrays, "")


@register("concat_ws", _TEXT, shape=_texts("concat_ws", 2), strict=False)
def _concat_ws(values: Sequence[Value], result: pa.DataType) -> Value:
    separator, *rest = values
    length = length_of(values)
    sizes = [sizes_of(value, length) for value in rest]
    check_sizes(np.sum(sizes, axis=0) + len(rest) * sizes_of(separator, length), most_of(sizes))
    first, *others = (as_array(value, length) for value in rest)
    between = as_array(separator, length)
    # Arrow leaves out rows of nothing but nulls.
    is_nothing = pc.is_null(first)
    for each in others:
        is_nothing = pc.and_(is_nothing, pc.is_null(each))
    first = pc.if_else(is_nothing, "", first)
    joined = pc.binary_join_element_wise(first, *others, pc.fill_null(between, ""), null_handling="skip")
    return pc.if_else(pc.is_valid(between), joined, pa.scalar(None, result))


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
    check_size(width)
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
    return text.translate(_translation(old, new))


@functools.lru_cache(4)
def _translation(old: str, new: str) -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return table


def _chr(code: int) -> str:
    if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
        raise EvaluationError(f"{code} is not the code point of a character")
    return chr(code)


def _hex(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _bin(text: str) -> str:
    content = text.encode()
    return f"{int.from_bytes(content):0{8 * len(content)}b}" if content else ""


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


_MOST_STEPS = 1 << 25
"""Bytes of one text times those of another that are compared with one another at the most: a tenth of a second."""

_PER_STEP = 64
"""What each byte of the longer text costs besides, in bytes of the shorter one."""


def _levenshtein(left: str, right: str) -> int:
    """By the bits of two integers, one for each byte of a text: Myers (1999), in the form of Hyyrö (2003)."""
    shorter, longer = sorted((left.encode(), right.encode()), key=len)
    if len(longer) * (len(shorter) + _PER_STEP) > _MOST_STEPS:
        raise EvaluationError(
            f"levenshtein found texts of {len(shorter):,} and {len(longer):,} bytes; expected shorter ones, "
            f"up to 5,000 bytes each, or {_MOST_STEPS:,} multiplied with one another"
        )
    if not shorter:
        return len(longer)
    places: dict[int, int] = {}
    for place, byte in enumerate(shorter):
        places[byte] = places.get(byte, 0) | 1 << place
    everywhere, last = (1 << len(shorter)) - 1, 1 << len(shorter) - 1
    up, down, distance = everywhere, 0, len(shorter)
    for byte in longer:
        same = places.get(byte, 0)
        across = (((same & up) + up) ^ up) | same | down
        more, less = down | (everywhere & ~(across | up)), up & across
        distance += bool(more & last) - bool(less & last)
        more, less = (more << 1 | 1) & everywhere, (less << 1) & everywhere
        up, down = less | (everywhere & ~(across | more)), more & across
    return distance


def _hamming(left: str, right: str) -> int:
    before, after = np.frombuffer(left.encode(), np.uint8), np.frombuffer(right.encode(), np.uint8)
    if len(before) != len(after) or not len(before):
        raise EvaluationError("hamming takes texts of equal length")
    return int(np.count_nonzero(before != after))


def _repeat(value: Any, count: int) -> Any:
    if count > 1:
        check_size(len(value) * count)
    return value * max(count, 0)


_each("lpad", "VARCHAR, INTEGER, VARCHAR -> VARCHAR", _lpad, total=False)
_each("rpad", "VARCHAR, INTEGER, VARCHAR -> VARCHAR", _rpad, total=False)
_each("repeat", "VARCHAR, BIGINT -> VARCHAR; BLOB, BIGINT -> BLOB", _repeat, total=False)
_each("split_part", "VARCHAR, VARCHAR, BIGINT -> VARCHAR", _split_part)
_each("translate", "VARCHAR, VARCHAR, VARCHAR -> VARCHAR", _translate, total=False)
_each("ascii", "VARCHAR -> INTEGER", lambda text: ord(text[0]) if text else 0)
_each("unicode", "VARCHAR -> INTEGER", lambda text: ord(text[0]) if text else -1, ("ord",))
_each("chr", "INTEGER -> VARCHAR", _chr, total=False)
_each("md5", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("md5"))
_each("sha1", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("sha1"))
_each("sha256", "VARCHAR -> VARCHAR; BLOB -> VARCHAR", _digest("sha256"))
_each("to_base64", "BLOB -> VARCHAR", lambda value: base64.b64encode(value).decode(), ("base64",), total=False)
_each("from_base64", "VARCHAR -> BLOB", _from_base64, total=False)
_each("encode", "VARCHAR -> BLOB", str.encode)
_each("decode", "BLOB -> VARCHAR", _decode, total=False)
_each("unhex", "VARCHAR -> BLOB", _unhex, ("from_hex",), total=False)
_each("levenshtein", "VARCHAR, VARCHAR -> BIGINT", _levenshtein, ("editdist3",), total=False)
_each("hamming", "VARCHAR, VARCHAR -> BIGINT", _hamming, ("mismatches",), total=False)


def _register_digits(name: str, of_bytes: Callable[[Any], str], form: str, aliases: Sequence[str]) -> None:
    text = "VARCHAR -> VARCHAR; BIGINT -> VARCHAR; UBIGINT -> VARCHAR"
    text += "; BLOB -> VARCHAR" if form == "X" else ""

    @register(name, _TEXT, text, aliases=aliases)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        if pa.types.is_integer(values[0].type):
            return per_distinct(values, lambda number: format(number % 2**64, form), result)
        return per_distinct(values, of_bytes, result)


_register_digits("hex", _hex, "X", ("to_hex",))
_register_digits("bin", _bin, "b", ("to_binary",))
