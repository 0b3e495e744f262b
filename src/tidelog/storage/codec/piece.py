"""The piece: the image of one column in one block, and the head every piece starts with.

A piece is self-contained and starts 8-byte aligned. All numbers are little endian.

======  ====  =========================================================================================
offset  type  field
======  ====  =========================================================================================
0       u8    encoding of the body (:class:`Encoding`)
1       u8    validity kind (:class:`ValidityKind`)
2       u16   parameter of the encoding
4       u32   rows
8       u32   length of the validity bytes
12      u32   offset of the body from the start of the piece, a multiple of 8
16      ...   validity bytes, zero bytes up to a multiple of 8, then the body
======  ====  =========================================================================================

A piece without a single valid row (no rows, or all of them null) is its head and nothing else. Null slots of
other pieces hold whatever value compresses best; readers must not look at it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints, align
from tidelog.storage.codec.encodings import HEAD, Encoding, ValidityKind

_HEAD_STRUCT = struct.Struct("<BBHIII")
_HEAD_DTYPE = np.dtype(
    [
        ("encoding", "<u1"),
        ("validity", "<u1"),
        ("parameter", "<u2"),
        ("rows", "<u4"),
        ("validity_bytes", "<u4"),
        ("body", "<u4"),
    ]
)
_HEAD_RANGE = np.arange(HEAD)
_LAST_KIND = int(max(ValidityKind))  # comparing NumPy's integers with an enumeration's is slow


@dataclass(frozen=True)
class Heads:
    """The heads of several pieces, field by field; index i is the i-th piece."""

    encoding: npt.NDArray[np.uint8]
    validity: npt.NDArray[np.uint8]
    parameter: npt.NDArray[np.uint16]
    rows: Ints
    validity_bytes: Ints
    body: Ints
    """Offset of the body from the start of the piece."""

    def select(self, pieces: Ints) -> Heads:
        """The heads of some of the pieces."""
        return Heads(*(getattr(self, field.name)[pieces] for field in fields(self)))


def body_offset(validity_bytes: int) -> int:
    """Where the body of a piece starts, counted from the start of the piece."""
    return HEAD + align(validity_bytes)


def write_head(
    target: Bytes, encoding: Encoding, parameter: int, rows: int, kind: ValidityKind, validity: Bytes
) -> int:
    """Write head, validity and padding at the start of ``target``; returns the offset of the body."""
    body = body_offset(len(validity))
    target[HEAD + len(validity) : body] = 0
    target[HEAD : HEAD + len(validity)] = validity
    _HEAD_STRUCT.pack_into(target.data, 0, encoding, kind, parameter, rows, len(validity), body)
    return body


def read_heads(buffer: Bytes, offsets: Ints, lengths: Ints) -> Heads:
    """Gather and check the heads of the pieces at ``offsets`` of ``buffer``.

    Afterwards it is safe to slice validity and body of every piece out of ``buffer``. Raises
    :class:`CorruptionError` when a piece does not lie inside the buffer or its head contradicts its length.
    """
    outside = (lengths < HEAD) | (offsets < 0) | (offsets > len(buffer) - lengths)
    if outside.any():
        i = int(np.argmax(outside))
        raise CorruptionError(
            f"piece {i} claims {int(lengths[i])} bytes at offset {int(offsets[i])} of a buffer of "
            f"{len(buffer)} bytes; a piece has at least {HEAD} bytes and lies inside the buffer"
        )
    raw: npt.NDArray[Any] = buffer[offsets[:, None] + _HEAD_RANGE].view(_HEAD_DTYPE)[:, 0]
    heads = Heads(
        encoding=raw["encoding"],
        validity=raw["validity"],
        parameter=raw["parameter"],
        rows=raw["rows"].astype(np.int64),
        validity_bytes=raw["validity_bytes"].astype(np.int64),
        body=raw["body"].astype(np.int64),
    )
    expected = HEAD + ((heads.validity_bytes + 7) & -8)
    wrong = (heads.body != expected) | (heads.body > lengths) | (heads.validity > _LAST_KIND)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(
            f"head of piece {i} of {int(lengths[i])} bytes says: validity kind {int(heads.validity[i])} with "
            f"{int(heads.validity_bytes[i])} bytes, body at {int(heads.body[i])}; the body was expected at "
            f"{int(expected[i])}, inside the piece"
        )
    return heads


def check_ranges(heads: Heads, starts: Ints, stops: Ints) -> None:
    """Raise :class:`CorruptionError` unless every piece holds the rows ``[starts[i], stops[i])``."""
    wrong = (starts < 0) | (starts > stops) | (stops > heads.rows)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(
            f"rows {int(starts[i])} to {int(stops[i])} were asked of piece {i}, which holds "
            f"{int(heads.rows[i])} rows; block and piece disagree on the number of rows"
        )
