"""From rows of text to the body of a TEMPLATE piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.storage.codec.arena import Bytes, Ints
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.numeric import encode_integers
from tidelog.storage.codec.text.compression import Compressor
from tidelog.storage.codec.text.scratch import scratch
from tidelog.storage.codec.text.template import kernels
from tidelog.storage.codec.text.template.finding import kernels as finding
from tidelog.storage.codec.text.template.layout import DIRECTORY_ENTRY, GUARD, HEAD, LARGEST_TABLE, LARGEST_TEXT
from tidelog.storage.codec.text.template.packing import kernels as packing

Part: TypeAlias = bytes | memoryview | pa.Buffer
Words: TypeAlias = npt.NDArray[np.uint64]

_WORTH_TRYING = 1 << 12
"""Bytes of text below which the calls cost more time than the space is worth."""

_SAMPLE = 1 << 15
"""Bytes that are compressed for comparison."""

_WORTH_IT = 5 / 6
"""Of the bytes of compressed text, how many templates may take: they are quick to read, but slower to find than short
values (identifiers, numbers) are to compress."""

_SLOTS_OF_ROW = 32
"""Slots of the rows of a block, on average, that there is working memory for."""

_SLOTS_OF_BLOCK = 1 << 10
"""Slots that any block may have, and slots its templates may have."""


@dataclass(frozen=True)
class Text:
    """The rows of a block: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Bytes
    offsets: Ints
    mask: Bytes
    """A byte for each row, 0 where it is null; empty if none is."""
    text_bytes: int
    """Of all rows but null ones, which may have bytes of their own in Arrow's memory."""

    def padded(self) -> Text:
        """The same with readable bytes behind those of the last row."""
        start, end = int(self.offsets[0]), int(self.offsets[-1])
        if end + kernels.SLACK <= len(self.data):
            return self
        data = scratch.array("padded text", end - start + kernels.SLACK, np.uint8)
        data[: end - start] = self.data[start:end]
        data[end - start :] = 0
        return Text(data, self.offsets - start, self.mask, self.text_bytes)


@dataclass(frozen=True)
class Templates:
    """The templates of a block found, in working memory of the thread, and what they would take."""

    text: Text
    count: int
    """Templates."""
    numbers: Ints
    """The template of each row."""
    values: Words
    spans: Words
    plan: Words
    plans: Words
    """What stands in the slots, and how it is packed."""
    sizes: list[int]
    """What :func:`packing.type_slots` tells."""
    table: memoryview
    """The description of the templates, not compressed."""

    @property
    def packed_bytes(self) -> int:
        """Bytes of the values of all rows, about."""
        return self.sizes[packing.BITS] // 8

    @property
    def estimate(self) -> int:
        """Bytes of the body, about; tables of log lines compress to a third."""
        return self.packed_bytes + len(self.table) // 3 + len(self.numbers) * (self.count - 1).bit_length() // 8

    def body(self, compressor: Compressor) -> list[Part]:
        """The parts of the body, each to be padded to the alignment of streams."""
        text, sizes = self.text, self.sizes
        rows = len(self.numbers)
        vectors = -(-rows // VECTOR)
        packed_sizes = np.empty(vectors, np.int64)
        packed = scratch.array("packed", self.packed_bytes + 8 * vectors + kernels.SLACK, np.uint8)
        size = int(
            packing.pack(
                text.data,
                text.mask,
                self.numbers,
                self.values,
                self.spans,
                self.plan,
                self.plans,
                packed_sizes,
                packed,
            )
        )
        packed[size : size + GUARD] = 0
        # Behind the streams of all blocks of the call, which are still needed.
        image = encode_integers(self.numbers, np.array([0, rows], np.int64), scratch.streams)
        at = int(image.offsets[0])
        stream = scratch.streams.data[at : at + int(image.lengths[0])].data
        stored = compressor.shorter(self.table)
        head = HEAD.pack(
            sizes[packing.OPERATIONS],
            sizes[packing.BASES],
            sizes[packing.CONSTANT_BYTES],
            sizes[packing.WORDS],
            sizes[packing.WORD_BYTES],
            len(stored),
            compressor.compression,
            len(stream),
        )
        directory = np.empty((vectors, 2), DIRECTORY_ENTRY)
        directory[:, 0] = self._text_of_vectors()
        directory[:, 1] = packed_sizes
        return [head + directory.tobytes(), stream, stored, packed[: size + GUARD].data]

    def _text_of_vectors(self) -> Ints:
        """Bytes of the valid rows of each vector."""
        offsets = self.text.offsets
        sizes: Ints = np.diff(np.append(offsets[:-1:VECTOR], offsets[-1]))
        if int(sizes.sum()) == self.text.text_bytes:
            return sizes
        return np.add.reduceat(np.diff(offsets) * self.text.mask, np.arange(0, len(self.numbers), VECTOR))


class TemplateEncoder:
    """Encodes the blocks of a call by templates, as long as that takes clearly less space than compressing the text."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._ratio: float | None = None
        """Bytes that a byte of text compresses to, as far as a sample shows."""
        self._hopeless = False

    def body(self, text: Text, content: Callable[[], memoryview]) -> list[Part] | None:
        """The parts of the body of a block, or None if it is better encoded plain.

        ``content`` gives its text without that of null slots. Once templates were found and turned out not to save
        enough, they are not tried on further blocks: looking for them takes as long as compressing.
        """
        if self._hopeless or text.text_bytes < _WORTH_TRYING:
            return None
        found = find_templates(text)
        if found is None:
            return None
        if self._ratio is None:
            sample = content()
            start = max(len(sample) - _SAMPLE, 0) // 2
            sample = sample[start : start + _SAMPLE]
            self._ratio = len(self._compressor.shorter(sample)) / len(sample)
        if found.estimate > _WORTH_IT * self._ratio * text.text_bytes:
            self._hopeless = True
            return None
        return found.body(self._compressor)


def find_templates(text: Text, allowance: int = 0) -> Templates | None:
    """The templates of a block of at least one valid row, or None if it is not worth encoding by them.

    That is so if it has many templates for its rows, unless there are no more than ``allowance``. What is returned
    holds until the next call of the same thread.
    """
    rows = len(text.offsets) - 1
    if not 0 < text.text_bytes <= LARGEST_TEXT:
        return None
    text = text.padded()
    most = max(rows // 4 + 128, min(allowance, rows))
    most_values = _SLOTS_OF_ROW * rows + _SLOTS_OF_BLOCK
    numbers = scratch.array("templates of rows", rows, np.int64)
    values = scratch.array("slot values", most_values, np.uint64)
    spans = scratch.array("slot spans", most_values, np.uint64)
    templates = scratch.array("templates", most * kernels.TEMPLATE_FIELDS, np.uint64)
    slots = scratch.array("slots", (4 * most + _SLOTS_OF_BLOCK) * kernels.SLOT_FIELDS, np.uint64)
    count = int(
        finding.find_templates(
            text.data,
            text.offsets,
            text.mask,
            allowance,
            most,
            scratch.array("masks", finding.mask_words(int(text.offsets[-1] - text.offsets[0])), np.uint64),
            scratch.array("template table", _power_of_two(2 * most), np.int32),
            scratch.array("rough images", text.text_bytes + kernels.SLACK, np.uint8),
            scratch.array("images", text.text_bytes + kernels.SLACK, np.uint8),
            numbers,
            values,
            spans,
            templates,
            slots,
        )
    )
    if count < 0:
        return None
    templates = templates[: count * kernels.TEMPLATE_FIELDS]
    by_field = templates.reshape(count, kernels.TEMPLATE_FIELDS)
    slots_of_template = by_field[:, kernels.SLOTS].astype(np.int64)
    used_slots = int(slots_of_template.sum())
    used_values = int((slots_of_template * by_field[:, kernels.ROWS].astype(np.int64)).sum())
    slots = slots[: used_slots * kernels.SLOT_FIELDS]
    values, spans = values[:used_values], spans[:used_values]
    most_operations = used_slots + count + text.text_bytes // int(packing.LONGEST_CONSTANT)
    operations = scratch.array("operations", 3 * most_operations, np.uint8)
    bases = scratch.array("bases", used_slots, np.uint64)
    constants = scratch.array("constants", text.text_bytes + kernels.SLACK, np.uint8)
    words = scratch.array("words", text.text_bytes + kernels.SLACK, np.uint8)
    entries = scratch.array("word entries", used_values, np.uint64)
    plan = scratch.array("plan", packing.PLAN_FIELDS * used_slots, np.uint64)
    plans = scratch.array("plans", packing.PLAN_FIELDS * count, np.uint64)
    told = np.empty(packing.OUTCOMES, np.int64)
    packing.type_slots(
        text.data,
        text.mask,
        numbers,
        values,
        spans,
        templates,
        slots,
        scratch.array("word table", _power_of_two(2 * used_values), np.int32),
        words,
        entries,
        operations,
        bases,
        constants,
        plan,
        plans,
        told,
    )
    sizes = told.tolist()
    parts = [
        operations[: 3 * sizes[packing.OPERATIONS]],
        bases[: sizes[packing.BASES]].view(np.uint8),
        entries[: sizes[packing.WORDS]].astype(np.uint8),
        constants[: sizes[packing.CONSTANT_BYTES]],
        words[: sizes[packing.WORD_BYTES]],
    ]
    table = np.concatenate(parts)
    if len(table) > LARGEST_TABLE:
        return None
    return Templates(text, count, numbers, values, spans, plan, plans, sizes, table.data)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 1).bit_length()
