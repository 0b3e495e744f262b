"""From pieces to text arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError, TidelogError
from tidelog.storage.codec.arena import Bytes, Ints, align
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.numeric import decode_integers
from tidelog.storage.codec.piece import VECTOR, Heads, check_ranges, read_heads
from tidelog.storage.codec.text import kernels
from tidelog.storage.codec.text.compression import expand
from tidelog.storage.codec.text.layout import DIRECTORY_ENTRY
from tidelog.storage.codec.text.parts import locate_parts
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.validity import decode_validity

_NOTHING: Bytes = np.empty(0, np.uint8)


class TextOverflowError(TidelogError, OverflowError):
    """The wanted rows hold more text than one array of their type can; read them in smaller ranges."""


def decode_text(type: pa.DataType, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints) -> pa.Array:
    """Rows ``starts[i]`` to ``stops[i]`` of the text pieces that stand in ``buffer``, as one array of ``type``.

    ``starts`` are multiples of 1,024, ``stops`` too unless they are the number of rows of the piece. Raises
    :class:`CorruptionError` if a piece contradicts itself, :class:`TextOverflowError` if the rows hold 2 GiB or
    more and ``type`` has 32-bit offsets.
    """
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, starts, stops)
    parts = locate_parts(buffer, offsets, lengths, heads)
    validity, nulls = decode_validity(buffer, offsets, heads, starts, stops)
    bitmap = _NOTHING if validity is None else np.frombuffer(validity, np.uint8)
    pieces, streams, sizes = _decode_streams(buffer, parts, starts, stops)

    first_rows = np.append(0, np.cumsum(stops - starts))
    rows = int(first_rows[-1])
    wide = pa.types.is_large_string(type) or pa.types.is_large_binary(type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    memory, places_buffer = allocate((rows + 1) * dtype.itemsize)
    places = memory.view(dtype)
    entries = scratch.array("entries", len(sizes), np.uint64)
    total = int(kernels.lay_out(pieces, streams, sizes, bitmap, entries, places))
    if total < 0:
        raise CorruptionError(
            f"text piece {-1 - total} contradicts itself: a length or an index is out of range, or the lengths "
            "of its distinct values do not add up to their bytes"
        )
    largest = (1 << 8 * dtype.itemsize - 1) - 1
    if total > largest:
        raise TextOverflowError(
            f"{rows} rows hold {total} bytes, but an array of type {type} at most {largest}; read fewer rows at a time"
        )

    content, content_buffer = allocate(total + kernels.SLACK)
    coded = np.flatnonzero(parts["entries"])
    if len(coded):
        bases = np.zeros((len(parts), 2), np.int64)
        bases[:, 0] = places[first_rows[:-1]]
        values = _expand_values(buffer, parts, coded, bases[:, 1])
        kernels.fill(pieces, streams, entries, values, bases, bitmap, content)
    for piece in np.flatnonzero(parts["kind"] == kernels.PLAIN).tolist():
        wanted = places[first_rows[piece] : first_rows[piece + 1] + 1]
        _fill_from_segments(buffer, parts[piece], heads, piece, int(starts[piece]), wanted, content)
    return pa.Array.from_buffers(
        type, rows, [validity, places_buffer, content_buffer.slice(0, total)], null_count=nulls
    )


def _decode_streams(buffer: Bytes, parts: npt.NDArray[np.void], starts: Ints, stops: Ints) -> tuple[Ints, Ints, Ints]:
    """What the kernels are told about each piece, the streams of all, and the sizes of all distinct values."""
    kinds, entries = parts["kind"], parts["entries"]
    streamed = kinds <= kernels.DICTIONARY
    dictionaries = kinds == kernels.DICTIONARY
    constants = kinds == kernels.CONSTANT
    wanted = np.where(streamed, stops - starts, 0)
    streams_end = int(wanted.sum())
    sizes_end = streams_end + int(entries[dictionaries].sum())
    numbers = scratch.array("numbers", sizes_end + int(constants.sum()), np.int64)
    decode_integers(
        buffer,
        np.concatenate([parts["stream"][streamed], parts["sizes"][dictionaries]]),
        np.concatenate([parts["stream_bytes"][streamed], parts["sizes_bytes"][dictionaries]]),
        np.concatenate([starts[streamed], np.zeros(int(dictionaries.sum()), np.int64)]),
        np.concatenate([stops[streamed], entries[dictionaries]]),
        numbers[:sizes_end],
    )
    numbers[sizes_end:] = parts["value_bytes"][constants]

    pieces = np.zeros((len(parts), kernels.PIECE_FIELDS), np.int64)
    pieces[:, kernels.KIND] = kinds
    pieces[:, kernels.ROWS] = stops - starts
    pieces[:, kernels.STREAM] = np.cumsum(wanted) - wanted
    # Sizes stand in the order of the streams: those of dictionaries, then those of constants.
    pieces[dictionaries, kernels.ENTRY] = np.cumsum(entries[dictionaries]) - entries[dictionaries]
    pieces[constants, kernels.ENTRY] = sizes_end - streams_end + np.arange(int(constants.sum()))
    pieces[:, kernels.PIECE_ENTRIES] = entries
    pieces[:, kernels.PIECE_VALUES] = parts["value_bytes"]
    return pieces, numbers[:streams_end], numbers[streams_end:]


def _expand_values(buffer: Bytes, parts: npt.NDArray[np.void], coded: Ints, bases: Ints) -> Bytes:
    """The distinct values of all ``coded`` pieces one after the other; where each starts goes to ``bases``."""
    ends = np.cumsum(parts["value_bytes"][coded])
    bases[coded] = ends - parts["value_bytes"][coded]
    values = scratch.array("values", int(ends[-1]) + kernels.SLACK, np.uint8)
    for piece in coded.tolist():
        part, base = parts[piece], int(bases[piece])
        start, size = int(part["values"]), int(part["value_bytes"])
        stored = buffer[start : start + int(part["stored_bytes"])]
        values[base : base + size] = expand(stored, size, int(part["compression"]))
    return values


def _fill_from_segments(
    buffer: Bytes,
    part: np.void,
    heads: Heads,
    piece: int,
    start: int,
    places: npt.NDArray[np.signedinteger],
    content: Bytes,
) -> None:
    """Write the bytes of the rows from ``start`` of a PLAIN piece, whose places in ``content`` are laid out."""
    vectors = -(-int(heads.rows[piece]) // VECTOR)
    per_segment = int(heads.parameter[piece])
    segments = -(-vectors // per_segment)
    place = int(part["directory"])
    directory = buffer[place : place + DIRECTORY_ENTRY.itemsize * (vectors + segments)].view(DIRECTORY_ENTRY)
    vector_bytes = directory[:vectors].astype(np.int64)
    stored_bytes = directory[vectors:].tolist()
    first, stop = start // VECTOR, -(-(start + len(places) - 1) // VECTOR)
    laid_out = np.diff(np.append(places[:-1:VECTOR], places[-1]).astype(np.int64))
    if not np.array_equal(laid_out, vector_bytes[first:stop]):
        raise CorruptionError(
            f"text piece {piece} has vectors of {vector_bytes[first:stop].tolist()} bytes by its directory, of "
            f"{laid_out.tolist()} by the lengths of its rows"
        )
    at = int(places[0])
    source = int(part["segments"])
    for segment, stored in enumerate(stored_bytes):
        lowest, highest = segment * per_segment, min((segment + 1) * per_segment, vectors)
        if highest > first and lowest < stop:
            if source + stored > part["end"]:
                raise CorruptionError(
                    f"segment {segment} of text piece {piece} ends at byte {source + stored} of the buffer; the piece "
                    f"ends at {int(part['end'])}"
                )
            size = int(vector_bytes[lowest:highest].sum())
            skipped = int(vector_bytes[lowest : max(first, lowest)].sum())
            used = int(vector_bytes[max(first, lowest) : min(stop, highest)].sum())
            text = expand(buffer[source : source + stored], size, int(part["compression"]))
            content[at : at + used] = text[skipped : skipped + used]
            at += used
        source += align(stored)
