"""Where the parts of text pieces stand in a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.piece import VECTOR, Encoding, Heads, ValidityKind
from tidelog.storage.codec.text import kernels
from tidelog.storage.codec.text.layout import DICTIONARY_HEAD_TYPE, DIRECTORY_ENTRY, PLAIN_HEAD_TYPE

PARTS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "kind",  # as kernels number them
            "stream",  # of indexes (DICTIONARY) or lengths (PLAIN)
            "stream_bytes",
            "sizes",  # stream of the lengths of distinct values
            "sizes_bytes",
            "entries",  # distinct values
            "values",  # their bytes, as stored
            "stored_bytes",
            "value_bytes",  # what they expand to
            "compression",
            "directory",  # of vectors, then of segments
            "segments",
            "end",  # of the piece
        )
    ]
)
"""Positions are counted from the start of the buffer; what a kind of piece lacks is zero."""

_UNKNOWN = -1
_KINDS: Ints = np.full(256, _UNKNOWN, np.int64)
_KINDS[Encoding.TEXT_PLAIN] = kernels.PLAIN
_KINDS[Encoding.TEXT_DICTIONARY] = kernels.DICTIONARY
_KINDS[Encoding.TEXT_CONSTANT] = kernels.CONSTANT


def locate_parts(buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads) -> npt.NDArray[np.void]:
    """The :data:`PARTS` of every piece; afterwards each part is known to lie inside its piece.

    Raises :class:`CorruptionError` for pieces that are not text or whose parts contradict their length.
    """
    parts: npt.NDArray[np.void] = np.zeros(len(offsets), PARTS)
    parts["kind"] = _kinds(heads, lengths)
    parts["end"] = offsets + lengths
    body = offsets + heads.body
    coded = (parts["kind"] == kernels.DICTIONARY) | (parts["kind"] == kernels.CONSTANT)
    plain = parts["kind"] == kernels.PLAIN
    last = body.copy()
    if coded.any():
        last[coded] = _locate_dictionaries(parts, coded, buffer, body)
    if plain.any():
        last[plain] = _locate_segments(parts, plain, buffer, body, heads)
    wrong = (
        (last > parts["end"])
        | (coded & ((parts["entries"] < 1) | (parts["entries"] > heads.rows)))
        | ((parts["kind"] == kernels.CONSTANT) & (parts["entries"] + parts["stream_bytes"] + parts["sizes_bytes"] != 1))
        | (plain & (heads.parameter == 0))
    )
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(
            f"text piece {i} ({Encoding(int(heads.encoding[i])).name}, {int(heads.rows[i])} rows, parameter "
            f"{int(heads.parameter[i])}) names {int(parts['entries'][i])} distinct values and parts up to byte "
            f"{int(last[i])} of the buffer; the piece ends at {int(parts['end'][i])}"
        )
    return parts


def _kinds(heads: Heads, lengths: Ints) -> Ints:
    kinds = _KINDS[heads.encoding]
    bare = heads.body == lengths
    wrong = (kinds == _UNKNOWN) | (bare & (heads.rows != 0) & (heads.validity != ValidityKind.ALL_NULL))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(
            f"piece {i} has encoding {int(heads.encoding[i])} and {int(lengths[i] - heads.body[i])} bytes of body for "
            f"{int(heads.rows[i])} rows; one of the encodings of text, and a body unless all rows are null, "
            "were expected"
        )
    kinds[bare] = kernels.NOTHING
    return kinds


def _locate_dictionaries(parts: npt.NDArray[np.void], which: npt.NDArray[np.bool_], buffer: Bytes, body: Ints) -> Ints:
    """Fill in the parts of DICTIONARY and CONSTANT pieces; returns where the last part of each ends."""
    body = body[which]
    found = _records(buffer, body, DICTIONARY_HEAD_TYPE)
    stream = body + DICTIONARY_HEAD_TYPE.itemsize
    sizes = stream + _aligned(found["indexes"])
    values = sizes + _aligned(found["sizes"])
    parts["stream"][which] = stream
    parts["stream_bytes"][which] = found["indexes"]
    parts["sizes"][which] = sizes
    parts["sizes_bytes"][which] = found["sizes"]
    parts["entries"][which] = found["entries"]
    parts["values"][which] = values
    parts["stored_bytes"][which] = found["stored"]
    parts["value_bytes"][which] = found["values"]
    parts["compression"][which] = found["compression"]
    end: Ints = values + found["stored"]
    return end


def _locate_segments(
    parts: npt.NDArray[np.void], which: npt.NDArray[np.bool_], buffer: Bytes, body: Ints, heads: Heads
) -> Ints:
    """Fill in the parts of PLAIN pieces; returns where the last part with a size in the head ends."""
    body = body[which]
    found = _records(buffer, body, PLAIN_HEAD_TYPE)
    vectors = -(-heads.rows[which] // VECTOR)
    segments = -(-vectors // np.maximum(heads.parameter[which], 1).astype(np.int64))
    directory = body + PLAIN_HEAD_TYPE.itemsize
    stream = body + _aligned(PLAIN_HEAD_TYPE.itemsize + DIRECTORY_ENTRY.itemsize * (vectors + segments))
    end: Ints = stream + _aligned(found["stream"])
    parts["directory"][which] = directory
    parts["stream"][which] = stream
    parts["stream_bytes"][which] = found["stream"]
    parts["segments"][which] = end
    parts["compression"][which] = found["compression"]
    return end


def _records(buffer: Bytes, places: Ints, dtype: np.dtype[Any]) -> npt.NDArray[np.void]:
    """The records at ``places``; one that reaches past the buffer comes out wrong, and so will its last part."""
    index = np.minimum(places[:, None] + np.arange(dtype.itemsize), len(buffer) - 1)
    records: npt.NDArray[np.void] = buffer[index].view(dtype)[:, 0]
    return records


def _aligned(sizes: npt.NDArray[Any]) -> Ints:
    return (sizes.astype(np.int64) + 7) & -8
