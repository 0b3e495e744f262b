"""Which rows are null: from Arrow's bitmap to the validity bytes of pieces, and back."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import HEAD, ValidityKind
from tidelog.storage.codec.piece import Heads, check_ranges

_NOTHING = np.zeros(0, np.uint8)

# Plain integers: comparing NumPy's with those of an enumeration is slow.
_ALL_NULL, _BITMAP, _BITMAP_LZ4 = (
    int(kind) for kind in (ValidityKind.ALL_NULL, ValidityKind.BITMAP, ValidityKind.BITMAP_LZ4)
)

_WORTH_COMPRESSING = 64
"""Bytes of bitmap below which LZ4 has nothing to win (512 rows)."""


class _Codecs(threading.local):
    """An LZ4 codec per thread: Arrow does not say that one may be shared."""

    def __init__(self) -> None:
        self.lz4 = pa.Codec("lz4_raw")


_codecs = _Codecs()


@dataclass(frozen=True)
class Validity:
    """The null slots of a run of blocks, as each piece will carry them."""

    kinds: npt.NDArray[np.uint8]
    """A :class:`ValidityKind` per block."""
    content: Bytes
    """The validity bytes of all blocks, one after the other."""
    bounds: Ints
    """Block i's bytes are ``content[bounds[i]:bounds[i + 1]]``."""
    bits: Bytes
    """A byte per row, 1 where it is valid; empty if there is no null at all."""

    def of_block(self, block: int) -> tuple[ValidityKind, Bytes]:
        """Kind and validity bytes of one block, as ``piece.write_head`` takes them."""
        return ValidityKind(int(self.kinds[block])), self.content[self.bounds[block] : self.bounds[block + 1]]


def no_nulls(blocks: int) -> Validity:
    """The validity of blocks without nulls."""
    return Validity(np.zeros(blocks, np.uint8), _NOTHING, np.zeros(blocks + 1, np.int64), _NOTHING)


def encode_validity(array: pa.Array, cuts: Ints) -> Validity:
    """The validity of the blocks ``array[cuts[i]:cuts[i + 1]]``; no rows count as no nulls."""
    blocks = len(cuts) - 1
    if array.null_count == 0 or not blocks:
        return no_nulls(blocks)
    bits = valid_bits(array)
    rows = cuts[1:] - cuts[:-1]
    if (cuts[:-1] & 7).any():
        # Blocks that do not start on a byte, as blocks of whole vectors do, get bitmaps of their own.
        bitmaps = [np.packbits(bits[first:last], bitorder="little") for first, last in itertools.pairwise(cuts)]
        packed = np.concatenate(bitmaps)
        starts = np.zeros(blocks + 1, np.int64)
        np.cumsum((rows + 7) >> 3, out=starts[1:])
    else:
        packed = np.packbits(bits[: cuts[-1]], bitorder="little")
        starts = (cuts + 7) >> 3
    valid_rows = _sums(np.bitwise_count(packed), starts)
    changes = np.zeros(len(packed), np.uint8)
    np.not_equal(packed[1:], packed[:-1], out=changes[1:])
    # Where most bytes differ from their neighbour LZ4 finds nothing, and is not asked.
    sizes = starts[1:] - starts[:-1]
    promising = (sizes >= _WORTH_COMPRESSING) & (2 * _sums(changes, starts) < sizes)
    kinds = np.where(valid_rows == rows, 0, np.where(valid_rows == 0, _ALL_NULL, _BITMAP)).astype(np.uint8)
    parts = [_NOTHING] * blocks
    for i in np.flatnonzero(kinds == _BITMAP).tolist():
        parts[i] = packed[starts[i] : starts[i + 1]]
        if promising[i]:
            compressed = _codecs.lz4.compress(pa.py_buffer(parts[i]))
            if compressed.size <= sizes[i] - (sizes[i] >> 3):
                kinds[i], parts[i] = _BITMAP_LZ4, np.frombuffer(compressed, np.uint8)
    bounds = np.zeros(blocks + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    return Validity(kinds, np.concatenate(parts), bounds, bits)


def _sums(values: Bytes, starts: Ints) -> Ints:
    """Sums of ``values[starts[i]:starts[i + 1]]``."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    return running[starts[1:]] - running[starts[:-1]]


def valid_bits(array: pa.Array) -> Bytes:
    """One byte per row of ``array``: 1 where it is valid, 0 where it is null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.full(len(array), 0 if pa.types.is_null(array.type) else 1, np.uint8)
    first, last = array.offset, array.offset + len(array)
    raw = np.frombuffer(bitmap, np.uint8)[first >> 3 : (last + 7) >> 3]
    return np.unpackbits(raw, bitorder="little")[first & 7 : (first & 7) + len(array)]


def decode_validity(
    buffer: Bytes, offsets: Ints, heads: Heads, starts: Ints, stops: Ints
) -> tuple[pa.Buffer | None, int]:
    """Arrow's bitmap of rows ``[starts[i], stops[i])`` of all pieces in a row, and the number of nulls.

    The bitmap is None when there is no null. ``heads`` come from
    :func:`tidelog.storage.codec.piece.read_heads` for the same pieces; ``starts`` are multiples of 8.
    """
    if not heads.validity.any():
        return None, 0
    counts = (stops - starts).tolist()
    total = sum(counts)
    aligned = not any(count & 7 for count in counts[:-1])
    # Bytes can be copied as they are when every piece but the last fills its own; bits are moved otherwise.
    target = np.full((total + 7) >> 3 if aligned else total, 0xFF if aligned else 1, np.uint8)
    at = 0
    for i, (kind, start, count) in enumerate(zip(heads.validity.tolist(), starts.tolist(), counts, strict=True)):
        if kind and count:
            if kind == _ALL_NULL:
                bitmap = np.zeros((count + 7) >> 3, np.uint8)
            else:
                bitmap = _bitmap_of_piece(buffer, int(offsets[i]), heads, i)[start >> 3 : (start + count + 7) >> 3]
            if aligned:
                target[at >> 3 : (at + count + 7) >> 3] = bitmap
            else:
                target[at : at + count] = np.unpackbits(bitmap, bitorder="little")[:count]
        at += count
    if not aligned:
        target = np.packbits(target, bitorder="little")
    if total & 7:
        target[-1] &= (1 << (total & 7)) - 1
    nulls = total - int(np.bitwise_count(target).sum())
    if nulls == 0:
        return None, 0
    memory, owner = allocate(len(target))
    memory[:] = target
    return owner, nulls


def decode_validity_rows(buffer: Bytes, offsets: Ints, heads: Heads, chosen: Chosen) -> tuple[pa.Buffer | None, int]:
    """The same of some rows of all pieces."""
    none = np.zeros(len(offsets), np.int64)
    check_ranges(heads, none, chosen.rows)
    bitmap, _ = decode_validity(buffer, offsets, heads, none, chosen.rows)
    if bitmap is None:
        return None, 0
    places, _ = chosen.moved()
    bits = (np.frombuffer(bitmap, np.uint8)[places >> 3] >> (places & 7).astype(np.uint8)) & 1
    nulls = len(bits) - int(bits.sum())
    if not nulls:
        return None, 0
    packed = np.packbits(bits, bitorder="little")
    memory, owner = allocate(len(packed))
    memory[:] = packed
    return owner, nulls


def _bitmap_of_piece(buffer: Bytes, offset: int, heads: Heads, i: int) -> Bytes:
    size = int(heads.rows[i] + 7) >> 3
    start = offset + HEAD
    stored = buffer[start : start + int(heads.validity_bytes[i])]
    if int(heads.validity[i]) == _BITMAP_LZ4:
        try:
            plain = _codecs.lz4.decompress(pa.py_buffer(stored), decompressed_size=size)
        except (OSError, pa.ArrowException) as error:
            raise CorruptionError(f"validity bitmap of piece {i} cannot be decompressed: {error}") from error
        stored = np.frombuffer(plain, np.uint8)
    if len(stored) != size:
        raise CorruptionError(
            f"validity bitmap of piece {i} has {len(stored)} bytes; {int(heads.rows[i])} rows need {size}"
        )
    return stored
