"""Leaves of a container that is damaged: all that are whole, found without its commits and address pages.

A macro block says which blocks it has, so every one whose head is whole is a place to look for leaves. Where heads are
damaged, frames are looked for byte by byte: each has a checksum of its own. Where a block was written more than once,
the newest image that is whole counts, and rows of frames that were looked for may come twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.errors import CorruptionError, InputError
from tidelog.storage.format import block, macro_block
from tidelog.storage.format.commit import Preface, read_preface
from tidelog.storage.format.description import schema_of
from tidelog.storage.format.macro_block import CONTINUATION, address_of, parse_directory
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.units import STRIDE, InvalidUnit, read_unit
from tidelog.storage.media.medium import File
from tidelog.storage.read.addresses import AddressBook
from tidelog.storage.read.frame_source import FrameSource

_HEAD_WORDS: Final = 4
"""Words of the part of a frame's head that is the same for all."""
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFF_FFFF)


class _Tried(AddressBook):
    """The one address that is tried."""

    address = 0

    def one(self, id: int) -> int:
        return self.address


@dataclass
class LeafSalvage:
    """What is whole in a file that stays open meanwhile; ``until`` a byte, behind which nothing was acknowledged.

    Raises :class:`CorruptionError` if the file does not tell what it is.
    """

    file: File
    until: int | None = None
    preface: Preface = field(init=False)
    damaged: list[str] = field(default_factory=list)
    """What was found to be wrong, once all batches were read."""

    _dark: list[tuple[int, int]] = field(default_factory=list)
    """Where in the file nothing tells what is there."""

    def __post_init__(self) -> None:
        self.preface = read_preface(self.file)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of all leaves that are whole: in the order of their ids, then those that were looked for."""
        limit = self.file.size() if self.until is None else min(self.until, self.file.size())
        images = self._images(limit)
        tried = _Tried()
        frames = FrameSource(self.file, tried, limit)
        for id in sorted(images):
            trouble = None
            for address in reversed(images[id]):
                tried.address = address
                try:
                    yield self._batch(frames.open_leaf(id))
                    break
                except InputError:  # a node, which says nothing that leaves do not say
                    break
                except (CorruptionError, pa.ArrowInvalid) as error:
                    trouble = str(error)
            else:
                self.damaged.append(f"block {id} cannot be read: {trouble}")
        for start, stop in self._dark:
            yield from self._looked_for(start, stop)

    def _looked_for(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows of leaves whose frames stand somewhere in a part of the file."""
        schema = schema_of(self.preface)
        content = np.frombuffer(self.file.read(start, stop - start), np.uint8).copy()
        words = content[: len(content) & ~7].view(np.uint64)
        if len(words) < _HEAD_WORDS:
            return
        # Lengths of the frame and of its head, then rows, then the number of columns and the kind, which is 0.
        sizes, counts = words[2 : len(words) - 1], words[3:]
        lengths, heads = sizes & _LOW, sizes >> _HALF
        likely = (
            (counts >> _HALF == len(schema)) & (counts & _LOW > 0) & (lengths & np.uint64(7) == 0) & (heads < lengths)
        )
        for place in np.flatnonzero(likely).tolist():
            offset, length = np.array([8 * place]), np.array([int(lengths[place])])
            if 8 * place + int(length[0]) > len(content):
                continue
            try:
                leaf = block.open_frames(
                    content, offset, length, words[place + 1 : place + 2].astype(np.int64), ReadMeter()
                )
                batch = self._batch(leaf)
            except (CorruptionError, pa.ArrowInvalid):
                continue
            yield batch

    def _batch(self, leaf: block.OpenFrames) -> pa.RecordBatch:
        """The rows of a leaf; :class:`CorruptionError` or ``ArrowInvalid`` if they are not whole."""
        schema = schema_of(self.preface)
        arrays = block.decode_leaves(leaf, schema, range(len(schema)), np.zeros(1, np.int64), leaf.rows)
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        batch.validate(full=True)
        return batch

    def _images(self, limit: int) -> dict[int, list[int]]:
        """The addresses of all images of each block, the newest last."""
        images: dict[int, list[int]] = defaultdict(list)
        offset = self.preface.data_start
        dark: int | None = None
        while offset + STRIDE <= limit:
            try:
                unit = read_unit(self.file, offset, limit)
                directory = parse_directory(unit) if unit.magic == macro_block.MAGIC else None
            except InvalidUnit as error:
                if dark is None:
                    self.damaged.append(str(error))
                    dark = offset
                offset += STRIDE
                continue
            if dark is not None:
                self._dark.append((dark, offset))
                dark = None
            if directory is not None:
                for slot, (id, kind) in enumerate(zip(directory.ids.tolist(), directory.kinds.tolist(), strict=True)):
                    if kind != CONTINUATION:
                        images[id].append(address_of(offset // STRIDE, slot))
            offset = unit.end
        if dark is not None:
            self._dark.append((dark, limit))
        return images
