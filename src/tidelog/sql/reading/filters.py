"""Filters that DuckDB pushes into a scan, as conditions of ours.

They come as expressions of Arrow, which tell nobody what is in them; but they can be pickled, and the pickled form is a
schema whose metadata is the tree and a row whose columns are its constants. What cannot be read here is not pushed
further: Arrow applies it to the rows.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_COMPARISONS: Final = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MOST_MEMBERS: Final = 100_000
"""Members of a list that are taken along; Arrow looks them up as fast where there are more."""


class _Unreadable(Exception):
    """An expression with something that is not known here."""


class Condition(NamedTuple):
    """A condition in SQL, and the columns it is about."""

    text: str
    columns: frozenset[str]


def conditions_of(expression: pc.Expression) -> tuple[list[Condition], bool]:
    """Conditions that every row satisfies for which an expression is true, and whether they say all of it."""
    try:
        tree = _tree(expression)
    except _Unreadable:
        return [], False
    found, is_whole = [], True
    for part in _conjuncts(tree):
        try:
            found.append(Condition(_text(part), frozenset(_columns(part))))
        except _Unreadable:
            is_whole = False
    return found, is_whole


def _columns(tree: Any) -> Iterator[str]:
    kind, parts, _ = tree
    if kind == "field":
        yield parts
    elif kind != "literal":
        for each in parts:
            yield from _columns(each)


def _conjuncts(tree: Any) -> Iterator[Any]:
    if tree[0] == "and_kleene":
        for each in tree[1]:
            yield from _conjuncts(each)
    else:
        yield tree


def _text(tree: Any) -> str:
    kind, parts, options = tree
    if kind == "field":
        return _quoted(parts)
    if kind == "literal":
        return _constant(parts)
    if kind in _COMPARISONS:
        left, right = parts
        return f"({_text(left)} {_COMPARISONS[kind]} {_text(right)})"
    if kind in ("and_kleene", "or_kleene"):
        return "(" + (" AND " if kind == "and_kleene" else " OR ").join(map(_text, parts)) + ")"
    if kind == "invert":
        return f"(NOT {_text(parts[0])})"
    if kind in ("is_valid", "is_null"):
        if options.get("nan_is_null"):
            raise _Unreadable
        return f"({_text(parts[0])} IS {'NOT ' if kind == 'is_valid' else ''}NULL)"
    if kind == "if_else":  # what DuckDB makes of IN: null stays null
        test, yes, no = parts
        if test[0] == "is_valid" and no[0] == "literal" and not no[1].is_valid and yes[0] == "is_in":
            return _text(yes)
    if kind == "is_in":
        members = options["value_set"]
        if len(members) > _MOST_MEMBERS or any(not each.is_valid for each in members):
            raise _Unreadable
        return f"({_text(parts[0])} IN ({', '.join(map(_constant, members))}))"
    raise _Unreadable


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(value: pa.Scalar) -> str:
    kind = value.type
    if not value.is_valid:
        raise _Unreadable
    if pa.types.is_boolean(kind):
        return "TRUE" if value.as_py() else "FALSE"
    if pa.types.is_integer(kind):
        return str(value.as_py())
    if pa.types.is_floating(kind):
        number = value.as_py()
        text = repr(number) if math.isfinite(number) else str(number)
        return f"CAST('{text}' AS {'FLOAT' if kind == pa.float32() else 'DOUBLE'})"
    if pa.types.is_decimal(kind):
        return f"CAST('{value.as_py()}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = str(value.as_py())
        if "\x00" in text:
            raise _Unreadable
        return "'" + text.replace("'", "''") + "'"
    if pa.types.is_date32(kind):
        return f"DATE '{value.as_py().isoformat()}'"
    if pa.types.is_timestamp(kind):
        return _timestamp(value)
    raise _Unreadable


def _timestamp(value: pa.Scalar) -> str:
    kind = value.type
    plain = pa.scalar(value.cast(pa.int64()).as_py(), pa.timestamp(kind.unit))
    text = str(pc.strftime(plain, format="%Y-%m-%d %H:%M:%S").as_py())
    if text.startswith("-") or len(text.split("-")[0]) > 4:  # years that texts are not written for
        raise _Unreadable
    if kind.tz is not None:
        return f"TIMESTAMPTZ '{text}+00'"
    return f"CAST('{text}' AS {'TIMESTAMP_NS' if kind.unit == 'ns' else 'TIMESTAMP'})"


# -- the pickled form ------------------------------------------------------------------------------------------


def _tree(expression: pc.Expression) -> Any:
    """An expression as (name of a function, arguments, options), ("field", name, {}) or ("literal", scalar, {})."""
    try:
        content = expression.__reduce__()[1][0]
        file = pa.ipc.open_file(content)
        constants = file.get_batch(0)
        steps = iter(_pairs(file.schema))
        tree, end = _read(steps, constants)
    except (pa.ArrowException, LookupError, TypeError, ValueError, StopIteration) as error:
        raise _Unreadable from error
    if end is not None or next(steps, None) is not None:
        raise _Unreadable
    return tree


def _read(steps: Iterator[tuple[str, str]], constants: pa.RecordBatch) -> tuple[Any, str | None]:
    """The next node; or None and the name of what ends, or of the options that come before that."""
    key, value = next(steps)
    if key == "literal":
        return ("literal", constants.column(int(value))[0], {}), None
    if key == "field_ref":
        return ("field", value, {}), None
    if key in ("end", "options"):
        return None, f"{key} {value}"
    if key != "call":
        raise _Unreadable
    parts: list[Any] = []
    options: dict[str, Any] = {}
    while True:
        part, end = _read(steps, constants)
        if end is None:
            parts.append(part)
        elif end.startswith("options "):
            options = _options(constants.column(int(end[8:]))[0])
        elif end == f"end {value}":
            return (value, parts, options), None
        else:
            raise _Unreadable


def _options(found: pa.StructScalar) -> dict[str, Any]:
    return {
        name: list(found[name].values) if name == "value_set" else found[name].as_py()
        for name in (field.name for field in found.type)
    }


class _CSchema(ctypes.Structure):
    """The beginning of ``ArrowSchema``, of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """All pairs of a schema's metadata, in order. PyArrow shows one of each key; the C interface has all of them."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return []

    def number() -> int:
        nonlocal address
        (found,) = struct.unpack("=i", ctypes.string_at(address, 4))
        address += 4
        return int(found)

    def text() -> str:
        nonlocal address
        size = number()
        found = ctypes.string_at(address, size)
        address += size
        return found.decode()

    return [(text(), text()) for _ in range(number())]
