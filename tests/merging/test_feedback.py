"""An input that is behind does not read, or compute, what the others have told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.merging import Flow, Properties, Scan, Source, stored
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


@pytest.mark.parametrize("partition", [(), ("sensor",)])
@pytest.mark.parametrize("name", ["situations", "row pattern"])
def test_a_stored_stream_gives_the_last_rows_before_the_horizon(
    name: str, partition: tuple[str, ...], tmp_path: Path
) -> None:
    """Patterns that look back at old rows do not have the others read, and tell what they would have told."""
    with tidelog.open(tmp_path / "store") as store:
        stream = store.create_stream("copy", tidelog.Schema(SCHEMA, time="ts"))
        stream.append(table())
        stream.flush()
        by = f"PARTITION BY {partition[0]}" if partition else ""
        text = (
            f"""SELECT * FROM copy SITUATIONS ({by} DEFINE A AS value % 100 < 40, B AS value % 70 < 30
                PATTERN A overlaps B WITHIN 50)"""
            if name == "situations"
            else f"""SELECT * FROM copy MATCH_RECOGNIZE ({by} ORDER BY ts
                MEASURES first(a.ts) AS first, prev(a.value) AS before ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW
                PATTERN (a b) WITHIN 50 DEFINE a AS value % 5 = 0 AND prev(value) % 2 = 0, b AS value % 2 = 0)"""
        )
        make = store._opened_sql().continuous(text, None).make
        (shape,) = make().inputs
        names = [each for each in shape.schema.names if each != "_seq"]

        def told(horizon: int | None) -> tuple[list[dict[str, Any]], int]:
            source, operator = stored(stream, names, seq=shape.has_numbers), make()
            flow = Flow(operator, [source])
            if horizon is not None:
                flow.skip(horizon)
            found = pa.Table.from_batches(list(flow), flow.schema).to_pylist()
            return [row for row in found if row[operator.output.time] >= 50_000], source.rows

        whole, every = told(None)
        found, read = told(50_000)
    assert found == whole
    assert len(found) > 10
    assert every == ROWS
    assert 10_000 < read < 10_000 + 60 + 7
