"""Memory of SQL is limited, and what does not fit is spilled into the store, where nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.model.errors import InputError, TidelogError

ROWS = 3_000_000

_BUILD = f"""
import sys, numpy as np, pyarrow as pa, tidelog
numbers = np.arange({ROWS})
with tidelog.open(sys.argv[1], maintenance="manual") as store:
    rows = {{"ts": numbers.view("datetime64[us]"), "key": numbers * 7919 % {ROWS}, "x": (numbers % 1000) / 8}}
    store.create_stream("s", time="ts", data=pa.table(rows))
"""
_PEAK = """
import sys, threading, time, tidelog
def private():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) // 1000
peak, over = 0, threading.Event()
def watch():
    global peak
    while not over.wait(0.005):
        peak = max(peak, private())
with tidelog.open(sys.argv[1], maintenance="manual", sql_memory="64MB") as store:
    store.sql("SELECT 1").fetchall()
    watching = threading.Thread(target=watch)
    watching.start()
    rows = total = 0
    for batch in store.sql(sys.argv[2]).reader():
        rows += batch.num_rows
    over.set()
    watching.join()
    print(rows, peak)
"""
_SPILL = """
import os, signal, sys, tidelog
with tidelog.open(sys.argv[1], maintenance="manual", sql_memory="32MB") as store:
    reader = store.sql("SELECT * FROM s ORDER BY key").reader()
    next(reader)
    print(sum(len(files) for _, _, files in os.walk(sys.argv[1] + "/tmp")), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory") / "a 'store'"
    assert run(_BUILD, str(place)).returncode == 0
    return place


@pytest.mark.skipif(sys.platform != "linux", reason="private memory is known on Linux alone")
@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT * FROM s", ROWS),
        ("SELECT key % 100 AS k, sum(x) FROM s GROUP BY k", 100),
        ("SELECT key, sum(x), count(*) FROM s GROUP BY key", ROWS),
        ("SELECT * FROM s ORDER BY key", ROWS),
    ],
)
def test_memory_is_bounded(place: Path, statement: str, rows: int) -> None:
    # The rows have 72 MB, groups of a key each 200 MB, with 80 MB of libraries; 64 MB are to be computed with.
    found = run(_PEAK, str(place), statement)
    assert found.returncode == 0, found.stderr
    came, peak = map(int, found.stdout.split())
    assert came == rows
    assert peak < 320
    assert not (place / "tmp").exists()


def test_what_a_crash_leaves_goes_when_the_store_is_opened_again(place: Path) -> None:
    found = run(_SPILL, str(place))
    assert found.returncode == -signal.SIGKILL
    assert int(found.stdout) >= 2  # the lock, and what was spilled
    assert any(path.stat().st_size > 1_000_000 for path in (place / "tmp").rglob("*"))
    with tidelog.open(place, read_only=True) as store:
        assert store.check() == []
        store.sql("SELECT 1").fetchall()
        assert (place / "tmp").exists()
    with tidelog.open(place, maintenance="manual") as store:
        assert not (place / "tmp").exists()
        assert store.sql("SELECT count(*) FROM s").fetchall() == [(ROWS,)]
        assert store.orphans() == []


def test_maintenance_removes_what_a_crash_leaves_while_others_spill(place: Path, tmp_path: Path) -> None:
    with tidelog.open(place, maintenance="manual") as store:
        store.sql("SELECT 1").fetchall()
        [own] = (path for path in (place / "tmp").iterdir() if path.is_dir())
        assert run(_SPILL, str(place)).returncode == -signal.SIGKILL
        left = [path for path in (place / "tmp").iterdir() if path.is_dir() and path != own]
        assert len(left) == 1
        assert store.sweep() == [f"tmp/{left[0].name}"]
        assert sorted((place / "tmp").iterdir()) == [own, own.with_name(f"{own.name}.lock")]
        store.backup(tmp_path / "copy")
        assert not (tmp_path / "copy" / "tmp").exists()
        tidelog.salvage(place, tmp_path / "salvaged")
        assert not (tmp_path / "salvaged" / "tmp").exists()
    assert not (place / "tmp").exists()


def test_nothing_is_written_to_a_store_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "system"
    system.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(system))
    tidelog.open(tmp_path / "store").close()
    with tidelog.open(tmp_path / "store", read_only=True) as store:
        store.sql("SELECT 1").fetchall()
        assert not (tmp_path / "store" / "tmp").exists()
        [own] = system.iterdir()
        assert own.name == f"tidelog-{os.getuid()}"
        assert own.stat().st_mode & 0o777 == 0o700
    assert list(system.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "file", "somebody else's"])
def test_what_has_the_place_of_a_temporary_directory_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    system = tmp_path / "system"
    system.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(system))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    tidelog.open(tmp_path / "store").close()
    if kind == "link":
        (tmp_path / "store" / "tmp").symlink_to(outside)
        (system / f"tidelog-{os.getuid()}").symlink_to(outside)
    elif kind == "file":
        (tmp_path / "store" / "tmp").write_text("x")
        (system / f"tidelog-{os.getuid()}").write_text("x")
    else:
        (tmp_path / "store" / "tmp").write_text("x")
        (system / f"tidelog-{os.getuid()}").mkdir(mode=0o777)
        (system / f"tidelog-{os.getuid()}").chmod(0o777)
    with tidelog.open(tmp_path / "store", maintenance="manual") as store:
        store.sweep()
        assert store.sql("SELECT 1").fetchall() == [(1,)]
        assert [path.name for path in outside.iterdir()] == ["precious"]
        assert len(list(system.iterdir())) == 2
    assert [path.name for path in system.iterdir()] == [f"tidelog-{os.getuid()}"]
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_forked_child_leaves_it_to_its_parent(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.sql("SELECT 1").fetchall()
        before = sorted((tmp_path / "tmp").iterdir())
        child = os.fork()
        if not child:
            store._sql._databases["UTC"]._closing()  # type: ignore[union-attr, misc]
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sorted((tmp_path / "tmp").iterdir()) == before
        assert store.sql("SELECT 2").fetchall() == [(2,)]


def test_what_cannot_be_spilled_says_what_to_do() -> None:
    with pytest.raises(TidelogError, match="give it more with sql_memory"):
        tidelog.sql("SELECT list(i) FROM range(10000000) t(i)", sql_memory="32MB").fetchall()
    assert tidelog.sql("SELECT len(list(i)) FROM range(1000000) t(i)", sql_memory="1GiB").fetchall() == [(1_000_000,)]


@pytest.mark.parametrize("given", ["1", 5, True, "x", "-5GB", "1e9GB", "99999999TB", "0.5MB", None.__class__, b"1GB"])
def test_what_is_no_size_is_refused(tmp_path: Path, given: object) -> None:
    with pytest.raises(InputError, match="such as '512MB'"):
        tidelog.open(tmp_path / "store", sql_memory=given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="such as '512MB'"):
        tidelog.sql("SELECT 1", sql_memory=given)  # type: ignore[arg-type]


def test_sizes_are_numbers_or_texts() -> None:
    for given, bytes_ in (
        ("64MB", "61.0 MiB"),
        ("64MiB", "64.0 MiB"),
        (64_000_000, "61.0 MiB"),
        ("0.25 gib", "256.0 MiB"),
    ):
        from tidelog.sql.database import Database, memory_limit

        database = Database("UTC", memory_limit(given))
        assert database.cursor().execute("SELECT current_setting('memory_limit')").fetchall() == [(bytes_,)]
        database.close()
    assert pa.table(tidelog.sql("SELECT 1 AS a", sql_memory="64MB")).to_pydict() == {"a": [1]}
