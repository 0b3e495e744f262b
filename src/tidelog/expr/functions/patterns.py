"""LIKE, by kernels of Arrow: these take time in proportion to a text, whatever its pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.functions.registry import of_texts, register
from tidelog.expr.tree import Value
from tidelog.expr.values.types import BOOLEAN
from tidelog.expr.values.vectors import as_array, length_of

_ANY_RUN, _ANY_ONE = object(), object()


def like_parts(pattern: str, escape: str | None) -> list[object]:
    """A LIKE pattern as characters and wildcards (``%``: any run, ``_``: any one). Raises EvaluationError."""
    if escape is not None and len(escape) > 1:
        raise EvaluationError(f"the escape {escape!r} of LIKE must be empty or one character")
    parts: list[object] = []
    rest = iter(pattern)
    for character in rest:
        if escape and character == escape:
            following = next(rest, None)
            if following is None:
                raise EvaluationError(f"the pattern {pattern!r} of LIKE must not end with its escape {escape!r}")
            parts.append(following)
        else:
            parts.append({"%": _ANY_RUN, "_": _ANY_ONE}.get(character, character))
    return parts


def literal_prefix(parts: Sequence[object]) -> str:
    """The characters before the first wildcard."""
    prefix = []
    for part in parts:
        if not isinstance(part, str):
            break
        prefix.append(part)
    return "".join(prefix)


def is_prefix_pattern(parts: Sequence[object]) -> bool:
    """Whether a pattern is a text and ``%`` behind it, nothing else."""
    return bool(parts) and parts[-1] is _ANY_RUN and all(isinstance(part, str) for part in parts[:-1])


def _matches(value: Value, parts: list[object]) -> Value:
    """LIKE by the cheapest kernel that does it."""
    runs = [place for place, part in enumerate(parts) if part is _ANY_RUN]
    text = "".join(part for part in parts if isinstance(part, str))
    if _ANY_ONE not in parts:
        if not runs:
            return pc.equal(value, text)
        if runs == [len(parts) - 1]:
            return pc.starts_with(value, text)
        if runs == [0]:
            return pc.ends_with(value, text)
        if runs == [0, len(parts) - 1]:
            return pc.match_substring(value, text)
    expression = "".join({_ANY_RUN: ".*", _ANY_ONE: "."}.get(part) or _quoted(str(part)) for part in parts)
    return pc.match_substring_regex(value, f"(?s)^{expression}$(?-s)".replace("$(?-s)", r"\z"))


def _quoted(text: str) -> str:
    """A character as RE2 takes it literally."""
    return f"\\x{{{ord(text):x}}}" if text == "\0" else re.sub(r"([^A-Za-z0-9_\s\u0080-\U0010ffff])", r"\\\1", text)


def _register_like(name: str, *, lowered: bool) -> None:
    @register(name, "operator", of_texts((2, 3), BOOLEAN), constants=(1, 2))
    def run(values: Sequence[Value], _result: pa.DataType) -> Value:
        value, pattern, *escape = values
        value = as_array(value, length_of(values))
        if lowered:
            value, pattern = pc.utf8_lower(value), pc.utf8_lower(pattern)
        parts = like_parts(pattern.as_py(), escape[0].as_py() if escape else None)
        return _matches(value, parts)


_register_like("like", lowered=False)
_register_like("ilike", lowered=True)
