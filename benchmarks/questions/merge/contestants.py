"""Merges that R3 is compared with, of arrays and element by element, which keep a payload for each input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from questions.merge import kernels
from questions.merge.copies import BATCH_ROWS, PAYLOAD_BYTES
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.engine import Keyed, Ordered, Rows
from tidelog.operators.merge.codes import BEFORE, INSERT, MAX_STABLE, OUT_STABLE, STABLE
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.reference.cleanse import Cleanse
from tidelog.operators.merge.reference.keyed import R3, SeparateR3
from tidelog.operators.merge.reference.ordered import R1

R3_SHARED, R3_SEPARATE, CLEANSED = "R3", "an index for each input", "Cleanse + R1"
EVENT_BYTES: Final = 3 * 8
"""The key and the end of an event that waits."""

Texts = npt.NDArray[np.uint8]


class Contestant(ABC):
    """A merge of some inputs, by their numbers."""

    @abstractmethod
    def push(self, number: int, rows: Rows) -> Rows:
        """What comes out by the elements of an input."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """The bytes of events, payloads and indexes that are remembered."""


class Shared(Contestant):
    """R3 as it is: every payload is kept once, when it first comes out."""

    def __init__(self, inputs: int, texts: Texts, most: int) -> None:
        self._merge = Keyed()
        for number in range(inputs):
            self._merge.attach(str(number))
        self._texts = texts
        self._kept = np.zeros((most, PAYLOAD_BYTES), np.uint8)
        self._next = 0

    def push(self, number: int, rows: Rows) -> Rows:
        """With the payloads of new events copied, round and round in the memory for them."""
        found = self._merge.push(str(number), rows)
        new = found[codes.PAYLOAD, found[codes.KIND] == INSERT]
        for first in range(0, len(new), len(self._kept)):
            some = new[first : first + len(self._kept)]
            if self._next + len(some) > len(self._kept):
                self._next = 0
            np.take(self._texts, some, axis=0, out=self._kept[self._next : self._next + len(some)], mode="clip")
            self._next += len(some)
        return found

    @property
    def memory(self) -> int:
        """An end for each input, and the payload once."""
        ends = len(self._merge.names) + 1
        return self._merge.size * (PAYLOAD_BYTES + EVENT_BYTES + 8 * ends)


class _Indexes(Contestant):
    """Indexes in arrays, each with payloads of its own."""

    def __init__(self, indexes: int, texts: Texts, most: int) -> None:
        most += BATCH_ROWS
        self._nodes = np.full((indexes, 4, most), -1, np.int64)
        self._ends = np.full((indexes, most, 1), BEFORE, np.int64)
        self._slots = np.zeros((indexes, 1 << (2 * most - 1).bit_length()), np.int64)
        self._free = np.zeros((indexes, most), np.int64)
        self._merges = np.zeros((indexes, codes.MERGE_FIELDS), np.int64)
        self._merges[:, [MAX_STABLE, OUT_STABLE]] = BEFORE
        self._texts = texts
        self._kept = np.zeros((indexes, most, PAYLOAD_BYTES), np.uint8)

    def _run(self, call: Callable[..., Any], number: int, rows: Rows) -> Rows:
        out = np.empty((codes.CAUSE + 1, rows.shape[1] + self._nodes.shape[2] + 1), np.int64)
        count = call(
            np.ascontiguousarray(rows), number, self._nodes, self._ends, self._slots, self._free, self._merges,
            self._texts, self._kept, out,
        )  # fmt: skip
        return out[:, :count]

    @property
    def size(self) -> int:
        """The entries of all indexes."""
        return int((self._merges[:, codes.TOP] - self._merges[:, codes.FREE]).sum())

    @property
    def memory(self) -> int:
        """A payload for each entry."""
        return self.size * (PAYLOAD_BYTES + EVENT_BYTES)


class Separate(_Indexes):
    """R3 with an index for each input, and one for the output."""

    def __init__(self, inputs: int, texts: Texts, most: int) -> None:
        super().__init__(inputs + 1, texts, most)

    def push(self, number: int, rows: Rows) -> Rows:
        """The same elements as by R3."""
        return self._run(kernels.merge_separately, number, rows)


class Cleansed(_Indexes):
    """Each input is cleansed, then R1 merges what comes out."""

    def __init__(self, inputs: int, texts: Texts, most: int) -> None:
        super().__init__(inputs, texts, most)
        self._merge = Ordered(codes.SAME_ORDER)
        for number in range(inputs):
            self._merge.attach(str(number))

    def push(self, number: int, rows: Rows) -> Rows:
        """What is certain, in order."""
        return self._merge.push(str(number), self._run(kernels.cleanse, number, rows)[:5])


CONTESTANTS: Final[dict[str, Callable[[int, Texts, int], Contestant]]] = {
    R3_SHARED: Shared,
    R3_SEPARATE: Separate,
    CLEANSED: Cleansed,
}


def scalar(name: str, inputs: int) -> Callable[[int, Element], list[Element]]:
    """The same element by element: what a merge of the reference gives for an element of an input."""
    merge = {R3_SHARED: R3, R3_SEPARATE: SeparateR3, CLEANSED: R1}[name]()
    for number in range(inputs):
        merge.attach(number)
    if name != CLEANSED:
        return lambda number, element: merge.push(number, element)
    cleansers = [Cleanse() for _ in range(inputs)]
    return lambda number, element: [
        out for cleansed in cleansers[number].push(element) for out in merge.push(number, cleansed)
    ]


def elements_of(rows: Rows, texts: Texts) -> list[Element]:
    """Elements whose payloads are bytes of their own."""
    return [
        Element(kind, None if kind == STABLE else (payload, texts[payload].tobytes()), start, end, old)
        for kind, payload, start, end, old in rows[:5].T.tolist()
    ]


def merged(contestant: Contestant, batches: Iterable[tuple[int, Rows]]) -> list[Rows]:
    """All that comes out."""
    return [contestant.push(number, rows) for number, rows in batches]
