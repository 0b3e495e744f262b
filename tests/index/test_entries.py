"""Merged entries against the arithmetic of Python on all values at once."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from support.storage.trees import SCHEMA, assert_aggregates, rows
from tidelog.index import Aggregate, Layout
from tidelog.index.entries import Entries, empty, entry_dtype, from_batch, merge
from tidelog.index.ranges import merge_all
from tidelog.model import Schema
from tidelog.model.errors import InputError, NotFoundError
from tidelog.storage.summary import HAS_BOUNDS, HAS_SUM, INTEGER_SUM

LAYOUT = Layout(SCHEMA)


def entries_of(layout: Layout, batch: pa.RecordBatch, cuts: list[int]) -> Entries:
    return from_batch(layout, batch, np.array(cuts, np.int64), layout.columns)


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 90), max_size=8))
@settings(max_examples=scaled(100))
def test_merging_runs_says_the_same_as_all_rows(seed: int, cuts: list[int]) -> None:
    batch = rows(random.Random(seed), 90)
    entries = entries_of(LAYOUT, batch, [0, *sorted(cuts), 90])
    merged = Aggregate(LAYOUT, entry=merge(LAYOUT, entries))
    table = pa.Table.from_batches([batch])
    assert_aggregates(merged, table, table.schema.names)


@given(st.integers(0, 1 << 32), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=scaled(30))
def test_merging_is_associative(seed: int, first: int, second: int, third: int) -> None:
    dice = random.Random(seed)
    entries = entries_of(LAYOUT, rows(dice, 90), [0, *sorted([first, first + second, first + second + third]), 90])
    left = merge(LAYOUT, np.concatenate([merge(LAYOUT, entries[:2]), entries[2:]]))
    right = merge(LAYOUT, np.concatenate([entries[:2], merge(LAYOUT, entries[2:])]))
    for name in LAYOUT.stored.names:
        one, other = (Aggregate(LAYOUT, entry=merged)[name] for merged in (left, right))
        assert (one.nulls, one.nans) == (other.nulls, other.nans), name
        fields = ["flags", "min", "max"]
        if not pa.types.is_floating(LAYOUT.stored.field(name).type):  # their sums differ in the last bits
            fields.append("sum")
        for each in fields:
            assert one.fields[each] == other.fields[each], (name, each)


def test_nothing_is_neutral() -> None:
    batch = rows(random.Random(1), 40)
    entry = entries_of(LAYOUT, batch, [0, 40])
    nothing = empty(LAYOUT, 1)
    for parts in ([nothing, entry], [entry, nothing], [nothing, entry, nothing]):
        merged = merge(LAYOUT, np.concatenate(parts))
        assert merged.tobytes() == merge(LAYOUT, entry).tobytes()
    assert merge(LAYOUT, empty(LAYOUT, 0))["rows"][0] == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_does_not_fit_is_dropped_and_stays_so(sign: int) -> None:
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("wide", pa.decimal128(38, 0))]), "ts"))
    entry = empty(layout, 1)
    entry["rows"] = 1
    record = entry["columns"][0, 1]
    record["flags"] = HAS_SUM | INTEGER_SUM
    largest = (1 << 127) - 1
    for total, fits in ((largest // 2, True), (largest // 2 + 1, False)):
        value = sign * total % (1 << 128)
        record["sum"] = value % (1 << 64), value >> 64
        merged = Aggregate(layout, entry=merge(layout, np.concatenate([entry, entry])))
        if sign == -1 and not fits:  # two's complement reaches one further down
            assert merged["wide"].knows_sum
            merged = Aggregate(layout, entry=merge(layout, np.concatenate([entry, entry, entry])))
        assert merged["wide"].knows_sum == fits
        if fits:
            assert int(merged["wide"].total()) == sign * 2 * total
        else:
            assert merged["wide"].total() is None
            again = Aggregate(layout, entry=merge(layout, np.concatenate([merged.entry, merged.entry])))
            assert not again["wide"].knows_sum


def test_bounds_that_one_part_does_not_know_are_dropped() -> None:
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("v", pa.int64())]), "ts"))
    entries = empty(layout, 3)
    entries["rows"] = 2
    entries["columns"]["flags"] = HAS_BOUNDS
    entries["columns"]["flags"][1, 1] = 0
    merged = Aggregate(layout, entry=merge(layout, entries))
    assert not merged["v"].knows_bounds
    assert merged["v"].minimum() is None
    assert merged["ts"].knows_bounds
    entries["columns"]["nulls"][1, 1] = 2  # no values: nothing to know
    assert Aggregate(layout, entry=merge(layout, entries))["v"].knows_bounds


def test_columns_without_aggregates_keep_their_counts() -> None:
    layout = Layout(SCHEMA, aggregates=["price"])
    batch = rows(random.Random(5), 80)
    merged = Aggregate(layout, entry=merge(layout, entries_of(layout, batch, [0, 20, 80])))
    table = pa.Table.from_batches([batch])
    assert_aggregates(merged, table, ["price", "ts", "_seq"])
    assert merged["text"].nulls == table.column("text").null_count
    assert merged["count"].values
    assert not merged["count"].knows_sum
    assert not merged["count"].knows_bounds
    assert (merged["count"].minimum(), merged["count"].total()) == (None, None)


@given(st.integers(0, 1 << 32), st.integers(1, 300), st.integers(1, 60))
@settings(max_examples=scaled(20))
def test_many_ranges_are_merged_as_each_alone(seed: int, atoms: int, ranges: int) -> None:
    """Long and many enough for coarser tables, too."""
    dice = random.Random(seed)
    layout = Layout(Schema(pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("w", pa.int64())]), "ts"))
    values = [dice.randrange(-(1 << 62), 1 << 62) for _ in range(atoms)]
    table = pa.record_batch([range(atoms), values, values, range(atoms)], schema=layout.stored)
    entries = entries_of(layout, table, list(range(atoms + 1)))
    firsts = np.array([dice.randint(0, atoms) for _ in range(ranges)], np.int64)
    lasts = np.array([dice.randint(first, atoms) for first in firsts.tolist()], np.int64)
    out = empty(layout, ranges)
    merge_all(layout, np.array([1], np.int64), entries, firsts, lasts, out)
    for i in range(ranges):
        chosen = values[firsts[i] : lasts[i]]
        found = Aggregate(layout, np.array([1], np.int64), out[i : i + 1])
        assert found.rows == len(chosen)
        assert found["v"].total() == (sum(chosen) if chosen else None)
        assert found["v"].minimum() == min(chosen, default=None)
        assert found["v"].maximum() == max(chosen, default=None)
    assert not out["columns"]["flags"][:, 2].any()


def test_an_aggregate_of_a_batch_takes_in_others() -> None:
    batch = rows(random.Random(3), 60)
    table = pa.Table.from_batches([batch])
    one = Aggregate.of(LAYOUT, batch.slice(0, 25), LAYOUT.indexes(["price", "text"]))
    one.merge(Aggregate.of(LAYOUT, batch.slice(25)))
    assert_aggregates(one, table, ["price", "text"])
    with pytest.raises(NotFoundError, match="'count' was not among those aggregated"):
        one["count"]
    with pytest.raises(InputError, match="fewer columns"):
        Aggregate.of(LAYOUT, batch).merge(one)
    other = Layout(Schema(pa.schema([("ts", pa.int64())]), "ts"))
    with pytest.raises(InputError, match="two schemas"):
        one.merge(Aggregate(other))


def test_entries_have_the_size_the_document_gives() -> None:
    assert [entry_dtype(columns).itemsize for columns in (1, 3)] == [16 + 56, 16 + 3 * 56]
