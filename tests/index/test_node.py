"""The bytes of nodes and roots, intact and damaged."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from support.storage.trees import SCHEMA, rows
from tidelog.index import Layout, Root
from tidelog.index.entries import from_batch
from tidelog.index.node import HEAD_SIZE, Node, parse
from tidelog.index.tabtree.root import closing_levels
from tidelog.model.errors import CorruptionError

LAYOUT = Layout(SCHEMA, 4)


@pytest.fixture
def node() -> Node:
    cuts = np.array([0, 10, 20, 30], np.int64)
    entries = from_batch(LAYOUT, rows(random.Random(0), 30), cuts, LAYOUT.columns)
    entries["child"] = [10, 11, 12]
    return Node(2, 13, -1, 40, 16, True, entries)


def test_a_node_is_read_back_without_a_copy(node: Node) -> None:
    content = node.to_bytes()
    again = parse(content, 13, LAYOUT)
    assert (again.level, again.id, again.previous, again.next, again.first_leaf, again.closing) == (
        2,
        13,
        -1,
        40,
        16,
        True,
    )
    assert again.entries.tobytes() == node.entries.tobytes()
    base = np.frombuffer(content, np.uint8)
    assert np.shares_memory(again.entries, base)
    children = again.children(LAYOUT)
    assert (children.ids, list(children.leaves), children.levels) == ([10, 11, 12], [16, 20, 24], [1, 1, 1])
    assert children.before == [0, 10, 20, 30]


def test_the_head_is_laid_out_as_documented(node: Node) -> None:
    content = node.to_bytes()
    assert struct.unpack_from("<4sHHIIIIQQQQ", content) == (
        b"TLTN",
        1,
        1,
        2,
        3,
        len(LAYOUT.stored),
        0,
        13,
        (1 << 64) - 1,
        40,
        16,
    )
    assert HEAD_SIZE == 56
    assert struct.unpack_from("<qq", content, 56) == (10, 10)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"X", "starts with"),
        (4, b"\2", "version 2"),
        (6, b"\2", "make no sense"),
        (8, b"\0", "make no sense"),
        (12, b"\0", "make no sense"),
        (12, b"\5", "make no sense"),
        (12, b"\2", "bytes"),
        (16, b"\1", "1 columns"),
        (20, b"\1", "words of states"),
        (24, b"\1", "says that it is node 1"),
        (39, b"\x80", "make no sense"),
    ],
)
def test_damaged_bytes_are_no_node(node: Node, at: int, value: bytes, message: str) -> None:
    content = bytearray(node.to_bytes())
    content[at : at + 1] = value
    with pytest.raises(CorruptionError, match=message):
        parse(bytes(content), 13, LAYOUT)


def test_bytes_cut_off_are_no_node(node: Node) -> None:
    content = node.to_bytes()
    for size in range(0, len(content), 50):
        with pytest.raises(CorruptionError, match="block 13 is not a node of this tree"):
            parse(content[:size], 13, LAYOUT)


def test_a_root_is_read_back() -> None:
    for root in (Root(9, 2, 3, 7, 70, 10, ((1, 8), (2, 9))), Root(-1, 0, 64, 0, 0, 0, ()), Root(0, 0, 2, 1, 5, 1, ())):
        content = root.to_bytes()
        assert Root.from_bytes(content) == root
        for damaged in (content[:-1], content[:20], b"XXXX" + content[4:], content[:4] + b"\2" + content[5:], b""):
            with pytest.raises(CorruptionError):
                Root.from_bytes(damaged)
    assert Root(9, 2, 3, 7, 70, 10, ()).nodes == 3


def test_numbers_of_a_root_that_contradict_each_other_are_refused() -> None:
    for root in (Root(9, 2, 3, 7, 70, 9, ()), Root(-1, 0, 3, 7, 70, 9, ()), Root(3, 2, 3, 7, 6, 9, ())):
        with pytest.raises(CorruptionError, match="make no sense"):
            Root.from_bytes(root.to_bytes())


@pytest.mark.parametrize("fanout", [2, 3, 4])
def test_closing_leads_to_one_root(fanout: int) -> None:
    """Against a simulation: levels of blocks without parent, closed from the bottom until one block is left."""
    for leaves in range(200):
        waiting = [leaves // fanout**level % fanout for level in range(12)]
        level, expected = 0, []
        while sum(waiting) > 1:
            if waiting[level]:
                waiting[level] = 0
                waiting[level + 1] += 1
                expected.append(level + 1)
            level += 1
        root = next((level for level in range(12) if waiting[level]), 0)
        assert closing_levels(leaves, fanout) == (expected, root)
