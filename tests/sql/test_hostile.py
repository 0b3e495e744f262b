"""Statements that reach for more than streams and tables: each is refused, and leaves nothing behind.

Files, the network, extensions, settings, the catalogue of DuckDB, the process: by name, nested, disguised, or by texts
that would only keep the parser busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.media.descriptors import open_below
from support.queries.hostile import STATEMENTS, State
from tidelog.engine.store import Store
from tidelog.model.errors import TidelogError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("hostile") / "store"
    with tidelog.open(root, maintenance="manual") as opened:
        opened.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "n": [1]}).flush()
        opened.sql("SELECT 1").fetchall()
        yield opened


def test_there_are_many() -> None:
    assert len(set(STATEMENTS)) == len(STATEMENTS) >= 120


@pytest.mark.parametrize("number", range(len(STATEMENTS)), ids=lambda number: f"{number} {STATEMENTS[number][:40]!a}")
def test_refused_and_nothing_left_behind(store: Store, number: int) -> None:
    root = Path(str(store._medium))
    out = root.parent / "out"
    text = STATEMENTS[number].replace("{out}", str(out))
    before = State(root)
    with pytest.raises(TidelogError):
        store.sql(text).fetchall()
    assert State(root).__dict__ == before.__dict__
    assert not out.exists()
    assert store.streams() == ["s"]


def test_refused_without_a_store() -> None:
    for text in STATEMENTS:
        with pytest.raises(TidelogError):
            tidelog.sql(text).fetchall()


def test_values_of_parameters_are_values() -> None:
    for value in ("'; COPY s TO 'x'; --", "getenv('HOME')", "\\'", "a\nb", "$$", "--", "/*", "a\0b", "\0"):
        assert tidelog.sql("SELECT ?", [value]).fetchall() == [(value,)]
    assert tidelog.sql("SELECT $a", {"a": "x' OR '1' = '1"}).fetchall() == [("x' OR '1' = '1",)]
    with pytest.raises(TidelogError):
        tidelog.sql("SELECT ?", ["\ud800"]).fetchall()


def test_names_of_columns_and_tables_are_names(store: Store) -> None:
    table = pa.table({"user": [1], "getenv('HOME')": [2], 'a"b': [3]})
    assert store.sql("SELECT user FROM t", tables={"t": table}).fetchall() == [(1,)]
    assert store.sql('SELECT "getenv(\'HOME\')", "a""b" FROM t', tables={"t": table}).fetchall() == [(2, 3)]
    for name in ("duckdb_tables", "x.csv", "a; DROP STREAM s", 'a"b', "#s", "rows to insert"):
        quoted = '"' + name.replace('"', '""') + '"'
        assert store.sql(f"SELECT count(*) FROM {quoted}", tables={name: table}).fetchall() == [(1,)]


def test_names_of_streams_are_no_paths(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with tidelog.open(root, maintenance="manual") as opened:
        for name in ("..", "../x", "/tmp/x", "a/../../b", "c:\\d", "con", "-rf", "*"):
            opened.sql(f'CREATE STREAM "{name}" (ts TIMESTAMP); INSERT INTO "{name}" VALUES (now())')
            assert opened.sql(f'SELECT count(*) FROM "{name}"').fetchall() == [(1,)]
        assert [path.name for path in tmp_path.rglob("*") if root not in (path, *path.parents)] == ["deep"]


def test_no_files_stay_open(store: Store) -> None:
    before = set(open_below(Path("/")))
    for text in STATEMENTS[:60]:
        with pytest.raises(TidelogError):
            store.sql(text).fetchall()
    assert set(open_below(Path("/"))) <= before
