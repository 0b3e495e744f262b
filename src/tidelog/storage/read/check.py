"""Checking a container: every structure is walked, every block is decoded, nothing is taken on trust."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec import Ints
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
from tidelog.storage.format.translation import Addresses, Page, TranslationTree, page_length, parse_page
from tidelog.storage.format.units import NIL, STRIDE, InvalidUnit, Unit, read_units
from tidelog.storage.media.medium import File
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.source import BlockSource
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


def _continuation(directory: Directory) -> tuple[int, int] | None:
    if directory.next == NIL:
        return None
    return int(directory.ids[-1]), directory.next


def _check_blocks(file: File, preface: Preface, commit: Commit, walk: _Walk) -> list[str]:
    """Decode every block and compare its summary and the totals of the commit with what was decoded."""
    messages = []
    schema = schema_of(preface)
    relocations = all_relocations(file, commit)

    def addresses(first: int, last: int) -> Addresses:
        return np.array([relocations.get(id, walk.addresses[id]) for id in range(first, last)], np.uint64)

    source = BlockSource(file, schema, addresses, lambda: commit.end, Cache(0))
    rows = 0
    for first in range(0, commit.next_id, _RUN):
        last = min(first + _RUN, commit.next_id)
        try:
            ids, counts, stored = source.summaries(first, last)
            batches = list(source.scan(first, last, None, last - first))
            rows += int(counts.sum())
            for index in range(len(schema)):
                wrong = _wrong_summaries(batches, counts, stored[:, index], index)
                messages += [f"the summary of {schema.names[index]!r} in block {int(ids[i])} is wrong" for i in wrong]
            for id in sorted(set(range(first, last)) - set(ids.tolist())):
                source.read_node(id)
        except CorruptionError as error:
            messages.append(str(error))
    if not messages and rows != commit.rows:
        messages.append(f"the leaves have {rows} rows together, commit {commit.number} says {commit.rows}")
    return messages


def _wrong_summaries(batches: list[pa.RecordBatch], counts: Ints, stored: np.ndarray, index: int) -> list[int]:
    if not batches:
        return []
    cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    fresh = summarise(batches[0].column(index), cuts)
    return [i for i in range(len(counts)) if fresh[i].tobytes() != stored[i].tobytes()]
