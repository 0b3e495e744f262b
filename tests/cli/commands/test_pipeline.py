"""``tidelog pipeline``: templates, explanations and refusals, none of which start Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import Cli

PIPELINE = """\
[pipeline]
name = "copy"
checkpoint = "state"

[sources.incoming]
format = "json"
path = "incoming"
schema = "at timestamp, v bigint"

[sinks.out]
input = "incoming"
path = "events"
stream = "out"
time = "at"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path / "pipeline.toml"


def test_a_template_is_written_and_makes_sense(cli: Cli, tmp_path: Path) -> None:
    assert cli("pipeline", "init").out.startswith("wrote pipeline.toml; edit it")
    again = cli("pipeline", "init")
    assert (again.code, again.out) == (1, "")
    assert again.err == "tidelog: pipeline.toml is there already; name another file, or say --force to replace it\n"
    assert cli("pipeline", "init", "--force").code == 0
    refused = cli("pipeline", "check", "pipeline.toml")
    assert refused.code == 1
    assert "pipeline.toml:21: there is no " in refused.err, "everything but the directory is right"
    assert refused.err.count("pipeline.toml:") == 1
    (tmp_path / "incoming").mkdir()
    told = cli("pipeline", "check", "pipeline.toml")
    assert (told.code, told.err) == (0, "")
    assert "sink trades: distinct_trades into stream 'trades'" in told.out


def test_check_explains(cli: Cli, file: Path) -> None:
    told = cli("pipeline", "check", file)
    folder = file.parent
    assert told.lines == [
        f"pipeline 'copy' on local[*], checkpoint {folder}/state",
        "",
        f"source incoming: json {folder}/incoming, read as rows arrive",
        "    at timestamp, v bigint",
        "",
        f"sink out: incoming into stream 'out' of {folder}/events",
        f"    a query in mode append, a batch every 0s; begins checkpoint {folder}/state/sinks/out",
        "    reads incoming",
        "    maintenance: with each commit, within limits",
    ]
    assert {each.name for each in folder.iterdir()} - {".stdin"} == {"incoming", "pipeline.toml"}


@pytest.mark.parametrize("command", ["check", "run"])
def test_mistakes_end_both_commands_before_anything_starts(cli: Cli, file: Path, command: str) -> None:
    file.write_text(PIPELINE.replace("format", "formt"))
    told = cli("pipeline", command, file)
    assert (told.code, told.out) == (1, "")
    assert told.err.splitlines() == [
        f"tidelog: {file}:5: [sources.incoming] lacks the key 'format'; expected csv, json, parquet, tidelog, or "
        "another that Spark knows",
        "     5 | [sources.incoming]",
        "       | ^",
        f"{file}:6: [sources.incoming] has no key 'formt'; did you mean 'format'?",
        '     6 | formt = "json"',
        "       | ^",
    ]


def test_a_wrong_master_or_port_is_refused(cli: Cli, file: Path) -> None:
    assert "expected local[N]" in cli("pipeline", "run", file, "--master", "loca").err
    assert cli("pipeline", "run", file, "--metrics", "70000").code == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_a_pipeline(file: Path, number: signal.Signals, code: int) -> None:
    """In a process whose Spark is replaced: it waits for the wish to stop, and says that it was heard."""
    script = f"""
import sys
import tidelog.spark.pipeline.running.runner as runner
from tidelog.spark import pipeline
class Session:
    def stop(self): pass
def run(given, *, session, once, watch, stop):
    watch([pipeline.Progress(sink="out", rows_read=5, batches=1)])
    print("ready", flush=True)
    assert stop.wait(240)
    return runner.Outcome((pipeline.Progress(sink="out", rows_read=7, batches=2, busy_seconds=1.0),), 1.0, True)
runner.start_session = lambda given: Session()
runner.run = run
from tidelog.cli import main
sys.exit(main(["pipeline", "run", {str(file)!r}]))
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (code, "out: 7 rows in 2 batches, 7 rows/s, 1.0 s in all\n")
    assert err.splitlines()[-1] == "stopped; the next run goes on from here"


SPARK_THAT_TALKS = """\
import logging, os, subprocess, sys, time, warnings
import tidelog.spark.pipeline.running.runner as runner
from tidelog.spark import pipeline
class Session:
    def __init__(self):
        # What Java and Spark do: they greet, and go on talking as long as they live.
        os.write(2, b"WARNING: Using incubator modules\\n")
        self.java = subprocess.Popen(["sh", "-c", "echo greetings; read x; echo still here >&2; echo over"], stdin=subprocess.PIPE)
        if "--master" in sys.argv: raise RuntimeError("no such master")
    def stop(self):
        self.java.communicate(b"\\n")
def run(given, *, session, once, watch, stop):
    warnings.warn("pandas is too new")
    logging.getLogger("tidelog.pipeline").warning("everything will be read again")
    watch([pipeline.Progress(sink="out", rows_read=5, batches=1)])
    logging.getLogger("tidelog").error("an error is heard")
    assert os.environ.get("TIDELOG_QUIET") == ("1" if "--quiet" in sys.argv else None)
    return runner.Outcome((pipeline.Progress(sink="out", rows_read=7, batches=2, busy_seconds=1.0),), 1.0, stop is None)
runner.start_session = lambda given: Session()
runner.run = run
from tidelog.cli import main
sys.exit(main(["pipeline", "run", *sys.argv[1:]]))
"""  # noqa: E501


def test_quiet_is_quiet(file: Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SPARK_THAT_TALKS, str(file), *map(str, arguments)]
        environ = {name: value for name, value in os.environ.items() if name != "TIDELOG_QUIET"}
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environ)

    loud = run("--once", "--metrics", 0)
    assert loud.returncode == 0, loud.stderr
    for text in ("incubator", "still here", "metrics: http", "pandas is too new", "everything will be read again"):
        assert text in loud.stderr
    assert "greetings\nover\nout: 7 rows" in loud.stdout
    quiet = run("--once", "--metrics", 0, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "an error is heard\n")
    failed = run("--quiet", "--master", "local[3]")
    assert failed.returncode == 1
    assert "incubator" in failed.stderr, "why Spark did not start may be among it"
    assert "no such master" in failed.stderr
