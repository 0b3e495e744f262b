"""Merging, maintaining and coarsening through the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.commands import Cli
from tidelog.cli import warming
from tidelog.cli.warming import Warmed
from tidelog.engine.store import manifests_of
from tidelog.engine.stream import writer_of
from tidelog.store.bulk import BulkWriter, commit_bulk

SCHEMA = pa.schema([pa.field("t", pa.int64(), nullable=False), ("x", pa.float64())])


@pytest.fixture
def many(tmp_path: Path) -> None:
    """A store ``events`` with a stream ``s`` of twelve commits."""
    with tidelog.open(tmp_path / "events", maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "t", retention=100, grace=0)
        for index in range(12):
            writer = BulkWriter(writer_of(stream).context)
            writer.append(pa.record_batch([list(range(index * 10, index * 10 + 10)), [0.5] * 10], schema=SCHEMA))
            commit_bulk(writer_of(stream).manifests, writer.finish())


def test_compact(cli: Cli, many: None) -> None:
    run = cli("compact", "--store", "events")
    assert run.code == 0
    assert run.out.startswith("'s': merged 12 splits into 1, ")
    assert cli("compact", "--store", "events", "-n", "s").out == "'s': nothing to merge\n"
    assert cli("compact", "--store", "events", "--max-bytes", 0).code == 2
    assert cli("compact", "--store", "nowhere").code == 1
    assert not Path("nowhere").exists()


def test_compact_in_steps(cli: Cli, many: None) -> None:
    with tidelog.open("events", read_only=True) as store:
        size = next(iter(manifests_of(store, "s").load().splits.values())).bytes
    run = cli("compact", "--store", "events", "--max-bytes", 5 * size)
    assert run.out.startswith("'s': merged 5 splits into 1, ")
    assert run.out.endswith("; there is more to do\n")


def test_maintain(cli: Cli, many: None) -> None:
    first = cli("maintain", "--store", "events").out
    assert first.startswith("'s': retention deleted what is before 19, merged 11 splits into 1, ")
    assert "old files removed" in cli("maintain", "--store", "events").out
    assert cli("maintain", "--store", "events").out == "'s': nothing is due\n"


def test_coarsen(cli: Cli, many: None) -> None:
    assert cli("coarsen", 60, "--store", "events", "-n", "s").code == 2
    assert cli("coarsen", "soon", "--store", "events", "-n", "s", "--yes").code == 1
    run = cli("coarsen", 60, "--store", "events", "-n", "s", "--yes")
    assert run.out.startswith("'s': 60 rows coarsened to aggregates, ")
    assert cli("coarsen", 60, "--store", "events", "-n", "s", "--yes").out == "'s': no split is old enough\n"
    refused = cli("scan", "--store", "events", "-n", "s")
    assert (refused.code, "coarse" in refused.err) == (1, True)
    assert cli("aggregate", "count(*)", "--store", "events", "-n", "s", "--format", "json").out == '{"count(*)": 120}\n'
    assert cli("check", "--store", "events").code == 0


def test_delete(cli: Cli, many: None) -> None:
    assert cli("delete", 60, "--store", "events", "-n", "s").code == 2
    assert cli("delete", "soon", "--store", "events", "-n", "s", "--yes").code == 1
    assert cli("delete", 60, "--store", "nowhere", "-n", "s", "--yes").code == 1
    assert not Path("nowhere").exists()
    run = cli("delete", 55, "--store", "events", "-n", "s", "--yes")
    assert (run.code, run.out) == (0, "'s': deleted what is before 55\n")
    found = cli("aggregate", "count(*)", "min(t)", "--store", "events", "-n", "s", "--format", "csv").lines[1]
    assert found == "65,55"
    cli("coarsen", 100, "--store", "events", "-n", "s", "--yes")
    refused = cli("delete", 62, "--store", "events", "-n", "s", "--yes")
    assert (refused.code, "from 60 to 69" in refused.err) == (1, True)


def test_warm(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Warmed(47, 12, "/cache", 20.25), Warmed(47, 0, "/cache", 1.0), Warmed(47, 47, None, 30.0)]
    monkeypatch.setattr(warming, "warm", lambda told: told(47, 47) or made.pop(0))
    assert cli("warm").out == "47 kernels are ready in /cache: 12 compiled in 20.2 s\n"
    assert cli("warm").out == "47 kernels are ready in /cache: all of them were there\n"
    run = cli("warm")
    assert run.code == 1
    assert "TIDELOG_CACHE_DIR" in run.err
