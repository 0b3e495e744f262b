"""What parts that stand for another one, with a change, take from it as it is."""

from __future__ import annotations

from tidelog.index.layout import Layout
from tidelog.store.read.parts.part import Part


class WrappedPart(Part):
    """A part over another one, ``_part``. What both are asked alike is asked of that; scanning is the kind's own."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.base, self.info, self.opened = part.base, part.info, part.opened
        self.has_rows, self.in_memory = part.has_rows, part.in_memory
        self.first, self.last, self.rows = part.first, part.last, part.rows

    @property
    def layout(self) -> Layout:
        """That of the part."""
        return self._part.layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number, deleted ones included."""
        return self._part.numbers

    @property
    def original(self) -> Part:
        """The part as it was written, but for the names of its columns, with rows that are deleted now."""
        return self._part.original

    def require_rows(self) -> None:
        """Raise :class:`GrainError` if its rows are not there to be read."""
        self._part.require_rows()

    def shape(self) -> dict[str, int] | None:
        """What the file of the part consists of."""
        return self._part.shape()
