"""Statistics of splits: exact for small ones, estimates with a stated sample for others."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.ledger import SPLITS
from tidelog.store.manifest.split_info import SplitInfo

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("x", pa.float64()), ("n", pa.int32()), ("u", pa.uint64()), ("text", pa.string())]
)


def correlation(values: list[Any]) -> float | None:
    """As spec/event-store.md 5.5 defines it."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if len(known) < 2:
        return None
    if max(known) == min(known):
        return 1.0
    distance = sum(abs(after - before) for before, after in pairwise(known)) / (len(known) - 1)
    return 1 - distance / (max(known) - min(known))


def closed(rows: list[dict[str, Any]], **options: Any) -> tuple[Stream, SplitInfo]:
    """A stream with one closed split of these rows."""
    stream = Store(MemoryMedium()).create_stream("s", SCHEMA, "ts", **options)
    writer = BulkWriter(writer_of(stream).context)
    writer.append(pa.RecordBatch.from_pylist(rows, schema=stream.schema.arrow))
    commit_bulk(writer_of(stream).manifests, writer.finish())
    (info,) = stream.snapshot().manifest.splits.values()
    return stream, info


@pytest.mark.parametrize("seed", range(4))
def test_small_splits_are_exact(seed: int) -> None:
    dice = random.Random(seed)
    rows = [
        {
            "ts": i,
            "x": dice.choice([None, math.nan, dice.gauss(0, 3)]),
            "n": dice.choice([None, dice.randrange(-(2**31), 2**31)]),
            "u": dice.randrange(2**60),
            "text": "x",
        }
        for i in range(dice.choice([2, 50, 1000]))
    ]
    stream, info = closed(rows, leaf_rows=128, fanout=3)
    assert info.sampled == len(rows)
    for field, found in zip(stream.schema, info.correlation, strict=True):
        wanted = None if field.name == "text" else correlation([row[field.name] for row in rows])
        assert found == (None if wanted is None else pytest.approx(wanted, rel=1e-9))
    assert SPLITS.from_dict(SPLITS.to_dict([info])) == (info,)


def test_corner_cases() -> None:
    _, info = closed([{"ts": 5, "x": 1.0}])
    assert info.correlation == (None,) * 5
    _, info = closed([{"ts": 5, "x": 1.0, "n": 3}, {"ts": 5, "x": math.inf, "n": 3}, {"ts": 5, "n": 3}])
    assert info.correlation == (1.0, None, 1.0, None, None)
    _, info = closed([{"ts": i, "n": i} for i in range(5)], aggregates=["x"])
    assert info.correlation[2] is None, "without bounds there is no scale"


def test_large_splits_are_estimated() -> None:
    dice = random.Random(1)
    walk, rows = 0.0, []
    for i in range(60_000):
        walk += dice.gauss(0, 1)
        rows.append({"ts": i, "x": walk, "n": dice.randrange(10**6), "u": i % 2})
    stream, info = closed(rows, leaf_rows=1500)
    assert 16_000 < info.sampled < 17_000
    for name in ("ts", "x", "n", "u"):
        found = info.correlation[stream.schema.index(name)]
        assert found == pytest.approx(correlation([row[name] for row in rows]), abs=0.01)


def test_of_all_kinds_of_splits_and_after_renaming() -> None:
    store = Store(MemoryMedium())
    stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3, split=100, late_rows=10, late_merge="never")
    stream.append([{"ts": i, "n": i, "text": "a"} for i in range(450)])
    stream.flush()
    stream.append([{"ts": i, "n": i} for i in range(20)])
    stream.snapshot()  # for which all rows are sorted in
    stream.append({"ts": 450, "n": 450})
    stream.flush()
    assert {info.kind for info in stream.snapshot().manifest.splits.values()} == {"regular", "late"}
    stream.evolve(rename={"n": "m"}, widen={"n": pa.float64()})
    told = stream.stats()["statistics"]
    assert {row["column"] for row in told} == {"ts", "x", "m", "u", "text"}
    assert len({row["split"] for row in told}) == len(stream.snapshot().manifest.splits)
    for row in told:
        if row["column"] == "m":
            assert row["correlation"] == pytest.approx(1 - 1 / (row["max"] - row["min"]))
    text = next(row for row in told if row["column"] == "text")
    assert (text["nulls"], text["min"], text["max"], text["correlation"]) == (0, "a", "a", None)
    stream.compact()
    assert all(info.correlation for info in stream.snapshot().manifest.splits.values())
    store.close()
