"""Stores that nobody has closed: when Python ends, when they are garbage, and in forked children."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tidelog.engine.store import Store

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.int64())])

OPENED = """
import os, sys
import pyarrow as pa
import tidelog
store = tidelog.open(sys.argv[1])
streams = [store.stream(name) for name in ("a", "b", "c")]
def fill():
    for number in range(10):
        streams[0].append({"ts": number, "x": number})
    times = pa.array(range(150_000))
    streams[1].append(pa.table({"ts": times, "x": times}))
"""


def left(path: Path, script: str) -> tuple[list[int], subprocess.CompletedProcess[str]]:
    """How many rows a script leaves, which ends without closing its store, and what it has said."""
    with Store.open(path, maintenance="manual") as store:
        for name in ("a", "b", "c"):
            store.create_stream(name, SCHEMA, "ts", exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPENED + script, str(path)], capture_output=True, text=True, timeout=240
    )
    with Store.open(path, maintenance="manual") as store:
        assert store.check() == []
        return [len(store.stream(name)) for name in ("a", "b", "c")], done


def test_what_was_appended_is_stored_when_python_ends(tmp_path: Path) -> None:
    rows, done = left(
        tmp_path,
        """
streams[2].append({"ts": list(range(100_000)), "x": list(range(100_000))})
fill()
""",
    )
    assert (rows, done.stderr, done.returncode) == ([10, 150_000, 100_000], "", 0)


def test_what_was_appended_is_stored_after_an_error(tmp_path: Path) -> None:
    rows, done = left(tmp_path, "fill()\nraise SystemExit(3)")
    assert (rows, done.stderr, done.returncode) == ([10, 150_000, 0], "", 3)


def test_a_forked_child_stores_nothing_of_its_parent(tmp_path: Path) -> None:
    rows, done = left(
        tmp_path,
        """
fill()
child = os.fork()
if not child:
    for stream in streams[:2]:
        try:
            stream.append({"ts": 1000, "x": 1000})
        except tidelog.model.errors.ClosedError as error:
            assert "forked" in str(error)
        else:
            os._exit(9)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
""",
    )
    assert (rows, done.stderr, done.returncode) == ([10, 150_000, 0], "", 0)


def test_a_store_that_is_garbage_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store.open(tmp_path, maintenance="manual")
    stream = store.create_stream("a", SCHEMA, "ts")
    stream.append({"ts": [1, 2], "x": [1, 2]})
    stream.flush()
    for number in range(3):
        stream.append({"ts": number, "x": number})
    held: list[object] = [store, stream]
    del store, stream

    def let_go() -> None:
        held.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"was not closed, .*: 3 rows that were appended since the last flush"):
        let_go()
    assert "3 rows" in caplog.text
    with Store.open(tmp_path, maintenance="manual") as store:
        store.stream("a").append({"ts": 9, "x": 9})
        assert len(store.stream("a")) == 3


def test_a_store_that_was_only_read_or_is_closed_tells_nothing(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    store = Store.open(tmp_path, maintenance="manual")
    store.create_stream("a", SCHEMA, "ts")
    assert len(store.stream("a")) == 0
    del store
    with Store.open(tmp_path, maintenance="manual") as store:
        store.stream("a").append({"ts": 9, "x": 9})
    del store
    gc.collect()
    # Garbage of other tests may tell of itself here: only what is said of this store counts.
    assert [str(said.message) for said in recwarn.list if str(tmp_path) in str(said.message)] == []
