"""A few functions of text that kernels of Arrow compute faster than a batch gets to DuckDB and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.functions.registry import of_texts, register
from tidelog.expr.tree import Value
from tidelog.expr.values.types import BIGINT, BOOLEAN, VARCHAR
from tidelog.expr.values.vectors import as_array, length_of


def _of_text(name: str, result: pa.DataType, kernel: Callable[[Any], Any], aliases: tuple[str, ...] = ()) -> None:
    @register(name, "text", of_texts((1,), result), aliases=aliases)
    def run(values: Sequence[Value], type_: pa.DataType) -> Value:
        return pc.cast(kernel(values[0]), type_)


def _of_part(name: str, kernel: Callable[..., Any], aliases: tuple[str, ...] = ()) -> None:
    """Whether a text has a part, which is the same for all rows; DuckDB looks for others."""

    @register(name, "text", of_texts((2,), BOOLEAN), aliases=aliases, constants=(1,))
    def run(values: Sequence[Value], _type: pa.DataType) -> Value:
        return kernel(as_array(values[0], length_of(values)), values[1].as_py())


_of_text("lower", VARCHAR, pc.utf8_lower, ("lcase",))
_of_text("upper", VARCHAR, pc.utf8_upper, ("ucase",))
_of_text("length", BIGINT, pc.utf8_length, ("len", "char_length", "character_length"))
_of_text("strlen", BIGINT, pc.binary_length)
_of_part("contains", pc.match_substring)
_of_part("starts_with", pc.starts_with, ("prefix", "^@"))
_of_part("ends_with", pc.ends_with, ("suffix",))
