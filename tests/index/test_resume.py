"""Trees whose writer ended at any block are gone on with, from a few blocks of each level."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from support.media.recording import RecordingMedium
from support.storage.trees import NAME, Tree, assert_aggregates, grown, rows, same
from tidelog.index import Flank, Layout, TreeReader, TreeWriter, check_tree, ids
from tidelog.index.tabtree.root import closing_levels
from tidelog.model.errors import ClosedError, CorruptionError, InputError
from tidelog.storage import Container, ContainerReader, Options
from tidelog.storage.codec import Ints


def blocks_of(tree: Tree) -> list[pa.RecordBatch | bytes]:
    """The contents of all blocks, in order."""
    reader = tree.container.view()
    leaves = set(reader.summaries()[0].tolist())
    return [reader.read(id) if id in leaves else reader.read_node(id) for id in range(reader.blocks)]


def cut_off(blocks: list[pa.RecordBatch | bytes], layout: Layout) -> Container:
    """A container as its writer left it that ended behind these blocks."""
    medium = RecordingMedium()
    container = Container.create(medium, NAME, layout.stored, Options(leaf_rows=2), layout.to_notes())
    for block in blocks:
        container.append(block)
    container.close()
    return Container.open(medium, NAME, Options(leaf_rows=2))


def rows_of(blocks: list[pa.RecordBatch | bytes], layout: Layout) -> pa.Table:
    return pa.Table.from_batches([block for block in blocks if not isinstance(block, bytes)], layout.stored)


@pytest.mark.parametrize("fanout", [2, 3])
def test_a_tree_cut_off_behind_any_block_goes_on(fanout: int) -> None:
    source = grown(random.Random(fanout), 40, fanout, 2, batch=2)
    source.container.flush()
    blocks = blocks_of(source)
    more = rows(random.Random(9), 13, since=10**6, first=1000)
    for count in range(len(blocks) + 1):
        with cut_off(blocks[:count], source.layout) as container:
            before = rows_of(blocks[:count], source.layout)
            reader = TreeReader(container.snapshot(), source.layout)
            assert reader.rows == before.num_rows
            assert_aggregates(
                reader.aggregate(None, None, reader.layout.indexes(["price", "text"])), before, ["price", "text"]
            )
            writer = TreeWriter.resume(container)
            assert writer.layout == source.layout
            assert (writer.leaves, writer.rows, writer.is_closing) == (reader.leaves, reader.rows, False)
            # What the last writer would have appended next is there, and nothing else.
            assert ids.counts(container.blocks, fanout) == [
                max(0, writer.leaves // fanout**level)
                for level in range(20)
                if level == 0 or writer.leaves // fanout**level
            ]
            writer.extend(more)
            root = writer.close()
            container.flush(root.to_bytes())
            after = pa.concat_tables([before, pa.Table.from_batches([more])])
            assert check_tree(NAME, container.snapshot(), source.layout, root) == []
            closed = TreeReader(container.snapshot(), source.layout, root)
            assert same(pa.Table.from_batches(closed.scan()), after)
            assert_aggregates(closed.entry(), after, after.schema.names)


@pytest.mark.parametrize("fanout", [2, 3])
@pytest.mark.parametrize("count", [1, 5, 17, 23, 54])
def test_a_closing_that_was_cut_off_is_finished(fanout: int, count: int) -> None:
    source = grown(random.Random(count), count, fanout, 1, batch=2)
    source.close()
    blocks, table = blocks_of(source), source.table()
    levels, _ = closing_levels(count, fanout)
    for done in range(len(levels) + 1):
        with cut_off(blocks[: len(blocks) - len(levels) + done], source.layout) as container:
            reader = TreeReader(container.snapshot(), source.layout)  # knows of no root
            assert same(pa.Table.from_batches(reader.scan()), table)
            writer = TreeWriter.resume(container)
            assert writer.is_closing == (done > 0)
            if done:
                with pytest.raises(ClosedError, match="was being closed"):
                    writer.extend(rows(random.Random(9), 3, since=10**6, first=1000))
            assert writer.close() == source.root
            assert not writer.is_closing
            container.flush()
            assert blocks_of_container(container) == [bytes_of(block) for block in blocks]
            assert_aggregates(writer.entry(), table, table.schema.names)


def bytes_of(block: pa.RecordBatch | bytes) -> bytes:
    return block if isinstance(block, bytes) else b"leaf"


def blocks_of_container(container: Container) -> list[bytes]:
    leaves = set(container.snapshot().summaries()[0].tolist())
    return [b"leaf" if id in leaves else container.read_node(id) for id in range(container.blocks)]


def test_commits_in_the_background_can_be_gone_on_with() -> None:
    """Files as they are on disk at moments that no flush has chosen."""
    dice = random.Random(11)
    layout = grown(dice, 0, 3, 2).layout
    tree = Tree(layout, Options(leaf_rows=2, run_rows=4, macro_size=8192, commit_every=1))
    whole, seen = rows(dice, 160), set()
    for start in range(0, 160, 4):
        tree.extend(whole.slice(start, 4))
        with tree.medium.open(NAME) as file:
            content = bytes(file.read(0, file.size()))
        medium = RecordingMedium()
        with medium.create(NAME) as file:
            file.write(0, content)
        with Container.open(medium, NAME) as container:
            seen.add(container.blocks)
            count = container.snapshot().rows
            writer = TreeWriter.resume(container)
            assert writer.rows == count
            writer.extend(whole.slice(count))
            root = writer.close()
            container.flush(root.to_bytes())
            assert check_tree(NAME, container.snapshot(), layout, root) == []
            reader = TreeReader(container.snapshot(), layout, root)
            assert same(pa.Table.from_batches(reader.scan()), pa.Table.from_batches([whole]))
    assert len(seen) > 5


class CountingBlocks:
    """A reader that counts what it is asked for."""

    def __init__(self, reader: ContainerReader) -> None:
        self._reader = reader
        self.schema = reader.schema
        self.blocks = reader.blocks
        self.read: Counter[int] = Counter()

    def read_node(self, id: int) -> bytes:
        self.read[id] += 1
        return self._reader.read_node(id)

    def summaries(self, first: int = 0, last: int | None = None) -> tuple[Ints, Ints, npt.NDArray[np.void]]:
        self.read.update(range(first, self.blocks if last is None else last))
        return self._reader.summaries(first, last)


@pytest.mark.parametrize("fanout", [2, 5])
def test_a_flank_is_read_from_few_blocks(fanout: int) -> None:
    source = grown(random.Random(1), 600, fanout, 2)
    source.container.flush()
    blocks = CountingBlocks(source.container.snapshot())
    flank = Flank.read(blocks, source.layout)
    levels = Counter(ids.locate(id, fanout)[0] for id in blocks.read)
    assert set(levels) <= set(range(len(flank.levels)))
    assert all(count <= fanout for count in levels.values())
    assert blocks.read.total() <= fanout * len(flank.levels) + 2  # the last one is looked at first
    ours = source.writer.flank()
    for found, expected in zip(flank.levels, ours.levels, strict=True):
        assert found.tobytes() == expected.tobytes()
    assert (flank.leaves, flank.rows, flank.blocks) == (ours.leaves, ours.rows, ours.blocks)


def test_rows_behind_a_resumed_tree_must_follow_its_last_one() -> None:
    source = grown(random.Random(3), 30, 2, 2)
    source.container.flush()
    with cut_off(blocks_of(source), source.layout) as container:
        writer = TreeWriter.resume(container)
        assert writer.last == source.writer.last
        with pytest.raises(InputError, match="expected rows in ascending order"):
            writer.extend(source.batches[-1])
        writer.extend(rows(random.Random(9), 3, since=10**6, first=1000))
        with pytest.raises(InputError, match="not committed"):
            TreeWriter.resume(container)


def test_blocks_of_something_else_are_no_tree() -> None:
    source = grown(random.Random(3), 30, 2, 2)
    source.container.flush()
    blocks = blocks_of(source)
    for wrong in ([blocks[0], b"a node of something else"], blocks[:2] * 2, [blocks[0], blocks[3], blocks[1]]):
        with cut_off(wrong, source.layout) as container, pytest.raises(CorruptionError):
            TreeWriter.resume(container)
