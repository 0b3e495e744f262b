"""Conditions of pairs as programs for the machine in :mod:`.kernels`.

A condition is a conjunction. Of its parts those that compare arithmetic of numbers become programs, one for each kind
of numbers; what else there is remains an expression over columns of pairs. NULL is false here, which is the same as
long as nothing negates it: so negations are moved into comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.expr.evaluate import constant_value, evaluate
from tidelog.expr.functions.comparison import COMPARISONS, MIRRORED, NEGATED
from tidelog.expr.tree import Call, Cast, Column, Node
from tidelog.operators.join.conditions.vectors import kernels

LEFT: Final = 0
RIGHT: Final = 1

_OPERATIONS: Final = {
    "+": kernels.ADD,
    "-": kernels.SUBTRACT,
    "*": kernels.MULTIPLY,
    "/": kernels.DIVIDE,
    "<": kernels.LESS,
    "<=": kernels.LESS_EQUAL,
    ">": kernels.GREATER,
    ">=": kernels.GREATER_EQUAL,
    "=": kernels.EQUAL,
    "<>": kernels.UNEQUAL,
}
_MIRRORED: Final = {
    kernels.SUBTRACT: kernels.SUBTRACT_FROM,
    kernels.DIVIDE: kernels.DIVIDE_INTO,
    **{_OPERATIONS[name]: _OPERATIONS[MIRRORED[name]] for name in COMPARISONS},
}
"""The operation that gives the same for swapped operands, where it is another one."""


class Unsupported(Exception):
    """There is no program for an expression."""


@dataclass(frozen=True)
class Sides:
    """Which columns of pairs are of which input."""

    left: int
    """How many are of the left one, which are first."""
    right: int
    """How many are of the right one, which follow."""

    def of(self, column: Column) -> int:
        """The input of a column. Raises :class:`Unsupported` for that of the later time."""
        if column.position < self.left:
            return LEFT
        if column.position < self.left + self.right:
            return RIGHT
        raise Unsupported


@dataclass(frozen=True)
class Code:
    """A program for given vectors: lines about constants, those about vectors, and the flags that tell."""

    uniform: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    constants: npt.NDArray[Any]
    """Columns of the arriving row, which are first and to be filled in, literals, and room for what is made of both."""
    truths: int
    """How many constants there are that are true or not, those of the arriving row first."""
    vectors: int
    flags: int
    result: int


@dataclass(frozen=True)
class Program:
    """A condition of numbers of one kind."""

    dtype: np.dtype[Any]
    leaves: tuple[tuple[Node, ...], tuple[Node, ...]]
    """For each input what is read of its rows: columns, perhaps converted."""
    valid: tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...]]
    """For each input the columns of which none may be NULL, for each flag."""
    arriving: tuple[Code, Code]
    """For rows that arrive by either input, whose columns are constants, and partners as vectors."""
    pairs: Code
    """With the columns of both inputs as vectors, the left one's first."""


def leaf_column(node: Node) -> Column | None:
    """The column whose numbers, perhaps as those of a wider type, a node has."""
    inner = node
    while isinstance(inner, Cast) and not inner.lenient and _is_wider(inner.operand.type, inner.type):
        inner = inner.operand
    return inner if isinstance(inner, Column) and kind_of(inner.type) is not None else None


def kind_of(type_: pa.DataType) -> np.dtype[Any] | None:
    """The numbers by which values of a type are computed, or compared; None if they are not."""
    if pa.types.is_float64(type_):
        return np.dtype(np.float64)
    if pa.types.is_float32(type_):
        return np.dtype(np.float32)
    if pa.types.is_timestamp(type_) or (pa.types.is_integer(type_) and type_ != pa.uint64()):
        return np.dtype(np.int64)
    return None


def values_of(leaf: Node, batch: pa.RecordBatch, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The numbers of a leaf for some rows; zero for NULL."""
    array = evaluate(leaf, batch)
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return np.asarray(array.fill_null(0) if array.null_count else array).astype(dtype)


def _is_wider(narrow: pa.DataType, wide: pa.DataType) -> bool:
    if not (pa.types.is_integer(narrow) or pa.types.is_floating(narrow)) or narrow == pa.uint64():
        return False
    if pa.types.is_floating(narrow):
        return bool(pa.types.is_float64(wide))
    is_room = wide.bit_width > narrow.bit_width or pa.types.is_signed_integer(narrow)
    is_integer = pa.types.is_signed_integer(wide) and wide.bit_width >= narrow.bit_width and is_room
    return bool(pa.types.is_floating(wide) or is_integer)


def programs(conjuncts: Sequence[Node], sides: Sides) -> tuple[list[Program], list[Node]]:
    """Programs for as many of some conditions as there can be some for, and the other conditions."""
    kinds: dict[np.dtype[Any], list[Node]] = {}
    rest = []
    for node in conjuncts:
        try:
            dtype = _checked(node, sides)
        except Unsupported:
            rest.append(node)
        else:
            kinds.setdefault(dtype, []).append(node)
    found = []
    for dtype, nodes in kinds.items():
        used = {sides.of(each) for node in nodes for each in node.walk() if isinstance(each, Column)}
        if len(used) == 2:
            found.append(_program(nodes, dtype, sides))
        else:
            rest += nodes  # rows of one input alone: nothing to be gained by pairs
    return found, rest


def _checked(node: Node, sides: Sides) -> np.dtype[Any]:
    """The kind of numbers of a condition that can be a program."""
    kinds = {kind for comparison in _comparisons(node) for kind in [kind_of(comparison.arguments[0].type)]}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise Unsupported
    layout = _Layout(kind, sides)
    layout.add(node)
    _Emitter(layout, (LEFT, RIGHT)).truth(node, True)
    return kind


def _comparisons(node: Node) -> Iterator[Call]:
    if not isinstance(node, Call):
        raise Unsupported
    if node.name in ("and", "or", "not"):
        for each in node.arguments:
            yield from _comparisons(each)
    elif node.name == "between" or node.name in COMPARISONS:
        yield node
    else:
        raise Unsupported


def _program(nodes: Sequence[Node], dtype: np.dtype[Any], sides: Sides) -> Program:
    layout = _Layout(dtype, sides)
    for node in nodes:
        layout.add(node)
    codes = []
    for vectors in ((RIGHT,), (LEFT,), (LEFT, RIGHT)):
        emitter = _Emitter(layout, vectors)
        flag = emitter.truth(nodes[0], True)
        for node in nodes[1:]:
            flag = emitter.logic(kernels.AND, flag, emitter.truth(node, True))
        codes.append(emitter.code(flag))
    left, right = layout.leaves
    valid = layout.valid
    return Program(
        dtype, (tuple(left), tuple(right)), (tuple(valid[LEFT]), tuple(valid[RIGHT])), (codes[0], codes[1]), codes[2]
    )


@dataclass
class _Layout:
    """What a program reads of rows."""

    dtype: np.dtype[Any]
    sides: Sides
    leaves: tuple[list[Node], list[Node]] = field(default_factory=lambda: ([], []))
    valid: tuple[list[frozenset[str]], list[frozenset[str]]] = field(default_factory=lambda: ([], []))

    def add(self, node: Node) -> None:
        """Lay out a condition."""
        for comparison in _comparisons(node):
            for operand in comparison.arguments:
                self._add_leaves(operand)
        for one, other in _compared(node):
            for side, names in enumerate(self.nullable(one, other)):
                if names and names not in self.valid[side]:
                    self.valid[side].append(names)

    def _add_leaves(self, node: Node) -> None:
        column = leaf_column(node)
        if column is not None:
            leaves = self.leaves[self.sides.of(column)]
            if node not in leaves:
                leaves.append(node)
        elif not node.is_constant:
            for each in node.operands:
                self._add_leaves(each)

    def nullable(self, *nodes: Node) -> tuple[frozenset[str], frozenset[str]]:
        """The columns of either input that may be NULL."""
        found: tuple[set[str], set[str]] = (set(), set())
        for node in nodes:
            for each in node.walk():
                if isinstance(each, Column) and each.nullable_column:
                    found[self.sides.of(each)].add(each.name)
        return frozenset(found[LEFT]), frozenset(found[RIGHT])


def _compared(node: Node) -> Iterator[tuple[Node, Node]]:
    """What is compared with what."""
    for comparison in _comparisons(node):
        first, *others = comparison.arguments
        for other in others:
            yield first, other


class _Emitter:
    """Writes the code of a program: operands from zero on are vectors, those below are constants."""

    def __init__(self, layout: _Layout, vectors: Sequence[int]) -> None:
        self._layout = layout
        self._places: dict[tuple[int, Node], int] = {}
        self._flags: dict[tuple[int, frozenset[str]], int] = {}
        own = [side for side in (LEFT, RIGHT) if side not in vectors]
        for place, key in enumerate((side, leaf) for side in vectors for leaf in layout.leaves[side]):
            self._places[key] = place
        for place, flag in enumerate((side, names) for side in vectors for names in layout.valid[side]):
            self._flags[flag] = place
        self._width, self._flag_width = len(self._places), len(self._flags)
        for place, key in enumerate((side, leaf) for side in own for leaf in layout.leaves[side]):
            self._places[key] = -1 - place
        for place, flag in enumerate((side, names) for side in own for names in layout.valid[side]):
            self._flags[flag] = -1 - place
        self._constants: list[Any] = [0] * max(len(self._places) - self._width, 1)
        self._truths = len(self._flags) - self._flag_width
        self._uniform: list[tuple[int, int, int, int]] = []
        self._lines: list[tuple[int, int, int, int]] = []
        self._free: list[int] = []
        self._vectors = self._flags_made = 0

    def code(self, result: int) -> Code:
        """All that was written, for which some flags tell."""
        return Code(
            _lines(self._uniform),
            _lines(self._lines),
            np.array(self._constants, self._layout.dtype),
            max(self._truths, 1),
            max(self._vectors, 1),
            max(self._flags_made, 1),
            result - self._flag_width,
        )

    def truth(self, node: Node, wanted: bool) -> int:
        """Flags for where a condition is true, or where it is false."""
        if not isinstance(node, Call):
            raise Unsupported
        if node.name == "not":
            return self.truth(node.arguments[0], not wanted)
        if node.name in ("and", "or"):
            operation = kernels.AND if (node.name == "and") == wanted else kernels.OR
            flag = self.truth(node.arguments[0], wanted)
            for each in node.arguments[1:]:
                flag = self.logic(operation, flag, self.truth(each, wanted))
            return flag
        if node.name == "between":
            value, low, high = node.arguments
            flags = self._compared(">=", value, low, wanted), self._compared("<=", value, high, wanted)
            return self.logic(kernels.AND if wanted else kernels.OR, *flags)
        one, other = node.arguments
        return self._compared(node.name, one, other, wanted)

    def _compared(self, name: str, one: Node, other: Node, wanted: bool) -> int:
        operation = _OPERATIONS[name if wanted else NEGATED[name]]
        flag = self._binary(operation, self._number(one), self._number(other))
        for side, names in enumerate(self._layout.nullable(one, other)):
            if names:
                flag = self.logic(kernels.AND, flag, self._flags[side, names])
        return flag

    def logic(self, operation: int, one: int, other: int) -> int:
        """Flags that are made of two others."""
        if one < 0 <= other:
            one, other = other, one
        result = self._new_flag(one < 0)
        (self._uniform if one < 0 else self._lines).append((operation, result, one, other))
        return result

    def _new_flag(self, is_constant: bool) -> int:
        if is_constant:
            self._truths += 1
            return -self._truths
        self._flags_made += 1
        return self._flag_width + self._flags_made - 1

    def _number(self, node: Node) -> int:
        """The operand that has the values of a node."""
        column = leaf_column(node)
        if column is not None:
            return self._places[self._layout.sides.of(column), node]
        if node.is_constant:
            return self._literal(node)
        if isinstance(node, Cast):
            if node.lenient or not (pa.types.is_float32(node.operand.type) and pa.types.is_float64(node.type)):
                raise Unsupported
            return self._number(node.operand)  # numbers of 32 bits are kept in 64 then
        if not isinstance(node, Call) or not self._fits(node.type):
            raise Unsupported
        return self._rounded(node, self._called(node))

    def _fits(self, type_: pa.DataType) -> bool:
        """Whether values of a type, which arithmetic gives, can be numbers of the program."""
        if self._layout.dtype.kind == "i":
            return bool(pa.types.is_signed_integer(type_))
        return kind_of(type_) == self._layout.dtype or bool(pa.types.is_float32(type_))

    def _called(self, node: Call) -> int:
        arguments = node.arguments
        if not all(self._fits(each.type) for each in arguments):
            raise Unsupported
        if node.name in ("+", "-", "*", "/") and len(arguments) == 2:
            if node.name == "+" and self._is_square(arguments[1]) and not _is_narrower(node.type, self._layout.dtype):
                total = self._number(arguments[0])
                if total >= self._width:
                    return self._square(arguments[1], total)
                return self._binary(kernels.ADD, total, self._square(arguments[1], None))
            if self._is_square(node):
                return self._square(node, None)
            return self._binary(_OPERATIONS[node.name], *map(self._number, arguments))
        if len(arguments) == 1 and node.type == arguments[0].type:
            operation = {"-": kernels.NEGATE, "abs": kernels.ABSOLUTE, "sqrt": kernels.ROOT}.get(node.name)
            if operation is not None and (operation != kernels.ROOT or self._layout.dtype.kind == "f"):
                return self._unary(operation, self._number(arguments[0]))
        raise Unsupported

    def _is_square(self, node: Node) -> bool:
        """Whether a node is the square of a difference of floats, for which there is one operation."""
        if not isinstance(node, Call) or node.name != "*" or node.arguments[0] != node.arguments[1]:
            return False
        inner = node.arguments[0]
        is_difference = isinstance(inner, Call) and inner.name == "-" and len(inner.arguments) == 2
        return is_difference and self._layout.dtype.kind == "f" and kind_of(node.type) == self._layout.dtype

    def _square(self, node: Node, total: int | None) -> int:
        """The square of a difference, added to a total if there is one."""
        one, other = map(self._number, node.operands[0].operands)
        if one < 0 <= other:
            one, other = other, one
        if one < 0 and total is not None:
            return self._binary(kernels.ADD, total, self._binary(kernels.SQUARE, one, other))
        if total is None:
            return self._binary(kernels.SQUARE, one, other)
        self._lines.append((kernels.ADD_SQUARE, total, one, other))
        self._release(one, other)
        return total

    def _rounded(self, node: Node, operand: int) -> int:
        """What arithmetic gave, as narrow as its type is."""
        if _is_narrower(node.type, self._layout.dtype):
            return self._unary(kernels.NARROW, operand)
        if self._layout.dtype.kind == "i" and node.type.bit_width < 64:
            return self._binary(kernels.BOUND, operand, self._constant(1 << (node.type.bit_width - 1)))
        return operand

    def _literal(self, node: Node) -> int:
        try:
            value = constant_value(node)
        except ExpressionError:
            raise Unsupported from None
        if (
            not value.is_valid
            or kind_of(node.type) is None
            or kind_of(node.type) not in (self._layout.dtype, np.float32)
        ):
            raise Unsupported
        if pa.types.is_timestamp(value.type):
            value = value.cast(pa.int64())
        return self._constant(value.as_py())

    def _constant(self, value: Any) -> int:
        self._constants.append(value)
        return -len(self._constants)

    def _unary(self, operation: int, operand: int) -> int:
        return self._binary(operation, operand, -1)

    def _binary(self, operation: int, one: int, other: int) -> int:
        if one < 0 <= other:
            one, other, operation = other, one, _MIRRORED.get(operation, operation)
        is_truth = operation >= kernels.LESS
        if one < 0:
            result = self._new_flag(True) if is_truth else self._constant(0)
            self._uniform.append((operation, result, one, other))
            return result
        self._release(one, other)
        result = self._new_flag(False) if is_truth else self._register()
        self._lines.append((operation, result, one, other))
        return result

    def _register(self) -> int:
        if self._free:
            return self._free.pop()
        self._vectors += 1
        return self._width + self._vectors - 1

    def _release(self, *operands: int) -> None:
        """Registers are read once, and may have something else afterwards."""
        self._free += {each for each in operands if each >= self._width}


def _is_narrower(type_: pa.DataType, dtype: np.dtype[Any]) -> bool:
    return pa.types.is_float32(type_) and dtype == np.float64


def _lines(lines: Sequence[tuple[int, int, int, int]]) -> npt.NDArray[np.int64]:
    return np.array(lines, np.int64).reshape(-1, 4)
