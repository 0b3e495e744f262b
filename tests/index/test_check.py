"""The check of a tree finds what is wrong with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.storage.trees import NAME, Tree, grown
from tidelog.index import check_tree
from tidelog.index.node import Node, parse


@pytest.fixture
def tree() -> Tree:
    """Leaves 0, 1, 3, 4, 7, ... under fan-out 2, closed."""
    tree = grown(random.Random(8), 22, 2, 2, batch=2)
    tree.close()
    return tree


def findings(tree: Tree) -> list[str]:
    return [str(finding) for finding in check_tree(NAME, tree.container.snapshot(), tree.layout, tree.root)]


def with_entry(node: Node, change: Callable[[Node], None]) -> Node:
    copy = replace(node, entries=node.entries.copy())
    change(copy)
    return copy


def other_child(node: Node) -> None:
    node.entries["child"][1] += 1


def other_rows(node: Node) -> None:
    node.entries["rows"][0] += 1


def other_sum(node: Node) -> None:
    node.entries["columns"]["sum"][0, 0, 0] += 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda node: with_entry(node, other_child), "node 5 has the children"),
        (lambda node: with_entry(node, other_rows), "the entry of block 3 in node 5 is wrong about the rows"),
        (lambda node: with_entry(node, other_sum), "the entry of block 3 in node 5 is wrong about the columns count"),
        (lambda node: replace(node, previous=3), "node 5 has neighbours 3 and 9, expected 2 and 9"),
        (lambda node: replace(node, next=10), "node 5 has neighbours 2 and 10, expected 2 and 9"),
        (lambda node: replace(node, first_leaf=3), "its first leaf is 3, it is 2"),
        (lambda node: replace(node, closing=True), "closed the tree"),
        (lambda node: replace(node, id=6), "says that it is node 6"),
    ],
)
def test_a_wrong_node_is_found(tree: Tree, change: Callable[[Node], Node], message: str) -> None:
    assert findings(tree) == []
    node = parse(tree.container.read_node(5), 5, tree.layout)
    tree.container.update(5, change(node).to_bytes())
    tree.container.flush()
    assert any(message in finding for finding in findings(tree))


def test_a_wrong_leaf_is_found(tree: Tree) -> None:
    tree.container.update(25, tree.container.view().read(0))
    tree.container.flush()
    found = findings(tree)
    assert any("leaf 25 begins at time" in finding for finding in found)
    assert any("the entry of block 25 in node 26 is wrong" in finding for finding in found)


def test_a_wrong_root_is_found(tree: Tree) -> None:
    assert tree.root is not None
    for wrong in (replace(tree.root, level=9), replace(tree.root, rows=1), replace(tree.root, closing=())):
        assert check_tree(NAME, tree.container.snapshot(), tree.layout, wrong)


def test_a_wrong_flank_is_found() -> None:
    tree = grown(random.Random(8), 22, 2, 2)
    tree.container.flush()
    flank = tree.writer.flank()
    snapshot = tree.container.snapshot()
    assert check_tree(NAME, snapshot, tree.layout, flank) == []
    levels = [entries.copy() for entries in flank.levels]
    levels[0]["rows"] += 1
    assert check_tree(NAME, snapshot, tree.layout, replace(flank, levels=tuple(levels)))
    assert check_tree(NAME, snapshot, tree.layout, replace(flank, levels=flank.levels[:-1]))


def test_a_closing_that_is_not_complete_has_no_root(tree: Tree) -> None:
    open_tree = grown(random.Random(8), 22, 2, 2, batch=2)
    open_tree.container.flush()
    assert check_tree(NAME, open_tree.container.snapshot(), tree.layout, tree.root)
