"""An input that is behind does not read, or compute, what the others have told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.merging import Flow, Properties, Scan, Source
from tidelog.operators.base import Operator, Shape
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.ports import Input
from tidelog.operators.rowwise import Filter
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows

ROWS = 60_000
SCHEMA = pa.schema([("ts", pa.int64()), ("sensor", pa.string()), ("value", pa.int64())])
SHAPE = Shape(SCHEMA, "ts")


def table() -> pa.Table:
    times = np.arange(ROWS)
    return pa.table([times, [f"s{each % 7}" for each in times], times * 3], schema=SCHEMA)


def windows() -> Operator:
    return TimeWindows(SHAPE, FixedFrames(100, 50), {"count": "count(*)", "total": "sum(value)"}, ["sensor"])


def test_a_scan_of_a_store_skips_blocks(tmp_path: Path) -> None:
    """The slow copy, a stored stream, is read where the fast one has not been."""
    whole = table()
    with tidelog.open(tmp_path / "store") as store:
        stream = store.create_stream("copy", tidelog.Schema(SCHEMA, time="ts"))
        stream.append(whole)
        stream.flush()
        scan = Scan(lambda start: stream.scan(start), "ts")
        fast = Source(whole.slice(0, 50_000), ends="leaves")
        inputs = {"fast": fast, "stored": Source(scan, schema=SCHEMA)}
        merged = tidelog.merge(inputs, time="ts", key=True, order="rising")
        assert merged.read_all().equals(whole)
    assert 10_000 <= scan.rows < 12_000
    assert merged.stats().rows == 50_000 + scan.rows


@pytest.mark.parametrize("name", ["filter", "windows"])
def test_a_plan_that_is_behind_skips_what_is_settled(name: str) -> None:
    """Two plans of one query, one of which has nearly all of it at once: the other one's source is hardly read."""
    whole, read = table(), []

    def make() -> Operator:
        return Filter(SHAPE, "value % 2 = 0") if name == "filter" else windows()

    def opened(start: int | None) -> Iterable[pa.RecordBatch]:
        own = whole.slice(start or 0)
        for first in range(0, own.num_rows, 1000):
            read.append(min(1000, own.num_rows - first))
            yield own.slice(first, 1000).combine_chunks().to_batches()[0]

    expected = pa.Table.from_batches(list(Flow(make(), [whole.to_batches()])))
    quick = expected.slice(0, int(expected.num_rows * 0.9))
    operator = make()
    found = tidelog.merge(
        {"quick": Source(quick, ends="leaves"), "slow": Flow(operator, [Scan(opened, "ts")])},
        time=operator.output.time,
        key=["sensor"],
        order="rising",
    )
    assert found.read_all().equals(expected)
    assert sum(read) < 0.3 * ROWS
    assert found.properties == Properties(order=found.properties.order, inserts_only=True, key=("sensor",))


def test_horizons_of_algorithms() -> None:
    """For inserts the newest start, in order, or the stable; where events are revised, ends before the stable."""
    batch = pa.RecordBatch.from_pylist(
        [{"ts": 5, "sensor": "a", "value": 1}, {"ts": 9, "sensor": "a", "value": 1}], SCHEMA
    )
    for algorithm, expected in (("R2", 9), ("R2d", 6), ("R3", 5)):
        delay = None if algorithm == "R2" else 3
        merge = MergeOperator([Input("a", SHAPE, delay=delay), Input("b", SHAPE)], algorithm)
        assert merge.horizon("b") == -(2**63)
        merge.push(0, batch)
        assert merge.horizon("b") == expected
    checked = MergeOperator([Input("a", SHAPE, delay=0), Input("b", SHAPE)], "R2", check="full")
    checked.push(0, batch)
    assert checked.horizon("b") == -(2**63)
