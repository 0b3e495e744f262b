"""The address translation tree against a plain list, and its recovery at every point of its growth."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog.model.errors import CorruptionError
from tidelog.storage.format.translation import FANOUT, Page, TranslationTree, page_length
from tidelog.storage.format.units import NIL, STRIDE


class Growing:
    """A tree whose pages are 'written' into a dictionary; one data stride stands before each batch of pages."""

    def __init__(self, fanout: int) -> None:
        self.pages: dict[int, Page] = {}
        self.order: list[Page] = []
        self.tree = TranslationTree(fanout, self.load)
        self.end = 1
        self.addresses: list[int] = []

    def load(self, position: int) -> np.ndarray:
        return self.pages[position].entries

    def grow(self, count: int = 1) -> None:
        for _ in range(count):
            address = 7 * len(self.addresses) + 1
            self.addresses.append(address)
            self.tree.add(address)
        self.end += 1
        for page in self.tree.take_pages(self.end):
            assert page.position == self.end, "pages follow each other without gaps"
            self.pages[page.position] = page
            self.order.append(page)
            self.end += page_length(self.tree.fanout) // STRIDE

    def recovered(self) -> TranslationTree:
        tree = TranslationTree.recover(self.tree.fanout, self.tree.last_page, self.pages.get, self.load)
        for address in self.addresses[tree.next_id :]:
            tree.add(address)
        return tree


@pytest.mark.parametrize("fanout", [2, 3, 5, 7])
def test_every_id_translates_and_recovery_rebuilds_the_flank_at_every_point(fanout: int) -> None:
    growing = Growing(fanout)
    for _ in range(400):
        growing.grow()
        again = growing.recovered()
        assert (again._flank, again._written, again._last) == (
            growing.tree._flank,
            growing.tree._written,
            growing.tree._last,
        )
        assert again.lookup(0, again.next_id).tolist() == growing.addresses


@pytest.mark.parametrize("fanout", [2, 5, 16])
def test_a_recovered_tree_goes_on_giving_out_the_same_pages(fanout: int) -> None:
    whole, interrupted = Growing(fanout), Growing(fanout)
    for step in range(300):
        whole.grow(step % 4)
        interrupted.grow(step % 4)
        interrupted.tree = interrupted.recovered()
    assert [(p.position, p.level, p.prev, p.prev_parent, p.entries.tolist()) for p in whole.order] == [
        (p.position, p.level, p.prev, p.prev_parent, p.entries.tolist()) for p in interrupted.order
    ]


def test_the_published_example_of_a_parent_already_written() -> None:
    """With two entries to a page, d6 (level 2) is on disk when d7 is written; it must be found, not built again."""
    growing = Growing(2)
    growing.grow(10)
    assert [page.level for page in growing.order] == [0, 0, 1, 0, 0, 1, 2, 0]
    again = growing.recovered()
    assert again._written == [5, 2, 1, 0]
    assert again._last[2] == growing.order[6].position


def test_a_parent_directly_follows_its_last_child() -> None:
    growing = Growing(3)
    growing.grow(200)
    strides = page_length(3) // STRIDE
    for before, page in zip(growing.order, growing.order[1:], strict=False):
        if page.level > 0:
            assert int(page.entries[-1]) == before.position == page.position - strides


@pytest.mark.parametrize(("first", "last"), [(0, 0), (5, 5), (0, 1), (3, 9), (0, 100), (95, 100), (99, 100)])
def test_ranges(first: int, last: int) -> None:
    growing = Growing(4)
    growing.grow(100)
    assert growing.tree.lookup(first, last).tolist() == growing.addresses[first:last]


def test_a_frozen_tree_stays_as_it_was() -> None:
    growing = Growing(3)
    growing.grow(50)
    frozen = growing.tree.freeze(growing.tree._load)
    growing.grow(500)
    assert frozen.next_id == 50
    assert frozen.lookup(0, 50).tolist() == growing.addresses[:50]


def test_a_missing_page_is_corruption() -> None:
    growing = Growing(2)
    growing.grow(9)
    del growing.pages[growing.order[0].position]
    with pytest.raises(CorruptionError, match="no address page"):
        TranslationTree.recover(2, growing.tree.last_page, lambda p: None, growing.load)


def test_an_empty_tree() -> None:
    tree = TranslationTree.recover(FANOUT, NIL, lambda p: None, lambda p: np.empty(0, np.uint64))
    assert tree.next_id == 0
    assert tree.last_page == NIL
    assert page_length(FANOUT) == 8192
