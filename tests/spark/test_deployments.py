"""Spark in more processes than one: executors of their own, and a server that the client is not part of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark import round_trip
from support.spark.drivers import WAIT

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("kind", round_trip.KINDS)
def test_a_table_there_and_back(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, round_trip.__file__, str(tmp_path / "store"), str(tmp_path), kind]
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
