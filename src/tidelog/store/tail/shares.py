"""Which rows of appends to another stream a stream has taken: what a stream aside must not forget.

An append whose rows go to two streams is durable in one of them first. If a crash comes in between, it is sent again,
and the rows that were taken are to be left out. So the stream that takes a part of an append keeps, with the rows and
in the same record of its journal, which ones they are: its *share* of the append, by the other stream, producer and
number. It is needed until the other stream has the rest durably; then it is *settled*, and the next journal begins
without it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.store.rows.stored import Ints

Mask: TypeAlias = npt.NDArray[np.bool_]

_LEVEL: Final = 1
"""Of compression: late rows are few, or alike, and then any level makes the mask of a million rows short."""

_NONE: Final = -1


class Share(NamedTuple):
    """Some rows of an append, by their places in it."""

    rows: int
    """How many rows the append has."""
    check: int
    """The CRC-32 of the times of all of them, by which other rows under the same number are told from these."""
    taken: str
    """A bit for each row, set for those that were taken, the first in the lowest; deflated (zlib), in Base64."""

    @classmethod
    def of(cls, at: Sequence[Ints], is_taken: Sequence[Mask]) -> Self:
        """The rows of an append, given in parts by their times, that masks of the same lengths pick out."""
        bits = np.packbits(np.concatenate(is_taken), bitorder="little")
        text = base64.b64encode(zlib.compress(bits.tobytes(), _LEVEL)).decode()
        return cls(sum(map(len, at)), _check(at), text)

    def difference(self, at: Sequence[Ints]) -> str:
        """What tells an append, given by its times, from the one this is a share of; empty if nothing does."""
        rows = sum(map(len, at))
        if rows != self.rows:
            return f"{rows} rows instead of {self.rows}"
        return "" if _check(at) == self.check else "other times, or the same ones in another order"

    def mask(self) -> Mask:
        """Which rows of the append were taken."""
        try:
            bits = np.frombuffer(zlib.decompress(base64.b64decode(self.taken, validate=True)), np.uint8)
        except (ValueError, zlib.error) as error:
            raise CorruptionError(f"a share of an append cannot be read: {error}") from error
        if len(bits) != -(-self.rows // 8):
            raise CorruptionError(f"a share of an append of {self.rows} rows has {len(bits)} bytes of bits")
        return np.unpackbits(bits, count=self.rows, bitorder="little").view(np.bool_)


def _check(at: Iterable[Ints]) -> int:
    value = 0
    for each in at:
        value = zlib.crc32(np.ascontiguousarray(each, "<i8").data, value)
    return value


def sender(directory: str, producer: str) -> str:
    """A producer of the stream in a directory, in one text: several streams may set rows aside in the same one."""
    return f"{directory} {producer}"


class Shares:
    """The shares of appends that are not settled, by :func:`sender` and number. False if there was never any."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Share]] = {}
        self._settled: dict[str, int] = {}
        """By sender, the greatest number of those that were forgotten. Has all senders that ever had a share."""

    def __bool__(self) -> bool:
        return bool(self._settled)

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def expect(self, sent_by: str) -> None:
        """There will be shares of a sender's appends."""
        self._settled.setdefault(sent_by, _NONE)

    def add(self, sent_by: str, number: int, share: Share) -> None:
        """Keep a share."""
        self.expect(sent_by)
        self._known.setdefault(sent_by, {})[number] = share

    def find(self, sent_by: str, number: int) -> Share | None:
        """The share of an append; None if there is none, or it is settled."""
        return self._known.get(sent_by, {}).get(number)

    def settle(self, numbers: Mapping[str, int]) -> None:
        """Forget the shares of each sender's appends up to a number: nobody will ask for them again."""
        for sent_by in [each for each in self._known if each in numbers]:
            shares, last = self._known[sent_by], numbers[sent_by]
            done = [number for number in shares if number <= last]
            if done:
                self._settled[sent_by] = max(self._settled[sent_by], *done)
                self._known[sent_by] = {number: share for number, share in shares.items() if number > last}
                if not self._known[sent_by]:
                    del self._known[sent_by]

    def serve(self, directory: str, producers: Mapping[str, int]) -> bool:
        """Whether none was forgotten that a stream with these last appends of its producers could ask for."""
        numbers = {sender(directory, producer): number for producer, number in producers.items()}
        start = sender(directory, "")
        mine = {each: last for each, last in self._settled.items() if each.startswith(start)}
        return all(last <= numbers.get(each, _NONE) for each, last in mine.items())

    # -- JSON -----------------------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """By sender, the greatest number of shares that were forgotten, and those that are known, by number."""
        return {
            sent_by: [last, {str(number): list(share) for number, share in self._known.get(sent_by, {}).items()}]
            for sent_by, last in self._settled.items()
        }

    def update(self, saved: Mapping[str, Any]) -> None:
        """Add what others have :meth:`saved`."""
        for sent_by, (last, shares) in saved.items():
            self.expect(sent_by)
            self._settled[sent_by] = max(self._settled[sent_by], last)
            for number, (rows, check, taken) in shares.items():
                self.add(sent_by, int(number), Share(rows, check, taken))
