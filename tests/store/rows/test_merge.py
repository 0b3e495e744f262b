"""Merging sorted runs of rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.store.rows import merge
from tidelog.store.rows.merge import chained, merged

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.string()), ("_seq", pa.int64())])
Row = tuple[int, int]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = [[time for time, _ in rows], [f"{time}/{seq}" for time, seq in rows], [seq for _, seq in rows]]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    found = []
    for batch in batches:
        assert batch.num_rows
        for row in batch.to_pylist():
            assert row["value"] == f"{row['ts']}/{row['_seq']}"
            found.append((row["ts"], row["_seq"]))
    return found


@st.composite
def runs(draw: st.DrawFn) -> list[list[pa.RecordBatch]]:
    """Rows with many equal times dealt out to runs, each sorted and cut into batches, some of them empty."""
    times = draw(st.lists(st.integers(0, draw(st.sampled_from([2, 10, 1000]))), max_size=60))
    rows = [(time, seq) for seq, time in enumerate(draw(st.permutations(times)))]
    count = draw(st.integers(1, 5))
    dealt: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        dealt[draw(st.integers(0, count - 1))].append(row)
    result = []
    for run in dealt:
        run.sort()
        cuts = sorted(draw(st.lists(st.integers(0, len(run)), max_size=4)))
        bounds = [0, *cuts, len(run)]
        result.append([batch_of(run[a:b]) for a, b in pairwise(bounds)])
    return result


@settings(max_examples=scaled(200))
@given(runs())
def test_merging_gives_every_row_once_in_order(given_runs: list[list[pa.RecordBatch]]) -> None:
    expected = sorted((r["ts"], r["_seq"]) for run in given_runs for batch in run for r in batch.to_pylist())
    found = rows_of(batch for batch in merged([iter(run) for run in given_runs], 0, 2) if batch.num_rows)
    assert found == expected


@settings(max_examples=scaled(200))
@given(runs(), st.sampled_from([1, 2, 5]), st.sampled_from([1, 2, 4]))
def test_few_rows_between_many_are_put_there_one_by_one(
    given_runs: list[list[pa.RecordBatch]], alone: int, few: int
) -> None:
    expected = sorted((r["ts"], r["_seq"]) for run in given_runs for batch in run for r in batch.to_pylist())
    with mock.patch.multiple(merge, _ALONE=alone, _FEW=few):
        found = rows_of(batch for batch in merged([iter(run) for run in given_runs], 0, 2) if batch.num_rows)
    assert found == expected


def test_long_stretches_without_other_rows_are_not_copied() -> None:
    many = batch_of([(2 * time, time) for time in range(50_000)])
    few = batch_of([(time, 100_000 + time) for time in (5, 6, 60_001)])
    found = list(merged([iter([many]), iter([few])], 0, 2))
    assert rows_of(iter(found)) == sorted(rows_of(iter([many, few])))
    own = {many.column(2).buffers()[1].address}
    shared = sum(batch.num_rows for batch in found if batch.column(2).buffers()[1].address in own)
    assert shared > 49_000


@settings(max_examples=scaled(100))
@given(runs())
def test_parts_are_chained_where_they_do_not_overlap(given_runs: list[list[pa.RecordBatch]]) -> None:
    expected = sorted((r["ts"], r["_seq"]) for run in given_runs for batch in run for r in batch.to_pylist())
    parts = []
    for run in given_runs:
        times = [r["ts"] for batch in run for r in batch.to_pylist()]
        if times:
            parts.append((times[0], times[-1], lambda run=run: iter(run)))
    assert rows_of(b for b in chained(parts, 0, 2) if b.num_rows) == expected


def test_batches_that_no_other_run_reaches_into_are_passed_on_as_they_are() -> None:
    one = [batch_of([(1, 0), (2, 1)]), batch_of([(9, 2)])]
    other = [batch_of([(4, 3), (5, 4)])]
    found = list(merged([iter(one), iter(other)], 0, 2))
    assert found[0] is one[0]
    assert rows_of(iter(found)) == [(1, 0), (2, 1), (4, 3), (5, 4), (9, 2)]


def test_abandoning_a_merge_closes_its_runs() -> None:
    closed = []

    def run(name: str) -> Iterator[pa.RecordBatch]:
        try:
            for time in range(100):
                yield batch_of([(time, time)])
        finally:
            closed.append(name)

    merging = merged([run("a"), run("b")], 0, 2)
    next(merging)
    merging.close()  # type: ignore[attr-defined]
    assert sorted(closed) == ["a", "b"]


def test_runs_that_interleave_row_by_row_are_merged_in_large_steps() -> None:
    run = [batch_of([(time, time) for time in range(first, 3000, 3)]) for first in range(3)]
    found = list(merged([iter([batch]) for batch in run], 0, 2))
    assert rows_of(iter(found)) == [(time, time) for time in range(3000)]
    assert len(found) < 6


def test_a_long_stretch_of_one_run_is_passed_on_as_it_is() -> None:
    long, other = batch_of([(time, time) for time in range(5000)]), batch_of([(4000, 9000), (6000, 9001)])
    found = list(merged([iter([long]), iter([other])], 0, 2))
    assert found[0].column(0).buffers()[1].address == long.column(0).buffers()[1].address
    assert found[0].num_rows == 4000
