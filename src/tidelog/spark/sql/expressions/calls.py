"""Calls of functions, and the lists of those that are written for Spark.

An entry takes a :class:`Call` and gives Spark SQL, or raises :class:`Unwritable` for arguments that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.types import Type, Unwritable


@dataclass(frozen=True)
class Argument:
    """What a function is called with."""

    text: str
    type: Type
    is_constant: bool
    value: Any
    """Of a constant; see :func:`tidelog.spark.sql.constants.value_of`."""


@dataclass(frozen=True)
class Call:
    """A call of a function."""

    name: str
    arguments: Sequence[Argument]
    type: Type
    """Of the result."""
    zone: str
    """The time zone of the statement."""
    tools: Tools
    told: Mapping[str, Any] = field(default_factory=dict)
    """What the plan says of the call besides."""

    @property
    def texts(self) -> list[str]:
        """The arguments."""
        return [each.text for each in self.arguments]

    @property
    def kinds(self) -> list[str]:
        """What the arguments are."""
        return [each.type.id for each in self.arguments]

    def let(self, text: str, body: Callable[[str], str]) -> str:
        """Writes an expression once where a body needs it several times."""
        return self.tools.let(text, body)

    def constant(self, place: int, what: str) -> Any:
        """An argument that has to be a constant."""
        argument = self.arguments[place]
        if not argument.is_constant or argument.value is None:
            raise Unwritable(f"{self.name} with {what} that is no constant")
        return argument.value

    def expect(self, *kinds: str) -> None:
        """Raise unless the arguments are of some types."""
        if list(kinds) != self.kinds:
            raise Unwritable(f"{self.name} of {', '.join(each.type.name for each in self.arguments)}")

    def refuse(self) -> Unwritable:
        """What is raised for arguments that are not known."""
        return Unwritable(f"{self.name} of {', '.join(each.type.name for each in self.arguments)}")


Written: TypeAlias = Callable[[Call], str]


class Functions(dict[str, Written]):
    """Functions by their names."""

    def named(self, *names: str) -> Callable[[Written], Written]:
        """Keeps a function under some names."""

        def keep(function: Written) -> Written:
            self.update(dict.fromkeys(names, function))
            return function

        return keep
