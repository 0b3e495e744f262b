"""From the body of a TEMPLATE piece to rows of text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.text.compression import expand
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.text.template.filling import kernels
from tidelog.storage.codec.text.template.layout import (
    BAD_BITS,
    BAD_NUMBER,
    BAD_TEXT,
    DIRECTORY_ENTRY,
    ENTRY,
    HEAD,
    LARGEST_TABLE,
)

_COMPLAINTS = {
    BAD_NUMBER: "a row has the number of a template that does not exist",
    BAD_BITS: "the rows of a vector have more bits than the vector",
    BAD_TEXT: "the rows of a vector have other bytes than its directory says, or a word that does not exist",
}


class Piece(NamedTuple):
    """The parts of a TEMPLATE piece in a buffer that some rows need; all of them lie inside the piece."""

    buffer: Bytes
    number: int
    """Of the piece, for messages."""
    body_at: int
    table_at: int
    packed_at: int
    """Where the values of the first wanted vector start."""
    first: int
    """The first wanted vector."""

    def fill(self, numbers: Ints, bitmap: Bytes, row: int, out: Bytes, start: int) -> None:
        """Write the rows that ``numbers`` gives the templates of, from ``start`` of ``out`` on.

        ``numbers`` receives where each row ends. ``bitmap`` is Arrow's, empty if nothing is null, and ``row`` the first
        row's bit. ``out`` has ROOM bytes behind the text of the rows. Raises :class:`CorruptionError`.
        """
        head = HEAD.unpack_from(self.buffer.data, self.body_at)
        operations, bases, constant_bytes, words, word_bytes, stored, compression, _ = head
        size = 3 * operations + 8 * bases + words + constant_bytes + word_bytes
        if size > LARGEST_TABLE:
            raise CorruptionError(
                f"the table of text piece {self.number} claims {size} bytes; {LARGEST_TABLE} are possible"
            )
        expanded = expand(self.buffer[self.table_at : self.table_at + stored], size, compression)
        table = scratch.array("table of templates", size + kernels.SLACK, np.uint8)
        table[:size] = expanded
        prepared = scratch.array("operations laid out", kernels.OPERATION_FIELDS * operations, np.uint64)
        templates = scratch.array("templates laid out", operations, np.uint64)
        entries = scratch.array("words laid out", words, np.uint64)
        count = int(kernels.prepare(table, np.array(head[: kernels.COUNTS]), prepared, templates, entries))
        if count < 0:
            raise CorruptionError(
                f"the table of text piece {self.number}, of {operations} operations with {constant_bytes} bytes of "
                f"constants and {words} words of {word_bytes} bytes, contradicts itself"
            )
        outcome = int(
            kernels.fill(
                table,
                prepared,
                templates[:count],
                entries,
                self.buffer,
                self.packed_at,
                self._directory(len(numbers)),
                bitmap,
                row,
                numbers,
                out,
                start,
            )
        )
        if outcome < 0:
            raise CorruptionError(f"text piece {self.number} contradicts itself: {_COMPLAINTS[outcome]}")

    def _directory(self, rows: int) -> Ints:
        """For each of the wanted vectors, the bytes of its text and of its values."""
        at = self.body_at + HEAD.size + self.first * ENTRY.size
        count = -(-rows // VECTOR)
        raw = self.buffer[at : at + count * ENTRY.size]
        return np.frombuffer(raw, DIRECTORY_ENTRY).reshape(count, 2).astype(np.int64)
