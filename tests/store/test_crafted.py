"""Bytes made by hand, with right checksums: an error of tidelog's own, never a crash, nor memory without end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.damage import crafted_bytes
from tidelog.model.errors import SchemaError
from tidelog.model.schema import MOST_COLUMNS


def crafted(seed: int, count: int) -> None:
    """In a process of its own, which may crash."""
    command = [sys.executable, crafted_bytes.__file__, str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def test_no_bytes_crash_or_raise_anything_else() -> None:
    crafted(1, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_no_bytes_crash_or_raise_anything_else_for_long(seed: int) -> None:
    crafted(seed, 1000)


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    def schema(columns: int) -> pa.Schema:
        return pa.schema([("ts", pa.int64()), *((f"c{number}", pa.int8()) for number in range(columns - 1))])

    with tidelog.open(tmp_path) as store:
        with pytest.raises(SchemaError, match="found 70000 columns; expected at most"):
            store.create_stream("s", schema(70_000), time="ts")
        stream = store.create_stream("s", schema(5), time="ts")
        with pytest.raises(SchemaError, match="columns; expected at most"):
            stream.evolve(add={f"more{number}": pa.int8() for number in range(MOST_COLUMNS - 4)})
        assert store.check() == []
