"""Many small container files, each read as a whole and all decoded together.

Opening a container for reading takes longer than decoding a few thousand rows, and so does every call that decodes. Who
needs all rows of many small files reads their bytes one behind the other into one buffer, where the leaves of all of
them can be decoded as if they were those of one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec import Ints
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.format import block, macro_block
from tidelog.storage.format.commit import Commit, published_commits, read_preface
from tidelog.storage.format.description import schema_of
from tidelog.storage.format.macro_block import DATA, parse_directory
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.units import NIL, STRIDE, InvalidUnit, read_unit, round_to_stride
from tidelog.storage.media.medium import Medium


@dataclass(frozen=True, slots=True)
class Wanted:
    """A container of which nothing but a certain commit is of interest."""

    name: str
    size: int
    """Bytes up to the end of that commit, at least."""
    meta: bytes
    """The metadata of the commit, which no other one of the file has."""


@final
class Image:
    """The bytes of a file, from its beginning on, in a buffer. Has what is needed to parse its structure."""

    __slots__ = ("_bytes", "name")

    def __init__(self, name: str, content: memoryview) -> None:
        self.name = name
        self._bytes = content

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer only where they end."""
        return bytes(self._bytes[offset : offset + length])

    def size(self) -> int:
        """How many bytes there are."""
        return len(self._bytes)


@dataclass(frozen=True, slots=True)
class _Frames:
    """The frames of all blocks of a file, in the order of their ids, which are 0 to their count (exclusive)."""

    starts: Ints
    lengths: Ints


@final
class Images:
    """The files that were asked for, in memory."""

    def __init__(self, medium: Medium, wanted: Sequence[Wanted]) -> None:
        """Reads them.

        Raises :class:`NotFoundError` if there is no such file, :class:`CorruptionError` if one is too short or damaged.
        """
        strides = np.array([round_to_stride(each.size) for each in wanted], np.int64)
        self._wanted = wanted
        self._starts: list[int] = (np.cumsum(strides) - strides).tolist()
        self._buffer, self._memory = allocate(int(strides.sum()))
        view = self._buffer.data
        self._images: list[Image] = []
        for start, each in zip(self._starts, wanted, strict=True):
            content = view[start : start + each.size]
            with medium.open(each.name) as file:
                read = file.read_into(0, content)
            if read < each.size:
                raise CorruptionError(f"{each.name} ends at {read}, but bytes up to {each.size} were committed")
            self._images.append(Image(each.name, content))
        self._prefaces = [read_preface(image) for image in self._images]
        self._known: tuple[Any, pa.Schema | None, bool] = (None, None, False)
        """The columns of the description that was compared last, with which schema, and whether they are alike."""
        self._frames: list[_Frames | None] = []
        for image, each in zip(self._images, wanted, strict=True):
            commit = _published(image, each.meta)
            self._frames.append(None if commit is None else _plain_frames(image, commit))

    def description(self, index: int) -> Mapping[str, Any]:
        """What the creator of a file wrote into its preface."""
        return self._prefaces[index].description

    def has_leaves_of(self, index: int, schema: pa.Schema) -> bool:
        """Whether the leaves of a file have columns of certain types, nullable or not; they may be called otherwise."""
        preface = self._prefaces[index]
        columns, wanted, known = self._known
        if wanted is not schema or columns != preface.description["columns"]:
            found = [(field.type, field.nullable) for field in schema_of(preface)]
            known = found == [(field.type, field.nullable) for field in schema]
            self._known = preface.description["columns"], schema, known
        return known

    def is_plain(self, index: int) -> bool:
        """Whether the leaves of a file can be decoded here.

        They can if the commit is published, and if all blocks are in the order of their ids, whole and where they were
        first written. Everything else is left to :class:`~tidelog.storage.read.reader.ContainerReader`.
        """
        return self._frames[index] is not None

    def decode(self, files: Sequence[int], schema: pa.Schema, meter: ReadMeter) -> tuple[pa.RecordBatch, Ints]:
        """All rows of some files, which must be plain and have leaves of a schema; and how many rows each file has.

        Raises :class:`TextOverflowError` if the rows hold too much text for one batch, :class:`CorruptionError` for
        what is damaged.
        """
        found = [self._frames[index] for index in files]
        plain = [frames for frames in found if frames is not None]
        assert len(plain) == len(found)
        counts = [len(frames.starts) for frames in plain]
        starts = np.concatenate(
            [self._starts[index] + frames.starts for index, frames in zip(files, plain, strict=True)]
        )
        lengths = np.concatenate([frames.lengths for frames in plain])
        firsts = np.subtract(np.cumsum(counts), counts, dtype=np.int64)
        ids = np.arange(len(starts), dtype=np.int64) - np.repeat(firsts, counts)
        try:
            frames = block.open_frames(self._buffer, starts, lengths, ids, meter)
            rows = np.add.reduceat(frames.rows, firsts)
            leaves = frames.some(np.flatnonzero(frames.rows))
            none = np.zeros(len(leaves.rows), np.int64)
            arrays = block.decode_leaves(leaves, schema, range(len(schema)), none, leaves.rows)
        except CorruptionError as error:
            if len(files) == 1:
                raise CorruptionError(f"{self._wanted[files[0]].name}: {error}") from error
            for index in files:  # raises for the one that is damaged
                self.decode([index], schema, meter)
            raise
        return pa.RecordBatch.from_arrays(arrays, schema=schema), rows


def _published(image: Image, meta: bytes) -> Commit | None:
    """The newest commit that is published, if it has certain metadata."""
    commits, findings = published_commits(image)
    return commits[0] if commits and not findings and commits[0].meta == meta else None


def _plain_frames(image: Image, commit: Commit) -> _Frames | None:
    """Where frames stand at a commit; None if some were replaced, are split, or have their addresses in pages."""
    if not commit.next_id or commit.last_page != NIL or commit.relocations or commit.relocations_before != NIL:
        return None
    starts: list[Ints] = []
    lengths: list[Ints] = []
    offset, expected = commit.scan_from * STRIDE, 0
    while offset < commit.offset:
        try:
            unit = read_unit(image, offset, commit.offset)
            directory = parse_directory(unit) if unit.magic == macro_block.MAGIC else None
        except InvalidUnit as error:
            raise CorruptionError(f"{image.name}: {error}") from None
        if directory is not None:
            count = len(directory.ids)
            if directory.next != NIL or (directory.kinds != DATA).any():
                return None
            if (directory.ids != np.arange(expected, expected + count, dtype=np.uint64)).any():
                return None
            starts.append(directory.starts)
            lengths.append(directory.sizes)
            expected += count
        offset = unit.end
    if expected != commit.next_id:
        return None
    return _Frames(np.concatenate(starts), np.concatenate(lengths))
