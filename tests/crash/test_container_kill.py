"""Real processes killed with SIGKILL at random moments, on real files."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from support.storage import writing_process
from support.storage.writing_process import NAME, OPTIONS, SCHEMA, batch
from tidelog.storage import Container, ContainerReader, FileMedium


def kill_once(directory: Path, seed: int) -> None:
    """Let a process go on writing, kill it at a random moment, and verify what it left."""
    medium = FileMedium(directory)
    dice = random.Random(seed)
    command = [sys.executable, writing_process.__file__, str(directory), str(seed)]
    acknowledged = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        wanted = dice.randrange(1, 40)
        for flushes, line in enumerate(writer.stdout, start=1):
            acknowledged = int(line)
            if flushes == wanted:
                # From here on at any moment, while acknowledgements go on being read.
                threading.Timer(dice.uniform(0, 0.05), writer.kill).start()
    assert writer.returncode == -9
    with ContainerReader.open(medium, NAME) as reader:
        seen_by_reader = reader.commit.number
        assert seen_by_reader >= acknowledged
    with Container.open(medium, NAME, OPTIONS) as container:
        commit = container.recovery.commit
        assert commit.number >= seen_by_reader
        assert container.snapshot().check() == []
        rows = pa.Table.from_batches(container.view().scan(), SCHEMA)
        assert rows.equals(pa.Table.from_batches([batch(0, commit.rows)], SCHEMA))


def test_killed_again_and_again(tmp_path: Path) -> None:
    Container.create(FileMedium(tmp_path), NAME, SCHEMA, OPTIONS).close()
    for seed in range(4):
        kill_once(tmp_path, seed)


@pytest.mark.soak
def test_soak_killed_again_and_again(tmp_path: Path) -> None:
    for seed in range(100):
        if seed % 10 == 0:
            directory = tmp_path / str(seed)
            directory.mkdir()
            Container.create(FileMedium(directory), NAME, SCHEMA, OPTIONS).close()
        kill_once(directory, seed)
