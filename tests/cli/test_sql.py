"""``tidelog sql``: statements, where they come from, and what results are written as."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import tidelog
from support.commands import Cli

COUNTS = "SELECT coalesce(symbol, 'none') AS symbol, count(*) AS n FROM trades GROUP BY ALL ORDER BY ALL"


@pytest.fixture
def expected(trades: list[Any]) -> pa.Table:
    with tidelog.open("events", read_only=True) as store:
        return store.sql(COUNTS).arrow()


def test_a_table(cli: Cli, expected: pa.Table) -> None:
    run = cli("sql", COUNTS, "-s", "events")
    assert run.code == 0
    lines = run.out.splitlines()
    assert lines[0].split() == ["symbol", "n"]
    found = [line.split() for line in lines[2:]]
    assert found == [[row["symbol"], str(row["n"])] for row in expected.to_pylist()]


def test_statements_from_a_file_and_from_standard_input(cli: Cli, expected: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(f"SELECT 1; {COUNTS};")
    from_file = cli("sql", "-s", "events", "-f", "q.sql", "-F", "csv").out
    assert from_file == cli("sql", "-s", "events", "-F", "csv", stdin=COUNTS.encode()).out
    assert from_file == cli("sql", "-", "-s", "events", "-F", "csv", stdin=COUNTS.encode()).out
    assert from_file == cli("sql", "-f", "-", "-s", "events", "-F", "csv", stdin=COUNTS.encode()).out
    assert pa.csv.read_csv(io.BytesIO(from_file.encode())).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("name", ["r.csv", "r.json", "r.jsonl", "r.arrow", "r.arrows", "r.parquet"])
def test_files(cli: Cli, expected: pa.Table, name: str, tmp_path: Path) -> None:
    assert cli("sql", COUNTS, "-s", "events", "-o", name).code == 0
    path = tmp_path / name
    read: dict[str, Any] = {
        ".csv": lambda: pa.csv.read_csv(path),
        ".json": lambda: pa.Table.from_pylist(json.loads(path.read_text())),
        ".jsonl": lambda: pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()]),
        ".arrow": lambda: pa.ipc.open_file(path).read_all(),
        ".arrows": lambda: pa.ipc.open_stream(path).read_all(),
        ".parquet": lambda: pa.parquet.read_table(path),
    }
    assert read[path.suffix]().to_pylist() == expected.to_pylist()


def test_markdown(cli: Cli, expected: pa.Table) -> None:
    lines = cli("sql", COUNTS, "-s", "events", "-F", "markdown").out.splitlines()
    assert lines[:2] == ["| symbol | n |", "|---|---:|"]
    assert len(lines) == 2 + expected.num_rows


def test_parameters_limits_and_zones(cli: Cli, trades: list[Any]) -> None:
    asked = "SELECT count(*) AS n FROM trades WHERE symbol = $symbol"
    assert json.loads(cli("sql", asked, "-s", "events", "-p", "symbol=none", "-F", "json").out) == [{"n": 0}]
    assert len(cli("sql", "FROM trades", "-s", "events", "--limit", "2", "-F", "csv").out.splitlines()) == 3
    zoned = cli("sql", "SELECT current_setting('x')", "-s", "events")
    assert zoned.code == 1
    hour = "SELECT hour(TIMESTAMPTZ '2026-01-01 00:00+00') AS h"
    assert json.loads(cli("sql", hour, "-s", "events", "--timezone", "Asia/Tokyo", "-F", "json").out) == [{"h": 9}]


def test_long_results_are_cut_in_tables(cli: Cli, trades: list[Any]) -> None:
    run = cli("sql", "SELECT * FROM range(100)", "-s", "events")
    assert len(run.out.splitlines()) == 52
    assert "the first 50 rows" in run.err


def test_a_picture(cli: Cli, trades: list[Any], tmp_path: Path) -> None:
    run = cli("sql", "SELECT ts, price FROM trades", "-s", "events", "--plot", "p.png")
    assert run.code == 0, run.err
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    run = cli("sql", "SELECT ts, price FROM trades", "-s", "events", "--plot", "p.bmpp")
    assert run.code == 1
    assert run.err.startswith("tidelog: found 'p.bmpp' for a figure; expected a name that ends with one of")


def test_mistakes(cli: Cli, trades: list[Any]) -> None:
    wrong = cli("sql", "SELECT * FROM trade", "-s", "events")
    assert wrong.code == 1
    assert "did you mean 'trades'?" in wrong.err
    assert wrong.err.rstrip().endswith("^")
    assert cli("sql", "SELECT 1", "-s", "nowhere").code == 1
    assert cli("sql", "SELECT 1", "-s", "events", "-f", "x").code == 2
    assert cli("sql", "SELECT 1", "-s", "events", "-o", "x.unknown").code == 2
    assert cli("sql", "SELECT $a", "-s", "events", "-p", "a").code == 2


def test_memory_is_a_size(cli: Cli, trades: list[Any]) -> None:
    assert cli("sql", COUNTS, "-s", "events", "--sql-memory", "64MB", "-F", "csv").code == 0
    run = cli("sql", COUNTS, "-s", "events", "--sql-memory", "little")
    assert run.code == 1
    assert "such as '512MB'" in run.err
