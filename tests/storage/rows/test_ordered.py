"""Rows in another order, against Arrow's taking."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.storage import Container, Options
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import OrderedRows, OrderedRuns, gathered, gathered_by_threads, picked

FIRST = 1 << 40


def table(total: int, seed: int) -> pa.RecordBatch:
    """A column of every kind, and the number of each row."""
    numbers = np.random.default_rng(seed).integers(-100, 100, total)
    nullable = [None if number % 3 == 0 else int(number) for number in numbers]
    return pa.record_batch(
        {
            "i8": pa.array(numbers, pa.int8()),
            "u16": pa.array(abs(numbers), pa.uint16()),
            "f32": pa.array(numbers, pa.float32()),
            "f64": pa.array(numbers / 7),
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "ts": pa.array(numbers, pa.int64()).cast(pa.timestamp("us")),
            "null": pa.array(nullable, pa.int64()),
            "flag": pa.array(numbers > 0),
            "text": pa.array([None if number is None else f"text {number}" for number in nullable], pa.string()),
            "money": pa.array(numbers, pa.int64()).cast(pa.decimal128(30, 2)),
            "number": pa.array(np.arange(FIRST, FIRST + total)),
        }
    )


def parts_of(
    whole: pa.RecordBatch, sizes: list[int], is_numbered: Callable[[int], bool] = lambda index: index % 2 == 1
) -> list[Rows]:
    """The rows in parts, some of which, every other one, have their numbers not in memory."""
    cuts = np.cumsum([0, *sizes]).tolist()
    slices = [whole.slice(first, last - first) for first, last in pairwise(cuts)]
    unnumbered = whole.schema.names[:-1]
    return [
        NumberedRows(part.select(unnumbered), FIRST + first) if is_numbered(index) else part
        for index, (part, first) in enumerate(zip(slices, cuts, strict=False))
    ]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 80), st.sampled_from([None, 0, 1]))
def test_every_kind_of_column_is_gathered(sizes: list[int], wanted: int, numbered: int | None) -> None:
    whole = table(sum(sizes), sum(sizes))
    order = np.random.default_rng(wanted).permutation(sum(sizes))[:wanted]
    parts = parts_of(whole, sizes) if numbered is None else parts_of(whole, sizes, is_numbered=lambda _: numbered == 1)
    assert gathered(parts, order, whole.schema).equals(whole.take(pa.array(order)))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 30), st.none() | st.integers(0, 30))
def test_ordered_rows_are_cut_like_a_batch(sizes: list[int], start: int, length: int | None) -> None:
    whole = table(sum(sizes), 1)
    order = np.random.default_rng(1).permutation(sum(sizes))
    times = np.arange(len(order)) * 10
    rows = OrderedRows(whole.schema, tuple(parts_of(whole, sizes)), order, times).slice(start, length)
    expected = whole.take(pa.array(order)).slice(start, length)
    assert rows.num_rows == expected.num_rows
    assert rows.gathered().equals(expected)
    assert rows.times.tolist() == times[start : None if length is None else start + length].tolist()
    for row in range(-rows.num_rows, rows.num_rows):
        assert rows.number(row) == expected.column("number")[row].as_py()


STRETCHES = st.lists(st.tuples(st.integers(0, 399), st.sampled_from([1, 2, 31, 32, 33, 100])), min_size=1, max_size=9)


@settings(max_examples=scaled(60))
@given(st.lists(st.integers(0, 200), min_size=1, max_size=3), STRETCHES)
def test_long_stretches_are_gathered(sizes: list[int], stretches: list[tuple[int, int]]) -> None:
    whole = table(sum(sizes), 2)
    places = np.concatenate([np.arange(first, first + length) for first, length in stretches])
    places = places[places < sum(sizes)]
    parts, expected = parts_of(whole, sizes), whole.take(pa.array(places, pa.int64()))
    assert gathered(parts, places, whole.schema).equals(expected)
    assert gathered_by_threads(parts, places, whole.schema).equals(expected)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.integers(0, 100))
def test_rows_of_several_batches_are_picked(sizes: list[int], seed: int) -> None:
    whole, dice = table(sum(sizes), 3), np.random.default_rng(seed)
    chosen = [np.flatnonzero(dice.random(size) < 0.7) for size in sizes]
    firsts = np.cumsum(sizes) - sizes
    places = np.concatenate([places + first for places, first in zip(chosen, firsts, strict=True)])
    expected = whole.take(pa.array(places, pa.int64()))
    parts = parts_of(whole, sizes)
    assert picked(list(zip(parts, chosen, strict=True)), whole.schema).equals(expected)
    runs = OrderedRuns(tuple(OrderedRows(whole.schema, (p,), c, c) for p, c in zip(parts, chosen, strict=True)))
    assert runs.num_rows == len(places)
    assert pa.RecordBatch.from_arrays(list(runs.columns()), schema=whole.schema).equals(expected)


@settings(max_examples=scaled(40))
@given(
    st.lists(
        st.sampled_from(["ordered", "ordered", "ordered", "batch", "leaf", "node", "later", "flush"]), max_size=20
    ),
    st.integers(1, 60),
    st.sampled_from([1, 7, 1000]),
    st.none() | st.sets(st.integers(1, 59), max_size=9),
    st.none() | st.integers(1, 9),
)
def test_batches_that_are_encoded_together_are_stored_like_others(
    steps: list[str], rows: int, run_rows: int, breaks: set[int] | None, most: int | None
) -> None:
    whole = table(rows, 4).drop_columns(["text", "money"])
    order = np.random.default_rng(rows).permutation(rows)
    options = Options(leaf_rows=7, run_rows=run_rows)
    expected: list[pa.RecordBatch | bytes] = []
    with Container.create(MemoryMedium(), "c", whole.schema, options) as container:
        for number, step in enumerate(steps):
            if step in ("ordered", "batch"):
                given = OrderedRows(whole.schema, (whole,), order, order) if step == "ordered" else whole
                taken = whole.take(pa.array(order)) if step == "ordered" else whole
                ends = sorted({0, rows} | {place for place in breaks or () if place < rows})
                leaves = [taken.slice(at, min(7, b - at)) for a, b in pairwise(ends) for at in range(a, b, 7)][:most]
                places = None if breaks is None else np.array(ends[1:-1], np.int64)
                assert container.extend_up_to(given, most, places) == (
                    range(len(expected), len(expected) + len(leaves)),
                    sum(leaf.num_rows for leaf in leaves),
                )
                expected += leaves
            elif step == "flush":
                container.flush()
            else:
                content = whole.slice(0, 5) if step == "leaf" else b"node %d" % number
                id = container.append_later(lambda node=content: node) if step == "later" else container.append(content)
                assert id == len(expected)
                expected.append(content)
        container.flush()
        for id, content in enumerate(expected):
            if isinstance(content, bytes):
                assert container.read_node(id) == content
            else:
                assert container.view().read(id).equals(content)
        assert container.snapshot().check() == []
