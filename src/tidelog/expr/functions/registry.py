"""The functions and operators that are computed here, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values.types import NULL, VARCHAR, common_type, integer_fits, is_integer, sql_name

Run = Callable[[Sequence[Value], pa.DataType], Value]
"""Computes a result of the given type from arguments of which at least one is an array."""

Shape = Callable[[Sequence[Node]], tuple[Sequence[pa.DataType | None], pa.DataType] | None]
"""From the arguments of a call the types they are cast to (None: left alone) and the type of the result.

None for arguments that DuckDB takes, if any. Raises :class:`ExpressionError`, without a place, for those that are
refused whatever DuckDB makes of them.
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or operator under its one name.

    ``strict`` functions are NULL where an argument is. Arguments whose places are in ``constants`` are the same for all
    rows: they are patterns, to be understood once and not for each row.
    """

    name: str
    theme: str
    run: Run
    shape: Shape
    strict: bool = True
    constants: tuple[int, ...] = ()


NATIVE: dict[str, Function] = {}
"""Every function and operator that is computed here, by name."""

NATIVE_ALIASES: dict[str, str] = {}
"""Other names of these."""


def register(
    name: str,
    theme: str,
    shape: Shape,
    *,
    aliases: Sequence[str] = (),
    strict: bool = True,
    constants: tuple[int, ...] = (),
) -> Callable[[Run], Run]:
    """Register the decorated implementation under a name and its aliases."""

    def add(run: Run) -> Run:
        NATIVE[name] = Function(name, theme, run, shape, strict, constants)
        NATIVE_ALIASES.update(dict.fromkeys(aliases, name))
        return run

    return add


def meeting_type(arguments: Sequence[Node], what: str) -> pa.DataType:
    """The type in which the arguments of an operator meet.

    Loose literals adapt: strings to whatever the others are, integers to a type they fit. Raises
    :class:`ExpressionError`, without a place, if there is none.
    """
    strings = [a for a in arguments if isinstance(a, Literal) and a.is_loose_string]
    integers = [a for a in arguments if isinstance(a, Literal) and a.is_loose_integer]
    met: pa.DataType = NULL
    for argument in arguments:
        if not (isinstance(argument, Literal) and (argument.is_loose_string or argument.is_loose_integer)):
            met = _both(met, argument.type, what)
    for literal in integers:
        if not (is_integer(met) and integer_fits(int(literal.value), met)):  # type: ignore[arg-type]
            met = _both(met, literal.type, what)
    return VARCHAR if met == NULL and strings else met


def _both(left: pa.DataType, right: pa.DataType, what: str) -> pa.DataType:
    found = common_type(left, right)
    if found is None:
        raise ExpressionError(
            f"{sql_name(left)} and {sql_name(right)} do not meet in {what}; add a cast, e.g. "
            f"CAST(... AS {sql_name(left)})"
        )
    return found


def of_texts(counts: Sequence[int], result: pa.DataType) -> Shape:
    """What takes texts, so many of them, and nothing else."""

    def shape(arguments: Sequence[Node]) -> tuple[Sequence[pa.DataType | None], pa.DataType] | None:
        are_texts = len(arguments) in counts and all(argument.type in (VARCHAR, NULL) for argument in arguments)
        return ([VARCHAR] * len(arguments), result) if are_texts else None

    return shape
