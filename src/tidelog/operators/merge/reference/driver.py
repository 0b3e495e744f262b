"""What all algorithms share: inputs that join and leave, and which of them moves the output on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from tidelog.model.errors import InputError
from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT
from tidelog.operators.merge.elements import Element, stable

Phase: TypeAlias = Literal["pending", "joined", "left"]


@dataclass
class Counters:
    """What is odd about the elements of an input; where they rise, it is no copy of the others."""

    late: int = 0
    """Inserts that came when everything about their start was decided."""
    fallbacks: int = 0
    """Events that were frozen, and lacked on the input that moved the output on: another one was asked."""
    clamps: int = 0
    """Ends that were before the output's stable, and were put there."""
    unknown_ends: int = 0
    """Adjusts of ends that no event of the input has."""
    repeated_keys: int = 0
    """Inserts of a key and start that the input has already, with another end; one that is sent again may do that."""


@dataclass
class Input:
    """One input of a merge."""

    number: int
    join: int
    phase: Phase
    stable: int = BEFORE
    waiting: list[Element] = field(default_factory=list)
    """Inserts of a pending input, where they cannot be taken before it has joined."""
    counters: Counters = field(default_factory=Counters)


class Merge(ABC):
    """A merge of elements. Inputs have names, each of which is used once: who comes back comes as somebody else."""

    def __init__(self) -> None:
        self.inputs: dict[object, Input] = {}
        self.max_stable = BEFORE
        """The largest stable of a joined input."""
        self.stable = BEFORE
        """The last stable that was given; behind ``max_stable`` if a policy holds it back."""
        self._given: list[Element] = []

    @final
    def attach(self, name: object, join: int = BEFORE) -> None:
        """Take an input in, which has all events that end at ``join`` or later: everything, by default."""
        if name in self.inputs:
            raise InputError(f"there was an input {name!r} before; one that comes back needs another name")
        phase: Phase = "joined" if join == BEFORE or join <= self.progress() else "pending"
        self.inputs[name] = Input(len(self.inputs), join, phase)

    @final
    def detach(self, name: object) -> None:
        """Let an input go; whatever it still sends is dropped."""
        self._input(name).phase = "left"

    @final
    def force_join(self, name: object) -> list[Element]:
        """Have a pending input join now; events that end before its join time may be missing in the output."""
        own = self._input(name)
        if own.phase == "pending":
            self._join(own)
            self._promote()
        return self._take()

    @final
    def push(self, name: object, element: Element) -> list[Element]:
        """What comes out by one element."""
        own = self._input(name)
        if own.phase == "left":
            return []
        if element.kind == INSERT:
            if element.end > element.start:
                self._insert(element, own)
        elif element.kind == ADJUST:
            self._adjust(element, own)
        else:
            own.stable = max(own.stable, element.end)
            if own.phase == "joined" and element.end > self.max_stable:
                self._advance(element.end, own)
                self._promote()
        return self._take()

    def progress(self) -> int:
        """How far the output is, for those who want to join."""
        return self.max_stable

    @property
    @abstractmethod
    def size(self) -> int:
        """How many events are remembered."""

    @abstractmethod
    def _insert(self, element: Element, own: Input) -> None: ...

    @abstractmethod
    def _adjust(self, element: Element, own: Input) -> None: ...

    @abstractmethod
    def _advance(self, time: int, own: Input) -> None:
        """A joined input has a stable behind all others."""

    def _joined(self, own: Input) -> None:  # noqa: B027  # most have nothing to do then
        """An input has joined."""

    def _join(self, own: Input) -> None:
        own.phase = "joined"
        self._joined(own)
        if own.stable > self.max_stable:
            self._advance(own.stable, own)

    @final
    def _promote(self) -> None:
        again = True
        while again:
            again = False
            for each in list(self.inputs.values()):
                if each.phase == "pending" and each.join <= self.progress():
                    self._join(each)
                    again = True

    def _input(self, name: object) -> Input:
        if name not in self.inputs:
            raise InputError(f"there is no input {name!r}; attach it first")
        return self.inputs[name]

    def _emit(self, element: Element) -> None:
        self._given.append(element)

    def _emit_stable(self, time: int) -> None:
        if time > self.stable:
            self.stable = time
            self._given.append(stable(time))

    def _take(self) -> list[Element]:
        given, self._given = self._given, []
        return given
