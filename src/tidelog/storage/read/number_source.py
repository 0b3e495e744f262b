"""Reading numbers of a few leaves without Arrow, given their ids."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any

import pyarrow as pa

from tidelog.storage.codec import Ints
from tidelog.storage.codec.numeric.columns import Words
from tidelog.storage.read.frame_source import FrameSource
from tidelog.storage.read.leaf_numbers import LeafNumbers
from tidelog.storage.read.leaf_pieces import Numbers, Selection, are_numbers
from tidelog.storage.read.leaf_ranges import LeafRanges


class NumberSource:
    """Reads numbers from the frames of a file. May be used from several threads, which get arrays of their own.

    Not everything can be had like that: only of files that are mapped, of leaves that are not split over macro blocks,
    columns of numbers (:func:`~tidelog.storage.read.leaf_pieces.are_numbers`) without nulls, and not all encodings.
    None means that Arrow arrays have to be read.
    """

    def __init__(self, frames: FrameSource, schema: pa.Schema, *, is_mapped: bool) -> None:
        self._frames = frames
        self._types = schema.types
        self._is_mapped = is_mapped
        self._selections: dict[tuple[type, tuple[int, ...]], Selection[Any] | None] = {}
        """Columns that were asked for, and how; None for those that cannot be had."""

    def whole(self, ids: Sequence[int], columns: tuple[int, ...]) -> tuple[Numbers, list[int]] | None:
        """Columns of a few leaves, by position, with the rows of all of them, and how many each has.

        The arrays are valid until the thread's next call.
        """
        found: tuple[Numbers, list[int]] | None = self._read(LeafNumbers, ids, columns)
        return found

    def between(
        self, ids: Sequence[int], columns: tuple[int, ...], ranges: Sequence[tuple[int, int]]
    ) -> tuple[Numbers, Ints] | None:
        """Columns of those rows of a few leaves whose values in the first column are in a range, and where these are.

        The first of the columns, given by position, has integers of 64 bits that rise in every leaf; ``ranges`` are the
        lowest and the highest of them that are wanted of each leaf. Returns arrays of the other columns, and ``cuts``:
        of leaf i, rows ``cuts[2 * i]`` to ``cuts[2 * i + 1]`` (exclusive) of them are wanted, and those between have no
        meaning. Valid until the thread's next call.
        """
        found: tuple[Numbers, Ints] | None = self._read(LeafRanges, ids, columns, ranges)
        return found

    def _read(self, make: type[Any], ids: Sequence[int], columns: tuple[int, ...], *wanted: Any) -> Any:
        """What a reader of that class, for such columns, says of leaves; None if it cannot be had."""
        selection = self._selection(make, columns)
        places = None if selection is None else self._places(ids)
        if selection is None or places is None:
            return None
        reader = selection.reader(len(ids))
        numbers = reader.read(*places, ids, *wanted)
        if numbers is not None:
            self._frames.meter.add(len(ids), reader.pieces.stored_bytes)
        return numbers

    def _selection(self, make: type[Any], columns: tuple[int, ...]) -> Selection[Any] | None:
        try:
            return self._selections[make, columns]
        except KeyError:
            types = [self._types[column] for column in columns]
            can_be = self._is_mapped and are_numbers(types)
            selection = self._selections[make, columns] = Selection(make, columns, types) if can_be else None
            return selection

    def _places(self, ids: Sequence[int]) -> tuple[Words, tuple[int, ...], tuple[int, ...]] | None:
        """The words of the file, and where the frames of blocks stand and their sizes; None if one is split."""
        places, sizes, splits = zip(*map(self._frames.place, ids), strict=True)
        return None if any(splits) else (self._frames.words(max(map(add, places, sizes))), places, sizes)
