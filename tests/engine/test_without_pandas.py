"""Nanoseconds work without pandas, which PyArrow asks for as soon as one of them is to become a value of Python's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import datetime, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("there is no pandas", name="pandas")

sys.meta_path.insert(0, Refused())
import numpy as np
import pyarrow as pa
import tidelog

zone = None if sys.argv[2] == "none" else sys.argv[2]
ns = pa.timestamp("ns", zone)
FIRST = 1_700_000_000_000_000_001  # 2023-11-14T22:13:20.000000001
ticks = [FIRST + each // 100 for each in range(20_000)]
suffix = "" if zone is None else "Z"
literal = ("TIMESTAMP_NS '2023-11-14 22:13:20.000000001'" if zone is None
           else "CAST('2023-11-14 22:13:20.000000001Z' AS TIMESTAMPTZ_NS)")
with tidelog.open(sys.argv[1]) as store:
    stream = store.create_stream("s", pa.schema([("ts", ns), ("at", ns), ("x", pa.int64())]), "ts")
    columns = {"ts": pa.array(ticks, ns), "at": pa.array(ticks, ns), "x": list(range(len(ticks)))}
    stream.append(pa.table(columns))
    for value in (
        "2024-01-01T00:00:00.000000001" + suffix,
        pa.scalar(1_704_067_200_000_000_002, ns),
        datetime.datetime(2024, 1, 2, tzinfo=None if zone is None else datetime.timezone.utc),
        *([np.datetime64("2024-01-03T00:00:00.000000003")] if zone is None else []),
    ):
        stream.append({"ts": value, "at": value, "x": -1})
    stream.flush()
    late = len(stream) - len(ticks)

    def ns_of(value):
        assert isinstance(value, np.datetime64 | datetime.datetime), type(value)
        if isinstance(value, datetime.datetime):
            value = np.datetime64(value.replace(tzinfo=None))
        return int(value.astype("datetime64[ns]").astype(np.int64))

    told = stream.aggregate(None, None, ["min(ts)", "min(at)", "first(at)", "max(at)"])
    assert [ns_of(told[name]) for name in ("min(ts)", "min(at)", "first(at)")] == [FIRST] * 3, told
    for where, count in (
        (f"at = {literal}", 100),
        (f"at IN ({literal}, {literal}, {literal}, at) AND x >= 0", len(ticks)),
        (f"at BETWEEN {literal} AND {literal}", 100),
        (f"CASE WHEN x >= 0 THEN {literal} ELSE at END = {literal}", len(ticks)),
        (f"coalesce(at, {literal}) = {literal}", 100),
        (f"nullif(at, {literal}) IS NULL", 100),
        (f"at > '2023-11-14 22:13:20.000000001{suffix}'", len(stream) - 100),
    ):
        assert stream.aggregate(None, None, ["count(*)"], where=where) == {"count(*)": count}, where
        assert stream.scan(where=where).read_all().num_rows == count, where
        if count:
            found = stream.aggregate(None, None, ["min(at)", "last(ts)"], where=where)
            assert ns_of(found["min(at)"]) >= FIRST
    assert stream.scan(pa.scalar(FIRST + 1, ns), None).read_all().num_rows == len(stream) - 100
    assert stream.rank(pa.scalar(FIRST + 1, ns)) == 100
    parts = stream.aggregate_all([(None, pa.scalar(FIRST + 1, ns)), (pa.scalar(FIRST + 1, ns), None)], ["max(at)"])
    assert ns_of(parts[0]["max(at)"]) == FIRST
    assert stream.nth(0) is not None
    stats = stream.stats()
    assert str(stats["first"]).startswith("2023-11-14"), stats["first"]
    stream.delete_before(pa.scalar(FIRST + 1, ns))
    assert len(stream) == len(ticks) - 100 + late
    assert store.check() == []
assert "pandas" not in sys.modules
from tidelog.cli import main
for command in (
    ["aggregate", "min(ts)", "max(at)"], ["aggregate", "min(ts)", "--format", "json"], ["stats", "--columns"],
    ["scan", "--limit", "3"], ["scan", "--limit", "3", "--format", "csv"], ["scan", "--limit", "3", "--format", "json"],
):
    assert main([*command, "-s", sys.argv[1], "-n", "s"]) == 0, command
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize("zone", ["none", "UTC"])
def test_nanoseconds(tmp_path: Path, zone: str) -> None:
    command = [sys.executable, "-c", SCRIPT, tmp_path / "store", zone]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
