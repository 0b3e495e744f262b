"""File descriptors: bounded at any time, and none after a store is closed, whether garbage is collected or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PREPARED = """
import gc, os, resource, sys
import pyarrow as pa
import tidelog
gc.disable()
LIMIT = 160
resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
place, days = sys.argv[1], int(sys.argv[2])
DAY = 86_400_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64())])

def held():
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return [each for each in found if each.startswith(place)]

def rows(first, count, each=20):
    at = [day * DAY + second for day in range(first, first + count) for second in range(each)]
    return pa.table({"ts": pa.array(at, pa.timestamp("us")), "x": list(range(len(at)))})

def create(store):
    return store.create_stream("s", SCHEMA, "ts", split="1d", leaf_rows=8, fanout=4)

def closed(store):
    store.close()
    assert held() == [], held()
"""


def run(script: str, *arguments: object) -> None:
    """Run a script in a process of its own, whose limit it is."""
    command = [sys.executable, "-c", PREPARED + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_an_append_over_more_splits_than_there_are_descriptors(tmp_path: Path) -> None:
    script = """
with tidelog.open(place, maintenance="manual") as store:
    stream = create(store)
    stream.append(rows(0, days))
    assert len(held()) < LIMIT * 3 // 4, len(held())
    stream.flush()
    assert len(held()) < 10, held()
    assert stream.aggregate(None, None, ["count(*)", "sum(x)"]) == {
        "count(*)": 20 * days, "sum(x)": sum(range(20 * days))
    }
    assert stream.scan().read_all().num_rows == 20 * days
    assert len(held()) < LIMIT * 3 // 4, len(held())
    assert sum(len(stream.scan(day * DAY, day * DAY + 15).read_all()) for day in range(days)) == 15 * days
    assert len(held()) < LIMIT * 3 // 4, len(held())
    kept = stream
closed(store)
"""
    run(script, tmp_path / "store", "250")


def test_what_keeps_a_store_in_order(tmp_path: Path) -> None:
    script = """
store = tidelog.open(place, maintenance="manual")
stream = create(store)
stream.append(rows(0, days))
stream.append(rows(0, days, 3))
stream.flush()
stream.append({"ts": [day * DAY + 7 for day in range(days)], "x": [1] * days})
stream.compact()
store.maintain()
assert store.check() == []
stream.delete_before(10 * DAY)
store.maintain()
stream.evolve(add=[pa.field("y", pa.float64())])
stream.append({"ts": [days * DAY], "x": [1], "y": [0.5]})
store.backup(place + "-copy")
assert len(stream) == 24 * (days - 10) + 1, len(stream)
closed(store)
"""
    run(script, tmp_path / "store", "60")


def test_readers_and_scans_that_are_under_way(tmp_path: Path) -> None:
    script = """
with tidelog.open(place, maintenance="manual") as store:
    create(store).append(rows(0, days))
assert held() == [], held()
store = tidelog.open(place, read_only=True)
stream = store.stream("s")
assert stream.aggregate(3 * DAY, None, ["sum(x)"])["sum(x)"] > 0
assert stream.scan(where="x % 7 = 1").read_all().num_rows > 0
first, second = stream.scan(), stream.scan()
got = next(first).num_rows
next(second)
store.close()
assert len(held()) < 40, held()  # of two scans, a few splits each
assert got + sum(batch.num_rows for batch in first) == 20 * days  # goes on to its end
del first, second
assert held() == [], held()
"""
    run(script, tmp_path / "store", "100")


def test_a_stream_that_is_written_and_read_at_once(tmp_path: Path) -> None:
    script = """
store = tidelog.open(place, maintenance="auto")
stream = create(store)
other = tidelog.open(place, read_only=True)
for start in range(0, days, 10):
    stream.append(rows(start, 10))
    if start % 50 == 0:
        stream.flush()
        assert len(other.stream("s")) == len(stream) == 20 * (start + 10)
        view = stream.scan(start * DAY)
        assert sum(batch.num_rows for batch in view) == 200
    assert len(held()) < LIMIT * 3 // 4, len(held())
del view
other.close()
closed(store)
"""
    run(script, tmp_path / "store", "60")
