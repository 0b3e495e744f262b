"""The growing end of a container file: frames go into macro blocks, these and the pages they fill into the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.storage.format.commit import Commit, write_commit
from tidelog.storage.format.macro_block import CONTINUATION, DATA, MacroBuilder, address_of
from tidelog.storage.format.translation import TranslationTree, page_length
from tidelog.storage.format.units import STRIDE, Place
from tidelog.storage.media.medium import File


class Placement:
    """Writes units one behind the other (spec/event-store.md 2.5); the caller sees to it that calls take turns."""

    def __init__(self, file: File, macro_size: int, place: Place, tree: TranslationTree) -> None:
        """``place``: where the next unit goes; ``tree``: the addresses of the blocks placed so far."""
        self._file = file
        self._builder = MacroBuilder(macro_size)
        self.place = place
        self.tree = tree

    def put_run(
        self, ids: Sequence[int], frames: memoryview, bounds: Sequence[int], kind: int, digests: Sequence[int]
    ) -> list[int]:
        """Put frames, those between consecutive bounds; returns their addresses.

        Like :meth:`put` for each of them, many at a time.
        """
        addresses: list[int] = []
        while (done := len(addresses)) < len(digests):
            fitting = self._builder.fitting(bounds, done)
            if fitting == done:
                addresses.append(self.put(ids[done], frames[bounds[done] : bounds[done + 1]], kind, digests[done]))
                continue
            address = address_of(self.place.offset // STRIDE, self._builder.last_slot + 1)
            part = frames[bounds[done] : bounds[fitting]]
            self._builder.put_run(ids[done:fitting], part, bounds[done : fitting + 1], kind, digests[done:fitting])
            run = range(address, address + fitting - done)
            if kind == DATA:
                self.tree.extend(run)
            addresses += run
        return addresses

    def put(self, id: int, frame: memoryview, kind: int, digest: int) -> int:
        """Put a frame, whose hash is ``digest``, into the open macro block; returns its address.

        It goes into the next one if there is not enough room, and over several if it is longer than a macro block. The
        frame of a new block (kind DATA) enters the address tree; its id must be the next one there. The frame's memory
        must not change before :meth:`settle`.
        """
        if self._builder.room() < len(frame):
            self.seal()
        position = self.place.offset // STRIDE
        if len(frame) <= self._builder.room():
            self._builder.put(id, frame, kind, digest)
            taken = len(frame)
        else:
            taken = self._builder.put_first_part(id, frame, kind)
        address = address_of(position, self._builder.last_slot)
        if kind == DATA:
            self.tree.add(address)
        while taken < len(frame):
            self.seal()
            taken += self._builder.put_first_part(id, frame[taken:], CONTINUATION)
        return address

    def settle(self) -> None:
        """Write or copy what was put: the memory of the frames may be used again."""
        if self._builder.is_worth_writing:
            self.seal()
        else:
            self._builder.keep()

    def holds(self, id: int) -> bool:
        """Whether a part of a block is not in the file yet."""
        return self._builder.holds(id)

    def has_grown_since(self, commit: Commit) -> bool:
        """Whether anything was put or written behind a commit."""
        return not self._builder.is_empty or self.place != commit.place

    def seal(self) -> None:
        """Write the open macro block, however full it is, and the address pages it completes."""
        if self._builder.is_empty:
            return
        behind = (self.place.offset + self._builder.length()) // STRIDE
        pages = self.tree.take_pages(behind)
        following = behind + len(pages) * (page_length(self.tree.fanout) // STRIDE)
        self.place = self._builder.seal(self._file, self.place, following)
        for page in pages:
            self.place = page.write(self._file, self.place)

    def commit(self, **fields: Any) -> Commit:
        """Write the record of a commit of everything put so far (not synced); ``fields``: what the tree cannot tell."""
        self.seal()
        commit = write_commit(
            self._file,
            self.place,
            next_id=self.tree.next_id,
            last_page=self.tree.last_page,
            scan_from=self.tree.first_position(self.place.offset // STRIDE),
            **fields,
        )
        self.place = commit.place
        return commit
