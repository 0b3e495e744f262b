"""Checking a tree: every node is read, and every entry compared with what it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidelog.index import ids
from tidelog.index.entries import Entries, empty, from_summaries, leaf_states, merge, states_of
from tidelog.index.layout import Layout
from tidelog.index.node import Node
from tidelog.index.states import UNKNOWN
from tidelog.index.tabtree.flank import Flank, read_node
from tidelog.index.tabtree.root import Root, closing_levels
from tidelog.model.errors import CorruptionError, InputError
from tidelog.storage import ContainerReader, Finding


def check_tree(name: str, reader: ContainerReader, layout: Layout, at: Flank | Root | None = None) -> list[Finding]:
    """Everything wrong with a tree as of its reader's commit; an empty list means that all is well.

    Entries are compared with the summaries of leaves; that these are right is checked by ``ContainerReader.check``.
    ``name`` is the file that findings are about; ``at`` is the root or flank that is believed to be the tree's.
    """
    try:
        messages = _Check(reader, layout).run(at)
    except (CorruptionError, InputError) as error:
        messages = [str(error)]
    return [Finding(name, message) for message in messages]


@dataclass
class _Check:
    reader: ContainerReader
    layout: Layout
    messages: list[str] = field(default_factory=list)
    below: list[list[Entries]] = field(default_factory=list)
    """By level: the recomputed entries of blocks that no node was seen over yet."""
    last: list[int] = field(default_factory=list)
    """By level: the id of the last block seen."""

    def run(self, at: Flank | Root | None) -> list[str]:
        self.layout.check_container(self.reader.schema)
        self._leaves, self._latest = 0, -(1 << 63)
        closing: list[tuple[int, int]] = []
        kinds = self._kinds()
        for id in range(self.reader.blocks):
            if kinds[id]:
                if closing:
                    self.messages.append(f"leaf {id} stands behind node {closing[0][1]}, which closed the tree")
                self._take_leaf(id)
                continue
            node = read_node(self.reader, self.layout, id)
            if node.closing:
                closing.append((node.level, id))
            elif closing:
                self.messages.append(f"node {id} stands behind node {closing[0][1]}, which closed the tree")
            self._take_node(node)
        self._check_top(at, closing)
        return self.messages

    def _kinds(self) -> list[bool]:
        """For each block whether it is a leaf."""
        found = np.zeros(self.reader.blocks, np.bool_)
        found[self.reader.summaries()[0]] = True
        return [bool(leaf) for leaf in found]

    def _take_leaf(self, id: int) -> None:
        expected = ids.leaf_id(self._leaves, self.layout.fanout)
        if id != expected:
            self.messages.append(f"leaf {self._leaves} is block {id}, expected block {expected}")
        states = None
        if self.layout.states.words:
            states = leaf_states(self.layout, [self.reader.read(id, self.layout.states.columns)])
        entry = from_summaries(self.layout, *self.reader.summaries(id, id + 1), states)
        low, high = (int(entry["columns"][0, self.layout.time][bound].astype(np.int64)) for bound in ("min", "max"))
        if low < self._latest:
            self.messages.append(f"leaf {id} begins at time {low}, before {self._latest}, where the one before it ends")
        self._latest = max(self._latest, high)
        self._leaves += 1
        self._add(0, id, entry)

    def _take_node(self, node: Node) -> None:
        level, fanout = node.level, self.layout.fanout
        children = self.below[level - 1] if level <= len(self.below) else []
        expected = np.concatenate(children) if children else empty(self.layout, 0)
        if not node.closing and len(children) != fanout:
            self.messages.append(f"node {node.id} of level {level} is over {len(children)} children, not {fanout}")
        self._compare(f"node {node.id}", node.entries, expected)
        step = fanout**level
        ordinal = max(0, self._leaves - 1) // step
        if node.first_leaf != ordinal * step:
            self.messages.append(f"node {node.id} says its first leaf is {node.first_leaf}, it is {ordinal * step}")
        previous = self.last[level] if level < len(self.last) else ids.NIL
        following = ids.NIL if node.closing else ids.node_id(level, ordinal + 1, fanout)
        if (node.previous, node.next) != (previous, following):
            self.messages.append(
                f"node {node.id} has neighbours {node.previous} and {node.next}, expected {previous} and {following}"
            )
        if children:
            children.clear()
        entry = merge(self.layout, expected)
        entry["child"] = node.id
        self._add(level, node.id, entry)

    def _add(self, level: int, id: int, entry: Entries) -> None:
        while len(self.below) <= level:
            self.below.append([])
            self.last.append(ids.NIL)
        self.below[level].append(entry)
        self.last[level] = id

    def _compare(self, who: str, found: Entries, expected: Entries) -> None:
        if found["child"].tolist() != expected["child"].tolist():
            self.messages.append(
                f"{who} has the children {found['child'].tolist()}, expected {expected['child'].tolist()}"
            )
            return
        for index in range(len(found)):
            if found[index].tobytes() == expected[index].tobytes():
                continue
            wrong = [
                column
                for position, column in enumerate(self.layout.stored.names)
                if found["columns"][index, position].tobytes() != expected["columns"][index, position].tobytes()
            ]
            states = self._wrong_states(found[index : index + 1], expected[index : index + 1])
            if not wrong and found["rows"][index] == expected["rows"][index]:
                if not states:
                    continue
                what = f"the aggregates {', '.join(states)}"
            else:
                what = f"the columns {', '.join(wrong)}" if wrong else "the rows"
            self.messages.append(f"the entry of block {int(found['child'][index])} in {who} is wrong about {what}")

    def _wrong_states(self, found: Entries, expected: Entries) -> list[str]:
        """User-defined aggregates that an entry is wrong about; what is unknown is not wrong."""
        states = self.layout.states
        if not states.words:
            return []
        wrong = []
        ours, theirs = states_of(self.layout, expected), states_of(self.layout, found)
        for place, each in enumerate(states.kept):
            mine, own = states.part(ours, place)[0], states.part(theirs, place)[0]
            if UNKNOWN in (mine[0], own[0]):
                continue
            if mine[0] != own[0] or not states.agree(place, mine, own):
                wrong.append(each.binding.name)
        return wrong

    def _check_top(self, at: Flank | Root | None, closing: list[tuple[int, int]]) -> None:
        levels, top = closing_levels(self._leaves, self.layout.fanout)
        written = [level for level, _ in closing]
        if written != levels[: len(written)]:
            self.messages.append(f"the tree was closed by nodes of the levels {written}, expected {levels}")
        rows = sum(int(entry["rows"][0]) for entries in self.below for entry in entries)
        if rows != self.reader.rows:
            self.messages.append(f"the tree has {rows} rows, its container {self.reader.rows}")
        if isinstance(at, Root):
            id = self.last[top] if self._leaves and top < len(self.last) else ids.NIL
            expected = Root(id, top, self.layout.fanout, self._leaves, rows, self.reader.blocks, tuple(closing))
            if at != expected:
                self.messages.append(f"found {at}, expected {expected}")
            elif sum(len(entries) for entries in self.below) > 1:
                self.messages.append(f"the root {at.id} does not stand over all blocks: the closing is not complete")
        elif at is not None:
            for level in range(max(len(self.below), len(at.levels))):
                found = at.levels[level] if level < len(at.levels) else empty(self.layout, 0)
                parts = self.below[level] if level < len(self.below) else []
                self._compare(f"the flank's level {level}", found, np.concatenate([empty(self.layout, 0), *parts]))
