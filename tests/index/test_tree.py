"""Trees of random rows against brute force over these rows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.recording import RecordingMedium
from support.profiles import scaled
from support.storage.trees import NAME, SCHEMA, Tree, assert_aggregates, grown, in_range, rows, same
from tidelog.index import Aggregate, Layout, NodeCache, ReadCounters, Root, TreeReader, TreeWriter, check_tree
from tidelog.index.entries import Entries
from tidelog.model import Schema
from tidelog.model.errors import ClosedError, InputError, NotFoundError, SchemaError
from tidelog.storage import Container, Options
from tidelog.storage.rows.numbered import NumberedRows

FAR = 1 << 70


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, TreeReader, random.Random]:
    """A tree, open or closed, read here or elsewhere."""
    dice = random.Random(draw(st.integers(0, 1 << 32)))
    count = draw(st.sampled_from([0, 1, 2, 9, 40, 130]))
    tree = grown(dice, count, draw(st.sampled_from([2, 3, 5])), draw(st.sampled_from([1, 2, 6])))
    if draw(st.booleans()):
        tree.close()
    return tree, tree.reader() if draw(st.booleans()) else tree.reader_elsewhere(), dice


def bounds_near(table: pa.Table, dice: random.Random) -> tuple[int | None, int | None]:
    """A time range with ends on and beside times that exist."""
    times = table.column("ts").cast(pa.int64()).to_pylist() or [0]
    ends = [
        dice.choice([None, -FAR, FAR, -1, *(dice.choice(times) + step for step in (-1, 0, 0, 1))]) for _ in range(2)
    ]
    if None not in ends and dice.random() < 0.9:
        ends.sort()
    return ends[0], ends[1]


def read(reader: TreeReader, *arguments: Any, **named: Any) -> pa.Table:
    batches = list(reader.scan(*arguments, **named))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches) if batches else reader.layout.stored.empty_table()


@given(trees())
@settings(max_examples=scaled(60))
def test_a_tree_answers_like_its_rows(case: tuple[Tree, TreeReader, random.Random]) -> None:
    tree, reader, dice = case
    table = tree.table()
    times = table.column("ts").cast(pa.int64()).to_pylist()
    assert reader.rows == table.num_rows
    assert reader.time_bounds == ((times[0], times[-1]) if times else None)
    assert_aggregates(reader.entry(), table, table.schema.names)
    assert_aggregates(tree.writer.entry(), table, table.schema.names)
    assert same(read(reader), table)
    for _ in range(6):
        start, end = bounds_near(table, dice)
        expected = in_range(table, start, end)
        assert same(read(reader, start, end), expected)
        columns = dice.sample(table.schema.names, 3)
        assert_aggregates(reader.aggregate(start, end, reader.layout.indexes(columns)), expected, columns)
        if start is not None:
            assert reader.rank(start) == sum(time < start for time in times)
    for index in {0, len(times) // 2, len(times) - 1} & set(range(len(times))):
        assert same(pa.Table.from_batches([reader.row(index)]), table.slice(index, 1))
        leaf, row = reader.nth(index)
        found = tree.container.view().read(leaf, ["_seq"], (row, row + 1))
        assert found.column(0).to_pylist() == [table.column("_seq")[index].as_py()]


@given(trees())
@settings(max_examples=scaled(30))
def test_leaves_that_fail_a_test_are_left_out_and_no_others(case: tuple[Tree, TreeReader, random.Random]) -> None:
    tree, reader, dice = case
    table = tree.table()
    column = tree.layout.index("small")
    wanted = dice.choice([-128, 0, 5, 127])

    def may_hold(entries: Entries) -> np.ndarray:
        records = entries["columns"][:, column]
        low, high = (records[bound].astype(np.int64) for bound in ("min", "max"))
        return (records["flags"] & 1 != 0) & (low <= wanted) & (wanted <= high)

    start, end = bounds_near(table, dice)
    found = read(reader, start, end, test=may_hold)
    expected = in_range(table, start, end)
    matching = [row for row in expected.column("small").to_pylist() if row == wanted]
    assert [row for row in found.column("small").to_pylist() if row == wanted] == matching
    # What is read is what the leaves say that hold it, cut to the range: as found by looking at every leaf.
    snapshot = tree.container.snapshot()
    leaves, counts, _ = snapshot.summaries()
    firsts = np.cumsum(counts) - counts
    times = table.column("ts").cast(pa.int64()).to_numpy()
    runs, kept = [], []
    for ordinal in range(len(leaves)):
        part = slice(int(firsts[ordinal]), int(firsts[ordinal] + counts[ordinal]))
        inside = [(start is None or start <= t) and (end is None or t < end) for t in times[part].tolist()]
        touches = (start is None or times[part][-1] >= start) and (end is None or times[part][0] < end)
        small = [value for value in table.column("small")[part].to_pylist() if value is not None]
        if touches and small and min(small) <= wanted <= max(small) and not (start and end and end <= start):
            runs.append(ordinal)
            kept += [part.start + row for row, here in enumerate(inside) if here]
    assert [leaf for first, last in reader.leaf_ranges(start, end, may_hold) for leaf in range(first, last)] == runs
    assert found.column("_seq").to_pylist() == table.column("_seq").take(pa.array(kept, pa.int64())).to_pylist()


@given(trees())
@settings(max_examples=scaled(30))
def test_many_ranges_in_one_pass(case: tuple[Tree, TreeReader, random.Random]) -> None:
    tree, reader, dice = case
    table = tree.table()
    ranges = [bounds_near(table, dice) for _ in range(dice.choice([0, 1, 30]))]
    ranges = [(a, b) for a, b in ranges if a is not None and b is not None and abs(a) < FAR and abs(b) < FAR]
    columns = dice.sample(table.schema.names, 3)
    entries = reader.aggregates(
        np.array([a for a, _ in ranges], np.int64),
        np.array([b for _, b in ranges], np.int64),
        reader.layout.indexes(columns),
    )
    assert len(entries) == len(ranges)
    for index, (start, end) in enumerate(ranges):
        found = Aggregate(tree.layout, tree.layout.indexes(columns), entries[index : index + 1])
        assert_aggregates(found, in_range(table, start, end), columns)


@given(st.integers(0, 1 << 32), st.sampled_from([2, 3, 4]), st.integers(0, 70), st.booleans())
@settings(max_examples=scaled(40))
def test_every_tree_passes_its_check(seed: int, fanout: int, count: int, closed: bool) -> None:
    tree = grown(random.Random(seed), count, fanout, 2)
    if closed:
        tree.close()
    else:
        tree.container.flush()
    at = tree.root or tree.writer.flank()
    assert check_tree(NAME, tree.container.snapshot(), tree.layout, at) == []
    assert check_tree(NAME, tree.container.snapshot(), tree.layout) == []
    assert tree.container.snapshot().check() == []
    if closed:
        assert tree.root is not None
        assert tree.root.blocks == tree.container.blocks
        assert tree.root.leaves == tree.writer.leaves == len(tree.container.snapshot().summaries()[0])
        assert tree.writer.close() == tree.root


def test_rows_out_of_order_are_refused_whole() -> None:
    tree = grown(random.Random(2), 0, 3, 4)
    batch = rows(random.Random(2), 20)
    tree.extend(batch.slice(0, 10))
    before = tree.container.blocks
    moved = pa.concat_batches([batch.slice(10, 5), batch.slice(17, 1), batch.slice(15, 2)])
    for wrong, row in ((batch.slice(9, 5), 0), (batch.slice(2, 1), 0), (moved, 6)):
        with pytest.raises(InputError, match="expected rows in ascending order") as caught:
            tree.writer.extend(wrong)
        assert (caught.value.row, caught.value.column) == (row, "ts")
    with pytest.raises(InputError, match="expected the stored ones"):
        tree.writer.extend(batch.select(["ts"]))
    assert tree.container.blocks == before
    assert tree.writer.extend(batch.slice(0, 0)) == 0
    tree.extend(batch.slice(10))
    assert same(read(tree.reader()), tree.table())


def test_rows_without_time_are_refused() -> None:
    layout = Layout(Schema(pa.schema([("ts", pa.int64())]), "ts"))
    container = Container.create(RecordingMedium(), NAME, layout.stored)
    writer = TreeWriter(container, layout)
    with pytest.raises(InputError, match="without 'ts'"):
        writer.extend(pa.record_batch([pa.array([1, None]), pa.array([0, 1])], schema=layout.stored))


def test_one_time_over_many_leaves_and_nodes() -> None:
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("v", pa.int64())]), "ts"), 2)
    tree = Tree(layout, Options(leaf_rows=2))
    times = [1] * 3 + [5] * 30 + [9] * 3
    tree.extend(pa.record_batch([times, range(36), range(36)], schema=layout.stored))
    for reader in (tree.reader(), tree.reader_elsewhere()):
        assert [reader.rank(t) for t in (0, 1, 2, 5, 6, 9, 10)] == [0, 0, 3, 3, 33, 33, 36]
        assert reader.aggregate(5, 6)["v"].total() == sum(range(3, 33))
        assert reader.aggregate(5, 6).rows == 30
        assert sum(batch.num_rows for batch in reader.scan(5, 6)) == 30
        assert reader.aggregate(6, 9).rows == 0
        assert reader.aggregates(np.array([1, 5, 9]), np.array([5, 9, 10]))["rows"].tolist() == [3, 30, 3]


def test_large_rows_make_smaller_leaves_and_the_ids_stay_right() -> None:
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("text", pa.string())]), "ts"), 3)
    tree = Tree(layout, Options(leaf_rows=64, macro_size=1 << 20))
    texts = ["x" * (1 << 20) if 100 <= row < 140 else "y" for row in range(300)]
    tree.extend(pa.record_batch([range(300), texts, range(300)], schema=layout.stored))
    tree.close()
    assert tree.root is not None
    assert tree.root.leaves > 8
    assert check_tree(NAME, tree.container.snapshot(), layout, tree.root) == []
    assert same(read(tree.reader()), tree.table())


ROWS, FANOUT, LEAF = 8000, 4, 4
"""Of a tree with 2,000 leaves under six levels of nodes."""


@pytest.fixture(scope="module")
def tree() -> Tree:
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("v", pa.int64())]), "ts"), FANOUT)
    tree = Tree(layout, Options(leaf_rows=LEAF))
    numbers = np.arange(ROWS)
    tree.extend(pa.record_batch([numbers * 2, numbers, numbers], schema=layout.stored))
    return tree


class TestCosts:
    """How much is read, by counters."""

    def test_aggregates_visit_two_nodes_of_a_level(self, tree: Tree) -> None:
        reader = tree.reader_elsewhere()
        dice = random.Random(0)
        for _ in range(200):
            start, end = sorted(dice.randrange(2 * ROWS) for _ in range(2))
            counters = ReadCounters()
            found = reader.aggregate(start, end, reader.layout.indexes(["v"]), counters)
            assert found.rows == (end + 1) // 2 - (start + 1) // 2
            assert counters.nodes <= 2 * 6
            assert counters.leaves <= 2

    def test_positions_visit_one_node_of_a_level(self, tree: Tree) -> None:
        reader = tree.reader_elsewhere()
        for find, most_leaves in ((reader.rank, 1), (reader.seek, 1), (reader.nth, 0)):
            for number in range(0, ROWS, 97):
                counters = ReadCounters()
                find(number, counters)
                assert counters.nodes <= 6
                assert counters.leaves <= most_leaves

    def test_nodes_are_read_once_while_the_cache_holds_them(self, tree: Tree) -> None:
        cache = NodeCache(1 << 20)
        counters = ReadCounters()
        tree.container.flush()
        snapshot = tree.container.snapshot()
        for _ in range(3):  # readers of one tree may share what they have read
            TreeReader(snapshot, tree.layout, tree.writer.flank(), cache, "one").aggregate(101, 9001, None, counters)
        assert counters.nodes == 3 * counters.node_reads
        again = ReadCounters()
        TreeReader(snapshot, tree.layout, tree.writer.flank(), cache, "other").aggregate(101, 9001, None, again)
        assert again.node_reads == again.nodes
        uncached = ReadCounters()
        small = TreeReader(snapshot, tree.layout, tree.writer.flank(), NodeCache(0))
        for _ in range(2):
            small.aggregate(101, 9001, None, uncached)
        assert uncached.node_reads == uncached.nodes

    def test_many_ranges_visit_each_node_and_leaf_once(self, tree: Tree) -> None:
        reader = tree.reader_elsewhere()
        counters = ReadCounters()
        starts = np.arange(0, 2 * ROWS - 100, 3)
        entries = reader.aggregates(starts, starts + 100, reader.layout.indexes(["v"]), counters)
        assert (entries["rows"] == 50).all()
        assert counters.leaves <= ROWS // LEAF
        assert counters.nodes <= tree.container.blocks - ROWS // LEAF

    def test_a_scan_reads_the_leaves_of_its_range(self, tree: Tree) -> None:
        counters = ReadCounters()
        rows_read = sum(batch.num_rows for batch in tree.reader().scan(1000, 1400, ["v"], counters=counters))
        assert rows_read == 200
        assert counters.leaves <= 200 // LEAF + 3

    def test_a_test_prunes_whole_subtrees(self, tree: Tree) -> None:
        counters = ReadCounters()

        def holds_4000(entries: Entries) -> np.ndarray:
            records = entries["columns"][:, 1]
            return (records["min"] <= 4000) & (records["max"] >= 4000)

        found = list(tree.reader_elsewhere().scan(test=holds_4000, counters=counters))
        assert sum(batch.num_rows for batch in found) == LEAF
        assert counters.nodes <= 6


def test_misuse_is_told() -> None:
    tree = grown(random.Random(4), 50, 3, 4)
    reader = tree.reader()
    with pytest.raises(NotFoundError, match="no row 50: the tree has rows 0 to 49"):
        reader.nth(50)
    with pytest.raises(NotFoundError, match="no column 'nothing'"):
        reader.scan(columns=["nothing"])
    with pytest.raises(InputError, match="equally long"):
        reader.aggregates(np.array([1]), np.array([1, 2]))
    flank = tree.writer.flank()
    tree.extend(rows(random.Random(5), 10, since=10**6, first=50))
    tree.container.flush()
    with pytest.raises(InputError, match="same commit"):
        TreeReader(tree.container.snapshot(), tree.layout, flank)
    with pytest.raises(InputError, match=r"TreeWriter\.resume"):
        TreeWriter(tree.container, tree.layout)
    tree.close()
    with pytest.raises(ClosedError, match="the tree is closed"):
        tree.writer.extend(rows(random.Random(5), 10, since=10**7, first=60))
    assert tree.root is not None
    with pytest.raises(InputError, match="another fan-out"):
        TreeReader(tree.container.snapshot(), Layout(SCHEMA, 9), tree.root)
    other = Layout(Schema(pa.schema([("ts", pa.int64())]), "ts"), 3)
    with pytest.raises(SchemaError, match="expected those of the tree"):
        TreeReader(tree.container.snapshot(), other, tree.root)


def test_a_reader_sees_its_commit_while_the_tree_grows() -> None:
    tree = grown(random.Random(6), 60, 2, 3)
    before, table = tree.reader(), tree.table()
    elsewhere = tree.reader_elsewhere()
    tree.extend(rows(random.Random(7), 60, since=10**6, first=60))
    tree.close()
    for reader in (before, elsewhere):
        assert same(read(reader), table)
        assert_aggregates(reader.aggregate(), table, ["price", "text"])
    assert same(read(tree.reader()), tree.table())


def test_an_empty_tree() -> None:
    tree = grown(random.Random(0), 0, 2, 3)
    tree.close()
    assert tree.root == Root(-1, 0, 2, 0, 0, 0, ())
    for reader in (tree.reader(), tree.reader_elsewhere()):
        assert list(reader.scan()) == []
        assert reader.leaf_ranges() == []
        assert reader.aggregate(0, 5).rows == 0
        assert reader.aggregates(np.array([0]), np.array([5]))["rows"].tolist() == [0]
        assert (reader.rank(3), reader.time_bounds) == (0, None)


@pytest.mark.parametrize("in_order", [False, True])
def test_rows_whose_numbers_are_not_in_memory(in_order: bool) -> None:
    schema = Schema(pa.schema([("ts", pa.int64()), ("n", pa.float64())]), "ts")
    layout = Layout(schema, fanout=3)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(100) // 2), pa.array(np.arange(100.0))], schema=schema.arrow)
    with Container.create(RecordingMedium(), NAME, layout.stored, Options(leaf_rows=8)) as container:
        writer = TreeWriter(container, layout)
        assert writer.extend(NumberedRows(batch, 1000), in_order=in_order) == 13
        assert writer.last == (49, 1099)
        with pytest.raises(InputError, match="sequence number 1099 behind one with 49 and 1099"):
            writer.extend(NumberedRows(batch.slice(99), 1099), in_order=in_order)
        if not in_order:
            turned = batch.take(pa.array([99, 99, 0]))
            with pytest.raises(InputError, match="found a row with time 0 and sequence number 1102"):
                writer.extend(NumberedRows(turned, 1100))
        container.flush()
        assert not check_tree(NAME, container.snapshot(), layout)
        found = read(TreeReader(container.snapshot(), layout))
    assert found.column("_seq").to_pylist() == list(range(1000, 1100))
    assert found.select(["ts", "n"]).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize("step", [5, 1000])
def test_leaves_that_end_at_breaks(step: int) -> None:
    schema = Schema(pa.schema([("ts", pa.int64())]), "ts")
    layout = Layout(schema, fanout=3)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(100))], schema=schema.arrow)
    breaks = np.array([1, 8, 9, 30, 31, 32, 99])
    with Container.create(RecordingMedium(), NAME, layout.stored, Options(leaf_rows=8)) as container:
        writer, leaves = TreeWriter(container, layout), 0
        for start in range(0, 100, step):
            part = NumberedRows(batch.slice(start, step), start)
            leaves += writer.extend(part, breaks=breaks[(breaks > start) & (breaks < start + step)] - start)
        lows = writer.leaf_bounds().lows.tolist()
        assert leaves == len(lows)
        assert set(breaks.tolist()) <= set(lows)
        assert step < 1000 or lows == [0, 1, 8, 9, 17, 25, 30, 31, *range(32, 99, 8), 99]
        container.flush()
        assert container.snapshot().check() == []
