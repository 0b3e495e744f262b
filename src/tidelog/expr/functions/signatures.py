"""The registry of functions and operators: their signatures, and which one a call means.

A signature is written ``"BIGINT, BIGINT -> BIGINT"``; ``ANY...`` at the end of the parameters stands for any
number of further arguments of any type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values.types import (
    PLAIN,
    STRING_LITERAL_COST,
    implicit_cost,
    integer_literal_cost,
    sql_name,
)

Run = Callable[[Sequence[Value], pa.DataType], Value]
"""Computes a result of the given type from arguments of which at least one is an array."""

Shape = Callable[[Sequence[Node]], tuple[Sequence[pa.DataType | None], pa.DataType]]
"""From the arguments of a call the types they are cast to (None: left alone) and the type of the result."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The kinds of parameters and of the result, as named by :func:`tidelog.expr.values.types.kind`."""

    parameters: tuple[str, ...]
    result: str
    variadic: bool = False

    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}{', ANY...' if self.variadic else ''}) -> {self.result}"


@dataclass(frozen=True, slots=True)
class Function:
    """A function or operator under its one name.

    ``strict`` functions are NULL where an argument is. ``decimals`` says what becomes of DECIMAL arguments and
    results, which have parameters; without it, arguments stay and the result is of the first one's type. ``shape``
    replaces signatures altogether. Arguments whose places are in ``constants`` must be constant: they are patterns, to
    be understood once and not for each row.
    """

    name: str
    theme: str
    signatures: tuple[Signature, ...]
    run: Run
    strict: bool = True
    decimals: Shape | None = None
    shape: Shape | None = None
    constants: tuple[int, ...] = ()


NATIVE: dict[str, Function] = {}
"""Every function and operator that is computed here, by name."""

NATIVE_ALIASES: dict[str, str] = {}
"""Other names of these."""


def signatures(text: str) -> tuple[Signature, ...]:
    """Signatures from text, separated by semicolons."""
    found = []
    for part in text.split(";"):
        if not part.strip():
            continue
        parameters, result = part.split("->")
        names = [name.strip() for name in parameters.split(",") if name.strip()]
        variadic = bool(names) and names[-1] == "ANY..."
        found.append(Signature(tuple(names[:-1] if variadic else names), result.strip(), variadic))
    return tuple(found)


def same(kinds: Sequence[str], count: int = 1, result: str | None = None) -> str:
    """Signatures of ``count`` parameters of one kind, for each of ``kinds``, with a result of that kind."""
    return ";".join(f"{', '.join([name] * count)} -> {result or name}" for name in kinds)


def register(
    name: str,
    theme: str,
    text: str = "",
    *,
    aliases: Sequence[str] = (),
    strict: bool = True,
    decimals: Shape | None = None,
    shape: Shape | None = None,
    constants: tuple[int, ...] = (),
) -> Callable[[Run], Run]:
    """Register the decorated implementation under a name and its aliases."""

    def add(run: Run) -> Run:
        NATIVE[name] = Function(name, theme, signatures(text), run, strict, decimals, shape, constants)
        for alias in aliases:
            NATIVE_ALIASES[alias] = name
        return run

    return add


def choose(function: Function, arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
    """The types the arguments of a call are to be cast to (None: as they are) and the type of its result.

    Among the signatures that the arguments can be converted to unasked the cheapest wins. Raises
    :class:`ExpressionError`, without a place, if there is none or no single one.
    """
    if function.shape is not None:
        casts, result = function.shape(arguments)
        return list(casts), result
    best: list[Signature] = []
    lowest = -1
    for signature in function.signatures:
        cost = _cost(signature, arguments)
        if cost is None or (best and cost > lowest):
            continue
        best = [*best, signature] if best and cost == lowest else [signature]
        lowest = cost
    shown = f"{function.name}({', '.join(_shown(argument) for argument in arguments)})"
    known = "; ".join(str(signature) for signature in function.signatures[:12])
    if not best:
        raise ExpressionError(f"there is no {shown}; expected one of {known}. Perhaps add a cast")
    if len(best) > 1:
        raise ExpressionError(f"{shown} may mean {' or '.join(map(str, best))}; add a cast to say which")
    return _types(function, best[0], arguments)


def _types(
    function: Function, signature: Signature, arguments: Sequence[Node]
) -> tuple[list[pa.DataType | None], pa.DataType]:
    if "DECIMAL" in signature.parameters:
        if function.decimals is not None:
            casts, result = function.decimals(arguments)
            return list(casts), result
        named = [None if name == "DECIMAL" else PLAIN[name] for name in signature.parameters]
        return named, arguments[0].type if signature.result == "DECIMAL" else PLAIN[signature.result]
    casts = [PLAIN[name] for name in signature.parameters]
    casts += [None] * (len(arguments) - len(casts))
    return list(casts), PLAIN[signature.result]


def _cost(signature: Signature, arguments: Sequence[Node]) -> int | None:
    count = len(signature.parameters)
    if len(arguments) < count or (len(arguments) > count and not signature.variadic):
        return None
    total = 0
    for argument, parameter in zip(arguments, signature.parameters, strict=False):
        cost = argument_cost(argument, parameter)
        if cost is None:
            return None
        total += cost
    return total


def argument_cost(argument: Node, parameter: str) -> int | None:
    """What it costs to pass an argument to a parameter of a kind; None if it cannot be passed."""
    if isinstance(argument, Literal):
        if argument.is_loose_string:
            return 1 if parameter == "VARCHAR" else STRING_LITERAL_COST
        if argument.is_loose_integer:
            return integer_literal_cost(int(argument.value), argument.type, parameter)  # type: ignore[arg-type]
    return implicit_cost(argument.type, parameter)


def _shown(argument: Node) -> str:
    return (
        f"'{argument.value}'" if isinstance(argument, Literal) and argument.is_loose_string else sql_name(argument.type)
    )
