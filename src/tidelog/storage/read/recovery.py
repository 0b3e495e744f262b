"""Finding the state a container file is in after its writer has gone (spec/event-store.md 8).

The newest slot names a commit that was durable when the slot was written. Behind it there may be units whose slot
was lost; they count up to the last commit record that is reached with everything before it intact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.format import macro_block, translation
from tidelog.storage.format.commit import MAGIC as COMMIT_MAGIC
from tidelog.storage.format.commit import Commit, Preface, parse_commit, published_commits
from tidelog.storage.format.macro_block import DATA, address_of, parse_directory, payload_is_intact
from tidelog.storage.format.translation import Addresses, TranslationTree, parse_page
from tidelog.storage.format.units import STRIDE, InvalidUnit, Unit, read_unit, read_units
from tidelog.storage.media.medium import File


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found behind the last published commit, and what had to be dropped."""

    commit: Commit
    """The newest commit with everything before it intact."""
    published: int
    """The number of the commit that the slots named."""
    dropped_bytes: int
    """Bytes behind the commit: written, but never acknowledged by a flush."""
    reason: str
    """Why reading stopped; empty if the file ends with whole units."""
    damaged_slots: tuple[int, ...] = ()
    """Publication slots that are torn or name a commit that is gone."""
    published_end: int = 0
    """Where that published commit ends: up to here everything was durable when the slot was written."""

    @property
    def is_clean(self) -> bool:
        """Whether the file is as a writer leaves it that closes: nothing to cut off, publish or repair."""
        return not (self.dropped_bytes or self.damaged_slots) and self.published == self.commit.number


def find_commit(file: File, preface: Preface, *, roll_back: bool = False) -> Recovery:
    """The state to go on from. A slot that names an unreadable commit is corruption, no crash leaves that.

    With ``roll_back`` such a slot is passed over, at the price of what was committed since.
    """
    commits, findings = published_commits(file)
    lost = [finding for finding in findings if finding.names_lost_commit]
    if lost and not roll_back:
        raise CorruptionError(
            f"{file.name}: {lost[0].message}; restore the file from a backup, or call Container.recover "
            "to go back to the newest intact commit"
        )
    start = commits[0] if commits else Commit.empty(preface)
    return _walk_behind(file, start, file.size(), tuple(finding.index for finding in findings))


def _walk_behind(file: File, start: Commit, size: int, damaged_slots: tuple[int, ...]) -> Recovery:
    """Verify the units behind a durable commit and take every commit that is reached."""
    commit = start
    reason = ""
    try:
        for unit in read_units(file, start.place, size):
            if unit.magic == COMMIT_MAGIC:
                found = parse_commit(unit)
                if found.number != commit.number + 1:
                    raise InvalidUnit(f"commit {found.number} follows commit {commit.number}")
                commit = found
            else:
                _verify(file, unit)
    except InvalidUnit as error:
        reason = str(error)
    return Recovery(commit, start.number, max(0, size - commit.end), reason, damaged_slots, start.end)


def _verify(file: File, unit: Unit) -> None:
    """Verify a macro block or an address page completely."""
    if unit.magic == translation.MAGIC:
        parse_page(unit)
        return
    if unit.magic != macro_block.MAGIC:
        raise InvalidUnit(f"the unit at offset {unit.offset} is of an unknown kind {unit.magic!r}")
    if not payload_is_intact(file, parse_directory(unit)):
        raise InvalidUnit(f"the payload of the macro block at offset {unit.offset} is not the one written")


def recover_translation(
    file: File, preface: Preface, commit: Commit, load: Callable[[int], Addresses]
) -> TranslationTree:
    """The address tree at a commit: its flank from the back references, its last entries from the directories."""

    def page_at(position: int) -> translation.Page | None:
        try:
            return parse_page(read_unit(file, position * STRIDE, commit.offset))
        except InvalidUnit:
            return None

    tree = TranslationTree.recover(preface.fanout, commit.last_page, page_at, load)
    offset = commit.scan_from * STRIDE
    while tree.next_id < commit.next_id:
        try:
            unit = read_unit(file, offset, commit.offset)
            directory = parse_directory(unit) if unit.magic == macro_block.MAGIC else None
        except InvalidUnit as error:
            raise CorruptionError(
                f"{file.name}: blocks {tree.next_id} to {commit.next_id - 1} cannot be found, because {error}"
            ) from None
        if directory is not None:
            fresh = (directory.kinds == DATA) & (directory.ids >= np.uint64(tree.covered))
            for slot in np.flatnonzero(fresh).tolist():
                if int(directory.ids[slot]) != tree.next_id:
                    raise CorruptionError(
                        f"{file.name}: block {int(directory.ids[slot])} at offset {offset}, expected {tree.next_id}"
                    )
                tree.add(address_of(offset // STRIDE, slot))
        offset = unit.end
    return tree
