"""Checking a container: every structure is walked, every block is decoded, nothing is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.format import macro_block
from tidelog.storage.format.commit import MAGIC as COMMIT_MAGIC
from tidelog.storage.format.commit import Commit, Preface, all_relocations, parse_commit, published_commits
from tidelog.storage.format.description import schema_of
from tidelog.storage.format.macro_block import (
    CONTINUATION,
    DATA,
    MOVED,
    Directory,
    address_of,
    parse_directory,
    payload_is_intact,
)
from tidelog.storage.format.translation import Page, TranslationTree, page_length, parse_page
from tidelog.storage.format.units import NIL, STRIDE, InvalidUnit, Unit, read_units
from tidelog.storage.media.medium import File
from tidelog.storage.read.addresses import AddressBook
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.source import BlockReader
from tidelog.storage.summary import summarise

_RUN = 32


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a file that is not as it should be."""

    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


def check_container(file: File, preface: Preface, commit: Commit, *, is_repaired: bool = True) -> list[Finding]:
    """Everything wrong with a container up to a commit; an empty list means that all is well.

    A crash may leave a torn publication, which the next writer repairs. It counts as wrong unless ``is_repaired`` is
    false, that is, unless no writer may have been there since.
    """
    walk = _Walk(file, preface, is_repaired)
    messages = walk.run(commit)
    if not messages:
        messages = _check_blocks(file, preface, commit, walk)
    return [Finding(file.name, message) for message in messages]


@dataclass
class _Walk:
    """Reads all units in file order and rebuilds from them what the address tree and the commits must say."""

    file: File
    preface: Preface
    is_repaired: bool
    addresses: list[int] = field(default_factory=list)
    moved: dict[int, int] = field(default_factory=dict)
    """Address to id of every image written by an update."""
    pages: dict[int, Page] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def run(self, commit: Commit) -> list[str]:
        """Walk up to a commit; returns the messages."""
        _, damaged = published_commits(self.file)
        self.messages.extend(each.message for each in damaged if self.is_repaired or each.names_lost_commit)
        # A tree fed with the same addresses gives out the pages that must stand in the file.
        tree = TranslationTree(self.preface.fanout, lambda position: self.pages[position].entries)
        expected_pages: list[Page] = []
        continuing: tuple[int, int] | None = None
        number = 0
        try:
            for unit in read_units(self.file, self.preface.first_place, commit.end):
                if expected_pages:
                    self._check_page(unit, expected_pages.pop(0))
                elif unit.magic == macro_block.MAGIC:
                    continuing = self._take_macro_block(unit, tree, continuing)
                    expected_pages = tree.take_pages(unit.end // STRIDE)
                    if continuing is not None:
                        following = unit.end + len(expected_pages) * page_length(self.preface.fanout)
                        if continuing[1] * STRIDE != following:
                            self.messages.append(
                                f"the macro block at offset {unit.offset} continues at the wrong place"
                            )
                elif unit.magic == COMMIT_MAGIC:
                    number += 1
                    self._check_commit(parse_commit(unit), number, tree)
                else:
                    self.messages.append(f"unexpected unit {unit.magic!r} at offset {unit.offset}")
                    break
        except InvalidUnit as error:
            self.messages.append(str(error))
        if not self.messages and (number != commit.number or continuing is not None):
            self.messages.append(f"{number} commits up to offset {commit.end}, expected {commit.number}")
        return self.messages

    def _take_macro_block(
        self, unit: Unit, tree: TranslationTree, continuing: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        directory = parse_directory(unit)
        if not payload_is_intact(self.file, directory):
            self.messages.append(f"the payload of the macro block at offset {unit.offset} is not the one written")
        for slot, (id, kind) in enumerate(zip(directory.ids.tolist(), directory.kinds.tolist(), strict=True)):
            address = address_of(unit.offset // STRIDE, slot)
            if (kind == CONTINUATION) != (slot == 0 and continuing is not None and continuing[0] == id):
                self.messages.append(f"slot {slot} of the macro block at offset {unit.offset} continues nothing")
            if kind == DATA:
                if id != tree.next_id:
                    self.messages.append(f"block {id} at offset {unit.offset}, expected block {tree.next_id}")
                self.addresses.append(address)
                tree.add(address)
            elif kind == MOVED:
                self.moved[address] = id
            elif kind != CONTINUATION:
                self.messages.append(f"slot {slot} of the macro block at offset {unit.offset} is of no known kind")
        return _continuation(directory)

    def _check_page(self, unit: Unit, expected: Page) -> None:
        page = parse_page(unit)
        same = (page.position, page.level, page.index, page.prev, page.prev_parent) == (
            expected.position,
            expected.level,
            expected.index,
            expected.prev,
            expected.prev_parent,
        )
        if not same or not np.array_equal(page.entries, expected.entries):
            self.messages.append(f"the address page at offset {unit.offset} is not the one that belongs there")
        self.pages[page.position] = page

    def _check_commit(self, commit: Commit, number: int, tree: TranslationTree) -> None:
        scan_from = tree.first_position(commit.position)
        found = (commit.number, commit.next_id, commit.last_page, commit.scan_from)
        expected = (number, tree.next_id, tree.last_page, scan_from)
        if found != expected:
            self.messages.append(f"the commit at offset {commit.offset} says {found}, expected {expected}")
        for id, address in commit.relocations.items():
            if self.moved.get(address) != id:
                self.messages.append(f"commit {number} places block {id} where no new image of it stands")


class _Found(AddressBook):
    """Addresses as they were found by walking, and those of blocks that were replaced."""

    def __init__(self, addresses: list[int], relocations: Mapping[int, int]) -> None:
        self._addresses = addresses
        self._relocations = relocations

    def one(self, id: int) -> int:
        return self._relocations.get(id, self._addresses[id])


def _continuation(directory: Directory) -> tuple[int, int] | None:
    if directory.next == NIL:
        return None
    return int(directory.ids[-1]), directory.next


def _check_blocks(file: File, preface: Preface, commit: Commit, walk: _Walk) -> list[str]:
    """Decode every block and compare its summary and the totals of the commit with what was decoded."""
    messages = []
    schema = schema_of(preface)
    relocations = all_relocations(file, commit)

    reader = BlockReader(file, schema, commit, _Found(walk.addresses, relocations), Cache(0))
    rows = 0
    for first in range(0, commit.next_id, _RUN):
        last = min(first + _RUN, commit.next_id)
        try:
            ids, counts, stored = reader.summaries(first, last)
            rows += int(counts.sum())
            if len(ids):
                batch, cuts = reader.read_leaves(ids)
                for index, name in enumerate(schema.names):
                    fresh = summarise(batch.column(index), cuts)
                    wrong = [
                        id
                        for id, a, b in zip(ids.tolist(), fresh, stored[:, index], strict=True)
                        if a.tobytes() != b.tobytes()
                    ]
                    messages += [f"the summary of {name!r} in block {id} is wrong" for id in wrong]
            for id in sorted(set(range(first, last)) - set(ids.tolist())):
                reader.read_node(id)
        except CorruptionError as error:
            messages.append(str(error))
    if not messages and rows != commit.rows:
        messages.append(f"the leaves have {rows} rows together, commit {commit.number} says {commit.rows}")
    return messages
