"""Late rows merged into trees, compared with plain lists of rows, whatever else is done with the trees."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import RecordingMedium, kills, random_power_losses
from support.storage.trees import NAME, Tree, assert_aggregates, grown, in_range, rows, same
from tidelog.index import TreeReader, TreeWriter, check_tree
from tidelog.index.layout import Layout
from tidelog.index.tabtree import merging
from tidelog.index.tabtree.merging import GROWTH
from tidelog.model import Schema
from tidelog.model.errors import ClosedError, InputError
from tidelog.storage import Container, ContainerReader, Options
from tidelog.storage.rows.ordered import OrderedRows
from tidelog.storage.write.updates import LeafUpdate


def ordered(table: pa.Table) -> pa.Table:
    """Rows by (time, number), as a brute force would keep them."""
    return table.sort_by([("ts", "ascending"), ("_seq", "ascending")])


def late_rows(tree: Tree, dice: random.Random, count: int, first: int, low: int, high: int) -> pa.RecordBatch:
    """Rows with times from ``low`` to ``high`` and before the tree's last row, numbered from ``first`` on, sorted."""
    assert tree.writer.last is not None
    batch = rows(dice, count, first=first)
    times = sorted(dice.randint(low, min(high, tree.writer.last[0] - 1)) for _ in range(count))
    return batch.set_column(1, "ts", pa.array(times, pa.timestamp("us"))).cast(batch.schema)


def shuffled(tree: Tree, batch: pa.RecordBatch, wanted: npt.NDArray[np.bool_]) -> OrderedRows:
    """The wanted rows of a sorted batch, as rows of two others, in which they stand in another order."""
    places = np.random.default_rng(batch.num_rows).permutation(batch.num_rows)
    mixed, cut = batch.take(pa.array(places)), batch.num_rows // 2
    rows = OrderedRows.of(batch, tree.layout.time)
    parts = (mixed.slice(0, cut), mixed.slice(cut))
    return replace(rows, parts=parts, order=np.argsort(places)[wanted], times=rows.times[wanted])


def merged(tree: Tree, batch: pa.RecordBatch) -> None:
    """Merge rows, as far as there is room for them."""
    shares = tree.writer.shares(batch.column(1).cast(pa.int64()).to_numpy())
    room = tree.writer.room(shares.leaves, batch)
    fits = np.repeat(shares.counts <= room, shares.counts)
    chosen = batch.filter(pa.array(fits))
    assert tree.writer.merge(shuffled(tree, batch, fits) if batch.num_rows % 2 else chosen) == chosen.num_rows
    if chosen.num_rows:
        tree.batches.append(chosen)


def assert_right(tree: Tree, dice: random.Random) -> None:
    """Whoever reads the tree finds the rows given to it, in order, and right aggregates."""
    expected = ordered(tree.table())
    for reader in (tree.reader(), tree.reader_elsewhere()):
        assert reader.rows == expected.num_rows
        assert same(pa.Table.from_batches(reader.scan(), tree.layout.stored), expected)
        assert_aggregates(reader.entry(), expected, expected.schema.names)
        times = expected.column("ts").cast(pa.int64()).to_pylist()
        for _ in range(4):
            start, end = sorted(dice.choices(times, k=2))
            wanted = in_range(expected, start, end)
            assert same(pa.Table.from_batches(reader.scan(start, end), tree.layout.stored), wanted)
            assert_aggregates(reader.aggregate(start, end), wanted, wanted.schema.names)
            assert reader.rank(end) == sum(time < end for time in times)
        index = dice.randrange(len(times))
        assert same(pa.Table.from_batches([reader.row(index)]), expected.slice(index, 1))
    at = tree.root or tree.writer.flank()
    assert check_tree(NAME, tree.container.snapshot(), tree.layout, at) == []
    assert tree.container.snapshot().check() == []


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(1, 150),
    fanout=st.sampled_from([2, 3, 7]),
    leaf_rows=st.sampled_from([1, 2, 5, 9]),
    steps=st.lists(st.sampled_from(["merge", "merge", "extend", "flush", "resume"]), min_size=1, max_size=7),
)
def test_any_history_of_merging(seed: int, count: int, fanout: int, leaf_rows: int, steps: list[str]) -> None:
    dice = random.Random(seed)
    tree = grown(dice, count, fanout, leaf_rows)
    number = 10_000
    for step in steps:
        last = tree.writer.last
        assert last is not None
        if step == "merge" and last[0] > 0:
            low = dice.choice([-20, 0, max(0, last[0] - 30)])
            merged(tree, late_rows(tree, dice, dice.choice([1, 3, 30]), number, low, dice.choice([last[0], low + 9])))
            number += 1000
        elif step == "extend":
            tree.extend(rows(dice, dice.randint(1, 40), since=last[0], first=number))
            number += 1000
        elif step == "flush":
            tree.container.flush()
        elif step == "resume":
            tree.container.close()
            tree.container = Container.open(tree.medium, NAME, tree.options)
            tree.writer = TreeWriter.resume(tree.container)
    assert tree.writer.rows == tree.table().num_rows
    assert_right(tree, dice)
    tree.close()
    assert_right(tree, dice)


def test_rows_that_are_there_already_are_dropped() -> None:
    dice = random.Random(1)
    tree = grown(dice, 90, 3, 15)
    whole = ordered(tree.table()).to_batches()[0]
    times = whole.column("ts").to_pylist()
    again = whole.filter(pa.array([times.count(time) == 1 for time in times])).slice(3, 7)
    assert again.num_rows == 7
    assert tree.writer.merge(again) == 0
    late = late_rows(tree, dice, 9, 500, 1, 200)
    assert tree.writer.merge(late) == 9
    tree.batches.append(late)
    both = ordered(pa.Table.from_batches([late, again])).combine_chunks().to_batches()[0]
    assert tree.writer.merge(both) == 0
    assert_right(tree, dice)


def test_few_leaves_of_long_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows they have: leaves are cut by bytes, so each may have megabytes."""
    monkeypatch.setattr(merging, "_RUN_LEAVES", 3)
    dice = random.Random(5)
    tree = grown(dice, 400, fanout=4, leaf_rows=8)
    seen: list[int] = []

    def update_leaves(container: Container, updates: Sequence[LeafUpdate]) -> list[Any]:
        seen.extend(len(update.ids) for update in updates)
        return original(container, updates)

    original = Container.update_leaves
    monkeypatch.setattr(Container, "update_leaves", update_leaves)
    bounds = tree.writer.leaf_bounds()
    merged(tree, late_rows(tree, dice, 200, 1000, int(bounds.lows[0]), int(bounds.highs[-1])))
    assert sum(seen) > 20
    assert max(seen) == 3
    assert_right(tree, dice)


@pytest.mark.parametrize(("columns", "count"), [(1, 1), (8, 4)])
def test_rows_of_many_columns_are_merged_a_few_at_a_time(
    columns: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_RUN_BYTES", 8 * 100)
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), *((f"c{i}", pa.int64()) for i in range(columns))])
    layout = Layout(Schema(schema, "ts"))
    width = 8 * (columns + 2)  # with the sequence number
    runs = merging._runs(np.full(10, 4), layout)
    assert [leaf for first, last in runs for leaf in range(first, last)] == list(range(10))
    assert all((last - first - 1) * 4 * width <= 8 * 100 for first, last in runs)
    assert len(runs) >= count


def test_a_leaf_grows_up_to_a_limit() -> None:
    tree = grown(random.Random(2), 40, 3, 4, batch=40)
    last = tree.writer.last
    assert last is not None
    room = int(tree.writer.room(np.array([0]), tree.batches[0])[0])
    assert room == (GROWTH - 1) * 4
    early = rows(random.Random(3), room + 1, first=900)
    early = early.set_column(1, "ts", pa.array(range(-50, room - 49), pa.timestamp("us"))).cast(early.schema)
    with pytest.raises(InputError, match="which has room for 12"):
        tree.writer.merge(early)
    assert tree.writer.rows == 40
    assert tree.writer.merge(early.slice(0, room)) == room
    tree.batches.append(early.slice(0, room))
    assert tree.writer.room(np.array([0]), early).tolist() == [0]
    assert_right(tree, random.Random(4))


def test_rows_that_cannot_be_merged_change_nothing() -> None:
    tree = grown(random.Random(5), 30, 3, 4)
    late = late_rows(tree, random.Random(6), 5, 700, 0, 20)
    last = tree.writer.last
    assert last is not None
    beyond = rows(random.Random(7), 1, since=last[0] + 1, first=999)
    for wrong, message in (
        (late.take(pa.array([1, 0])), "ascending order"),
        (late.select([0, 1]), "expected the stored ones"),
        (beyond, "use extend"),
    ):
        with pytest.raises(InputError, match=message):
            tree.writer.merge(wrong)
    assert tree.writer.merge(late.slice(0, 0)) == 0
    assert_right(tree, random.Random(8))
    tree.close()
    with pytest.raises(ClosedError):
        tree.writer.merge(late)


def test_a_row_among_equal_times_of_two_leaves_must_be_newer() -> None:
    tree = grown(random.Random(5), 1, 3, 4)
    batch = rows(random.Random(9), 30, first=100)
    same_time = batch.set_column(1, "ts", pa.array([10**6] * 30, pa.timestamp("us"))).cast(batch.schema)
    tree.extend(same_time)
    tree.extend(rows(random.Random(9), 1, since=2 * 10**6, first=200))
    older, newer = (rows(random.Random(9), 1, since=0, first=first) for first in (50, 300))
    older, newer = (
        each.set_column(1, "ts", pa.array([10**6], pa.timestamp("us"))).cast(each.schema) for each in (older, newer)
    )
    with pytest.raises(InputError, match="more than one leaf"):
        tree.writer.merge(older)
    assert tree.writer.merge(newer) == 1
    tree.batches.append(newer)
    assert_right(tree, random.Random(1))


def test_readers_keep_what_they_see() -> None:
    dice = random.Random(11)
    tree = grown(dice, 200, 3, 4)
    before = tree.reader()
    expected = ordered(tree.table())
    late = late_rows(tree, dice, 60, 5000, 0, 10**6)
    shares = tree.writer.shares(late.column(1).cast(pa.int64()).to_numpy())
    assert len(shares.leaves) > 5
    tree.writer.merge(late)
    elsewhere = ContainerReader.open(tree.medium, NAME)
    assert same(pa.Table.from_batches(TreeReader(elsewhere, tree.layout).scan()), expected)
    tree.batches.append(late)
    assert_right(tree, dice)
    assert same(pa.Table.from_batches(before.scan()), expected)
    assert_aggregates(before.aggregate(None, None), expected, expected.schema.names)


def test_merging_is_all_or_nothing_whatever_happens() -> None:
    """Background commits come often here; none of them may show half of a merge."""
    dice = random.Random(12)
    medium = RecordingMedium()
    tree = grown(dice, 10, 2, 3)
    tree = Tree(tree.layout, Options(leaf_rows=3, run_rows=4, macro_size=8192, commit_every=1), medium)
    states: list[int] = []
    tables: dict[int, pa.Table] = {}
    number = 0
    for round in range(3):
        since = tree.writer.last[0] if tree.writer.last else 0
        tree.extend(rows(dice, 15, since=since, first=number))
        merged(tree, late_rows(tree, dice, 6, number + 500, 0, 10**6))
        tree.extend(rows(dice, 45, since=tree.writer.last[0] if tree.writer.last else 0, first=number + 800))
        if round % 2:
            tree.container.flush()
            medium.mark(tree.writer.rows)
        states.append(tree.writer.rows)
        tables[tree.writer.rows] = ordered(tree.table())
        number += 1000
    looked = 0
    for crash in [*kills(medium), *random_power_losses(medium, 1, 12)][::2]:
        left = crash.medium()
        promised = crash.marks[-1] if crash.marks else 0
        if not left.exists(NAME):
            assert not promised
            continue
        with Container.open(left, NAME, tree.options) as container:
            writer = TreeWriter.resume(container)
            container.flush()
            reader = TreeReader(container.snapshot(), tree.layout, writer.flank())
            assert check_tree(NAME, container.snapshot(), tree.layout, writer.flank()) == []
            assert reader.rows >= promised
            found = pa.Table.from_batches(reader.scan(), tree.layout.stored)
            numbers = found.column("_seq").to_pylist()
            assert len(set(numbers)) == len(numbers)
            if promised:
                assert set(tables[promised].column("_seq").to_pylist()) <= set(numbers)
            assert_aggregates(reader.entry(), found, found.schema.names)
            looked += 1
    assert looked > 20
