"""Inputs that are not read to their end: the parser, which reads ahead in a thread of its own, goes with them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "tidelog.cli", "ingest"]
TO = ["--store", "events", "--stream", "a", "--time", "t"]


@pytest.mark.parametrize("name", ["a.csv", "-"])
def test_a_command_that_fails_early_ends(tmp_path: Path, name: str) -> None:
    """It used to hang or crash when Python ended, since a thread of the parser was still reading."""
    rows = b"t,x\n0,much\n" + b"".join(b"%d,%d\n" % (i, i) for i in range(900_000))
    (tmp_path / "a.csv").write_bytes(rows)
    command = [*COMMAND, name, *TO, "--type", "x=int64"]
    with (tmp_path / "a.csv").open("rb") as stdin:
        done = subprocess.run(command, cwd=tmp_path, stdin=stdin, capture_output=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 2


@pytest.mark.parametrize(
    ("number", "code", "later"), [(signal.SIGTERM, 143, 0.2), (signal.SIGINT, 130, 0.2), (signal.SIGTERM, 143, 0)]
)
def test_a_command_that_waits_for_more_ends_at_once(
    tmp_path: Path, number: signal.Signals, code: int, later: float
) -> None:
    with subprocess.Popen(
        [*COMMAND, "-", *TO], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"t,x\n1,1\n2,2\n")
        process.stdin.flush()
        deadline = time.monotonic() + 100
        while not (tmp_path / "events" / "tidelog.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(later)  # it is about to wait for the rest of the first block, or still opens the store
        process.send_signal(number)
        assert process.wait(timeout=100) == code  # although its input is still open
        assert b"nothing was stored" in process.stderr.read()
