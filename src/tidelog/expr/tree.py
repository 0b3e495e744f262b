"""The typed tree of an expression.

Trees are made by :func:`tidelog.expr.parse`, which inserts every conversion that DuckDB would make unasked, so that
operands have exactly the types their operator works on. Nodes are immutable and compare by structure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from tidelog.expr.values.casts import is_native

_HUGEINT = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Node:
    """A value for every row of a batch."""

    type: pa.DataType
    """The Arrow type of the result; what DuckDB would export the result's SQL type as."""
    is_constant: bool = field(init=False, repr=False, compare=False)
    """Whether no column is used, so that the value is the same for every row."""
    is_native: bool = field(init=False, repr=False, compare=False)
    """Whether it is computed here, column by column, and not by DuckDB. Constants are computed once, by either."""
    known: list[Any] = field(init=False, repr=False, compare=False, default_factory=list)
    """What was made of the node, once somebody has asked."""

    _computed_here: ClassVar[bool] = True

    def __post_init__(self) -> None:
        below = self.operands
        object.__setattr__(self, "is_constant", all(node.is_constant for node in below))
        is_native = self._computed_here and all(node.is_native or node.is_constant for node in below)
        object.__setattr__(self, "is_native", is_native)

    @property
    @abstractmethod
    def operands(self) -> tuple[Node, ...]:
        """The nodes right below this one."""

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each before its operands."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.operands))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, in the order of the schema, each once."""
        found = {node.position: node.name for node in self.walk() if isinstance(node, Column)}
        return tuple(found[position] for position in sorted(found))


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column, by the name it has in the schema."""

    name: str
    position: int
    """Its place in the schema."""
    nullable_column: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_constant", False)
        object.__setattr__(self, "is_native", True)

    @property
    def operands(self) -> tuple[Node, ...]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant as written: NULL, a boolean, an integer, a decimal, a double or a string.

    Integers (but not decimals) and strings are *loose*: next to other types they take on the type needed, the
    integer if its value fits.
    """

    value: bool | int | float | str | Decimal | None

    @property
    def operands(self) -> tuple[Node, ...]:
        """None."""
        return ()

    @property
    def is_loose_integer(self) -> bool:
        """Whether this is an integer written without a type."""
        return isinstance(self.value, int) and not isinstance(self.value, bool)

    @property
    def is_loose_string(self) -> bool:
        """Whether this is a string, which may be read as a value of any type."""
        return isinstance(self.value, str)


@dataclass(frozen=True, slots=True)
class Members(Node):
    """The literals of a list behind IN, all of them, which become values of ``type`` there.

    ``literals`` has those of each type together, so that many of them take no more than a few arrays.
    """

    literals: tuple[pa.Array, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        """None."""
        return ()

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.literals))

    def singly(self) -> list[Literal]:
        """Each by itself."""
        # Integers of many digits are decimals in Arrow.
        return [
            Literal(part.type, int(value) if part.type == _HUGEINT else value)
            for part in self.literals
            for value in part.to_pylist()
        ]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """A conversion of ``operand`` to ``type``; where it fails, an error, or NULL if ``lenient`` (TRY_CAST)."""

    operand: Node
    lenient: bool = False
    implicit: bool = False
    """Whether nobody wrote it: it is not shown, and parsing inserts it again."""

    def __post_init__(self) -> None:
        Node.__post_init__(self)
        if self.lenient or not is_native(self.operand.type, self.type):
            object.__setattr__(self, "is_native", False)

    @property
    def operands(self) -> tuple[Node, ...]:
        """What is converted."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """An operator or a function by its one name in the registry, applied to operands of the types it works on."""

    name: str
    arguments: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        """The arguments."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class External(Call):
    """An operator or a function that DuckDB computes, applied to operands as they are written."""

    _computed_here: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Case(Node):
    """The value of the first branch whose condition is true, else ``otherwise``; DuckDB computes it."""

    _computed_here: ClassVar[bool] = False

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        """Conditions and values in turn, and the last value."""
        flat = [node for branch in self.branches for node in branch]
        return (*flat, self.otherwise)


Value = Any
"""What evaluation passes around: a :class:`pyarrow.Array`, or a :class:`pyarrow.Scalar` for a constant."""
