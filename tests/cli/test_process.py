"""What only a process of its own shows: exit codes, closed pipes, tracebacks, and what help costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog

HEAVY = {"numba", "llvmlite", "duckdb", "pyspark", "sqlglot", "pandas", "prompt_toolkit"}


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "error", "-m", "tidelog.cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["scan", "--help"], ["scan", "--nonsense"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = f"import sys; from tidelog.cli import main; main({arguments!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "e") as store:
        stream = store.create_stream("a", pa.schema([("t", pa.int64()), ("s", pa.string())]), "t")
        stream.append({"t": range(20_000), "s": "x" * 90})
    with start("scan", "-s", "e", "-n", "a", "-F", "csv", cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"t,s\n"
        process.stdout.close()  # with far more to come than a pipe holds
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize(("variable", "is_traced"), [("0", False), ("1", True)])
def test_tracebacks_only_on_request(tmp_path: Path, variable: str, is_traced: bool) -> None:
    environment = os.environ | {"TIDELOG_TRACEBACK": variable}
    with start("ingest", "nowhere", "-s", "e", "-n", "a", cwd=tmp_path, env=environment) as process:
        out, complaints = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert (b"Traceback" in complaints) == is_traced
    assert is_traced or complaints == b"tidelog: nowhere: No such file or directory\n"


def test_an_unforeseen_error_is_told_in_one_message(tmp_path: Path) -> None:
    script = (
        "import sys, tidelog, tidelog.cli\n"
        "def fail(*arguments, **options): raise RuntimeError('boom')\n"
        "tidelog.open = fail\n"
        "sys.exit(tidelog.cli.main(['streams', '--store', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tidelog: this should not have happened: RuntimeError: boom. ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def events(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "e") as store:
        stream = store.create_stream("a", pa.schema([("t", pa.int64()), ("s", pa.string())]), "t")
        stream.append({"t": range(3), "s": "grüße"})
    return tmp_path


@pytest.mark.parametrize("arguments", [["aggregate", "count(*)"], ["scan"], ["stats"]])
def test_a_table_for_nobody_is_no_error(events: Path, arguments: list[str]) -> None:
    source, target = os.pipe()
    os.close(source)  # as in | true
    command = [sys.executable, "-m", "tidelog.cli", *arguments, "-s", "e", "-n", "a"]
    done = subprocess.run(command, cwd=events, stdout=target, stderr=subprocess.PIPE, check=False)
    os.close(target)
    assert (done.returncode, done.stderr) == (141, b"")


def test_characters_that_an_output_does_not_have(events: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    with start("scan", "-s", "e", "-n", "a", cwd=events, env=environment) as process:
        out, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert out.count(b"gr\\xfc\\xdfe") == 3


def test_arguments_that_are_no_text(events: Path) -> None:
    command = [sys.executable, "-m", "tidelog.cli", "scan", "-s", "e", "-n", "a", "--where", b"s = '\xff'"]
    done = subprocess.run(command, cwd=events, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"this should not have happened" not in done.stderr


def test_a_store_that_is_missing_is_told_by_its_path(tmp_path: Path) -> None:
    with start("streams", "-s", "nowhere", cwd=tmp_path) as process:
        complaints = process.communicate()[1].decode()
    assert complaints.startswith(f"tidelog: there is no store in {tmp_path}/nowhere: ")


def test_a_store_without_streams_says_so(tmp_path: Path) -> None:
    tidelog.open(tmp_path / "e").close()
    for command in ("streams", "stats"):
        with start(command, "-s", "e", cwd=tmp_path) as process:
            out, complaints = process.communicate()
        assert (process.returncode, out, complaints.startswith(b"the store has no streams yet")) == (0, b"", True)
