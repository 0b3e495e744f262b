"""From pieces to text arrays."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.errors import CorruptionError, TidelogError
from tidelog.storage.codec.arena import Bytes, Ints, align
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import VECTOR, Encoding, ValidityKind
from tidelog.storage.codec.numeric import decode_integers, decode_stream_rows
from tidelog.storage.codec.piece import Heads, check_ranges, read_heads
from tidelog.storage.codec.text.compression import expand
from tidelog.storage.codec.text.decoder import kernels
from tidelog.storage.codec.text.layout import (
    CONSTANT,
    DICTIONARY,
    DIRECTORY_ENTRY,
    LARGEST_TEXT,
    NOTHING,
    PLAIN,
    PLAIN_HEAD,
    TEMPLATE,
)
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.text.template.decoder import Piece as TemplatePiece
from tidelog.storage.codec.text.template.layout import ROOM
from tidelog.storage.codec.validity import decode_validity, decode_validity_rows

_NOTHING: Bytes = np.empty(0, np.uint8)
_UNKNOWN = -1
_KINDS: Ints = np.full(256, _UNKNOWN, np.int64)
_KINDS[Encoding.TEXT_PLAIN] = PLAIN
_KINDS[Encoding.TEXT_DICTIONARY] = DICTIONARY
_KINDS[Encoding.TEXT_CONSTANT] = CONSTANT
_KINDS[Encoding.TEXT_TEMPLATE] = TEMPLATE
_MOST_BYTES = (1 << 31) - 1
"""Bytes of an array with offsets of 32 bits."""
_FIRST_ROOM = 1 << 11
"""Distinct values that there is room for at first, where they are united."""
_GROWTH = 8
_LOOKUP_ROWS = 16
"""Where values need not be united, one is looked up for so many rows at the most."""
_ARE_CODED: npt.NDArray[np.bool_] = (_KINDS == DICTIONARY) | (_KINDS == CONSTANT)


class TextOverflowError(TidelogError, OverflowError):
    """The wanted rows hold more text than one array of their type can; read fewer rows at a time."""


def decode_text(type: pa.DataType, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints) -> pa.Array:
    """Rows ``starts[i]`` to ``stops[i]`` of the text pieces that stand in ``buffer``, as one array of ``type``.

    ``starts`` are multiples of 1,024, ``stops`` too unless they are the number of rows of the piece. Raises
    :class:`CorruptionError` if a piece contradicts itself, :class:`TextOverflowError` if the rows hold 2 GiB or
    more and ``type`` has 32-bit offsets.
    """
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, starts, stops)
    validity, nulls = decode_validity(buffer, offsets, heads, starts, stops)
    bitmap = _NOTHING if validity is None else np.frombuffer(validity, np.uint8)
    pieces, numbers = _decode_streams(buffer, offsets, lengths, heads, starts, stops)
    totals = pieces[-1]

    rows = int((stops - starts).sum())
    wide = pa.types.is_large_string(type) or pa.types.is_large_binary(type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    memory, places_buffer = allocate((rows + 1) * dtype.itemsize)
    places = memory.view(dtype)
    entries = scratch.array("entries", int(totals[kernels.ENTRY]), np.uint64)
    total = int(kernels.lay_out(pieces, numbers, bitmap, entries, places))
    if total < 0:
        raise CorruptionError(
            f"text piece {-1 - total} contradicts itself: a length or an index is out of range, or the lengths of its "
            "distinct values do not add up to their bytes"
        )
    largest = (1 << 8 * dtype.itemsize - 1) - 1
    if total > largest:
        raise TextOverflowError(
            f"{rows} rows hold {total} bytes, but an array of type {type} at most {largest}; read fewer rows at a time"
        )

    # All claims about sizes are checked before memory is taken for them.
    values = _expand_values(buffer, pieces)
    plain = []
    templates = []
    row = 0
    for piece, (kind, count) in enumerate(pieces[:-1, [kernels.KIND, kernels.ROWS]].tolist()):
        if kind == PLAIN and count:
            part = _PlainPiece(buffer, piece, pieces[piece].tolist(), heads, int(offsets[piece] + lengths[piece]))
            plain.append(part.select(int(starts[piece]), places[row : row + count + 1]))
        elif kind == TEMPLATE and count:
            templates.append((piece, row))
        row += count
    content, content_buffer = allocate(total + (ROOM if templates else kernels.SLACK))
    kernels.fill(pieces, numbers, entries, values, bitmap, content)
    for piece, row in templates:
        fields = pieces[piece].tolist()
        body = int(offsets[piece] + heads.body[piece])
        first = int(starts[piece]) // VECTOR
        part_of_buffer = TemplatePiece(buffer, piece, body, fields[kernels.BYTES_AT], fields[kernels.PACKED_AT], first)
        stream, count, start = fields[kernels.STREAM], fields[kernels.ROWS], fields[kernels.OUT]
        ends = numbers[stream : stream + count]
        # It overwrites what follows, which may be there already.
        end = start + fields[kernels.TEXT_BYTES]
        behind = content[end : end + ROOM].copy()
        part_of_buffer.fill(ends, bitmap, row, content, start)
        content[end : end + ROOM] = behind
        places[row + 1 : row + 1 + count] = ends
    for selection in plain:
        selection.fill(content)
    return pa.Array.from_buffers(
        type, rows, [validity, places_buffer, content_buffer.slice(0, total)], null_count=nulls
    )


def decode_coded_text(
    buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, *, united: bool = True
) -> pa.Array:
    """What :func:`decode_text` gives of strings, as an array of the dictionary type with 32-bit indexes.

    Of pieces that are dictionaries; if one of them is not, as plain strings. No value is in the dictionary twice if
    they are ``united``; otherwise only as far as that is told fast.
    """
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, starts, stops)
    if not _ARE_CODED[heads.encoding].all():
        return decode_text(pa.string(), buffer, offsets, lengths, starts, stops)
    validity, nulls = decode_validity(buffer, offsets, heads, starts, stops)
    pieces, numbers = _decode_streams(buffer, offsets, lengths, heads, starts, stops)
    rows = int((stops - starts).sum())
    lookups = None if united or pieces[-1, kernels.VALUES] > LARGEST_TEXT else rows // _LOOKUP_ROWS
    return _united(rows, validity, nulls, pieces, numbers, _expand_values(buffer, pieces), lookups)


def decode_text_rows(buffer: Bytes, offsets: Ints, lengths: Ints, chosen: Chosen, *, coded: bool) -> pa.Array | None:
    """Some rows of strings, of the dictionary type if ``coded``; None if a piece is no dictionary, or all is too much.

    The dictionary has no value twice, and none but those of these rows.
    """
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, np.zeros(len(offsets), np.int64), chosen.rows)
    if not _ARE_CODED[heads.encoding].all():
        return None
    validity, nulls = decode_validity_rows(buffer, offsets, heads, chosen)
    pieces, numbers = _decode_streams(buffer, offsets, lengths, heads, chosen.cuts[:-1], chosen.cuts[1:], chosen)
    rows = len(chosen.places)
    array = _united(rows, validity, nulls, pieces, numbers, _expand_values(buffer, pieces))
    if coded:
        return array
    longest = pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    return None if longest * rows > _MOST_BYTES else array.cast(pa.string())


def _united(
    rows: int,
    validity: pa.Buffer | None,
    nulls: int,
    pieces: Ints,
    numbers: Ints,
    values: Bytes,
    lookups: int | None = None,
) -> pa.Array:
    """An array of a dictionary type with no value twice, if as many ``lookups`` do as values may be looked up for it.

    None for any number.
    """
    memory, codes = allocate(rows * 4)
    entries = int(pieces[:-1, kernels.ENTRIES].max(initial=0))
    starts, known = (
        scratch.array("starts of one piece", entries, np.int64),
        scratch.array("numbers of one piece", entries, np.int32),
    )
    room = _FIRST_ROOM
    while True:
        table = scratch.array("numbers of distinct values", 2 * room, np.int32)
        table.fill(-1)
        begins, sizes = (
            scratch.array(name, room, np.int64) for name in ("begins of distinct values", "sizes of distinct values")
        )
        digests = scratch.array("digests of distinct values", room, np.uint64)
        count = int(
            kernels.unite(
                pieces,
                numbers,
                values,
                table,
                begins,
                sizes,
                digests,
                starts,
                known,
                memory.view(np.int32),
                rows if lookups is None else lookups,
            )
        )
        _require(count)
        if count <= room:
            break
        room *= _GROWTH
    begins, sizes = begins[:count], sizes[:count]
    total = int(sizes.sum())
    if total > _MOST_BYTES:
        raise TextOverflowError(
            f"{count} distinct values hold {total} bytes, but a dictionary at most {_MOST_BYTES}; "
            "read fewer rows at a time"
        )
    places = np.empty(count + 1, np.int32)
    content, content_buffer = allocate(total + kernels.SLACK)
    kernels.gather(values, begins, sizes, places, content)
    return _coded(rows, validity, codes, nulls, places, content_buffer.slice(0, total))


def _require(count: int) -> None:
    """Raise for what a kernel says of a piece that contradicts itself."""
    if count < 0:
        raise CorruptionError(
            f"text piece {-1 - count} contradicts itself: an index is out of range, or the lengths of its distinct "
            "values do not add up to their bytes"
        )


def _coded(
    rows: int,
    validity: pa.Buffer | None,
    codes: pa.Buffer,
    nulls: int,
    places: npt.NDArray[np.int32],
    content: pa.Buffer,
) -> pa.Array:
    """An array of a dictionary type from its parts."""
    texts = pa.Array.from_buffers(pa.string(), len(places) - 1, [None, pa.py_buffer(places), content], null_count=0)
    indexes = pa.Array.from_buffers(pa.int32(), rows, [validity, codes], null_count=nulls)
    return pa.DictionaryArray.from_arrays(indexes, texts, safe=False)


def _decode_streams(
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    heads: Heads,
    starts: Ints,
    stops: Ints,
    chosen: Chosen | None = None,
) -> tuple[Ints, Ints]:
    """The table of the pieces, and their streams of integers decoded.

    Where rows are ``chosen`` pieces are dictionaries, and starts and stops only tell how many rows are wanted of each.
    """
    kinds = _KINDS[heads.encoding]
    bare = heads.body == lengths
    wrong = (kinds == _UNKNOWN) | (bare & (heads.rows != 0) & (heads.validity != ValidityKind.ALL_NULL))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(
            f"piece {i} has encoding {int(heads.encoding[i])} and {int(lengths[i] - heads.body[i])} bytes of body for "
            f"{int(heads.rows[i])} rows; one of the encodings of text, and a body unless all rows are null, were "
            "expected"
        )
    kinds[bare] = NOTHING
    known = np.stack([kinds, heads.rows, heads.parameter, offsets + heads.body, offsets + lengths], axis=1)
    pieces = np.empty((len(kinds) + 1, kernels.FIELDS), np.int64)
    streams = np.empty((4, 2 * len(kinds)), np.int64)
    count = int(kernels.locate(buffer, known, starts, stops, pieces, streams))
    if count < 0:
        i = -1 - count
        raise CorruptionError(
            f"text piece {i} of {int(lengths[i])} bytes, {Encoding(int(heads.encoding[i])).name} of "
            f"{int(heads.rows[i])} rows with parameter {int(heads.parameter[i])}, names parts that do not fit into it, "
            "or a number of distinct values that cannot be"
        )
    numbers = scratch.array("numbers", int(pieces[-1, kernels.STREAM] + pieces[-1, kernels.ENTRY]), np.int64)
    places, sizes, firsts, lasts = streams[:, :count]
    if chosen is None:
        decode_integers(buffer, places, sizes, firsts, lasts, numbers)
        return pieces, numbers
    own = np.flatnonzero(kinds == DICTIONARY)
    of_rows, of_sizes = slice(0, len(own)), slice(len(own), None)
    decode_stream_rows(
        buffer,
        places[of_rows],
        sizes[of_rows],
        chosen.places,
        chosen.begins[own],
        firsts[of_rows],
        lasts[of_rows],
        pieces[own, kernels.STREAM],
        numbers,
    )
    sizes_of = numbers[int(pieces[-1, kernels.STREAM]) :]
    decode_integers(buffer, places[of_sizes], sizes[of_sizes], firsts[of_sizes], lasts[of_sizes], sizes_of)
    return pieces, numbers


def _expand_values(buffer: Bytes, pieces: Ints) -> Bytes:
    """The distinct values of all pieces, one after the other."""
    values = scratch.array("values", int(pieces[-1, kernels.VALUES]) + kernels.SLACK, np.uint8)
    kernels.copy_values(buffer, pieces, values)
    sizes = pieces[:-1, kernels.VALUE_BYTES]
    compressed = np.flatnonzero((sizes != pieces[:-1, kernels.STORED_BYTES]) & (sizes != 0))
    if len(compressed):
        columns = [kernels.VALUES, kernels.VALUE_BYTES, kernels.BYTES_AT, kernels.STORED_BYTES, kernels.COMPRESSION]
        for at, size, source, stored, compression in pieces[compressed][:, columns].tolist():
            values[at : at + size] = expand(buffer[source : source + stored], size, compression)
    return values


class _PlainPiece:
    """A PLAIN piece in a buffer: its directory, and how rows are taken out of its segments."""

    def __init__(self, buffer: Bytes, piece: int, fields: list[int], heads: Heads, end: int) -> None:
        self._buffer = buffer
        self._piece = piece
        self._end = end
        self._compression = fields[kernels.COMPRESSION]
        self._segments_at = fields[kernels.BYTES_AT]
        self._per_segment = int(heads.parameter[piece])
        self._vectors = -(-int(heads.rows[piece]) // VECTOR)
        # The directory stands behind the head of the body and before the stream; all lie inside the piece.
        count = self._vectors - (-self._vectors // self._per_segment)
        size = DIRECTORY_ENTRY.itemsize * count
        start = fields[kernels.STREAM_AT] - align(PLAIN_HEAD.size + size) + PLAIN_HEAD.size
        directory = buffer[start : start + size].view(DIRECTORY_ENTRY).tolist()
        self._stored_bytes = directory[self._vectors :]
        self._vector_ends = [0, *accumulate(directory[: self._vectors])]
        """Where each vector starts in the text of the piece, and the last one ends."""

    def select(self, start: int, places: npt.NDArray[Any]) -> _Selection:
        """What to expand and copy for the rows from ``start`` on, whose places in the content are given."""
        first, stop = start // VECTOR, -(-(start + len(places) - 1) // VECTOR)
        expected = self._vector_ends[first : stop + 1]
        moved = int(places[0]) - expected[0]
        laid_out = [*places[:-1:VECTOR].tolist(), int(places[-1])]
        if laid_out != [end + moved for end in expected]:
            raise CorruptionError(
                f"text piece {self._piece} has vectors of {_steps(expected)} bytes by its directory, of "
                f"{_steps(laid_out)} by the lengths of its rows"
            )
        source = self._segments_at
        spans = []
        for segment, stored in enumerate(self._stored_bytes):
            lowest = segment * self._per_segment
            highest = min(lowest + self._per_segment, self._vectors)
            if highest > first and lowest < stop:
                if source + stored > self._end:
                    raise CorruptionError(
                        f"segment {segment} of text piece {self._piece} ends at byte {source + stored} of the buffer; "
                        f"the piece ends at {self._end}"
                    )
                begin, end = self._vector_ends[lowest], self._vector_ends[highest]
                wanted = slice(
                    self._vector_ends[max(first, lowest)] - begin, self._vector_ends[min(stop, highest)] - begin
                )
                spans.append(
                    _Span(self._buffer[source : source + stored], end - begin, wanted, begin + wanted.start + moved)
                )
            source += align(stored)
        return _Selection(self._compression, spans)


def _steps(ends: list[int]) -> list[int]:
    return [end - start for start, end in pairwise(ends)]


class _Span(NamedTuple):
    """A stretch of wanted text within one segment."""

    stored: Bytes
    size: int
    """Bytes of the whole segment, expanded."""
    wanted: slice
    at: int
    """Where the wanted bytes go."""


class _Selection(NamedTuple):
    """The wanted text of one PLAIN piece."""

    compression: int
    spans: list[_Span]

    def fill(self, content: Bytes) -> None:
        """Expand the segments and copy what is wanted of them."""
        for stored, size, wanted, at in self.spans:
            text = expand(stored, size, self.compression)[wanted]
            content[at : at + len(text)] = text
