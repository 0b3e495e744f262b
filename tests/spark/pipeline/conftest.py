"""A pipeline that is right, in a folder with what it names, for tests to break; and that of the demonstration.

Makes the modules of ``demo/`` importable, as running one of its files does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tidelog.spark.pipeline import Pipeline, PipelineError, check, load

sys.path.insert(0, str(Path(__file__).parents[3] / "demo"))

GOOD = """\
[pipeline]
name = "trades"
checkpoint = "state"
trigger = "10s"

[spark]
master = "local[2]"
config.spark.sql.shuffle.partitions = 1

[sources.incoming]
format = "csv"
path = "incoming"
schema = "at timestamp, id bigint, symbol string, price double"
options = { header = true }
watermark = { column = "at", delay = "10m" }

[sources.names]
format = "json"
path = "names"
schema = "symbol string, name string"
streaming = false

[[steps]]
name = "valid"
sql = '''
SELECT at, id, symbol,
       price
FROM incoming
WHERE price > 0
'''

[[steps]]
name = "unique_trades"
kind = "deduplicate"
input = "valid"
keys = ["id"]

[[steps]]
name = "named"
sql = "SELECT t.*, n.name FROM unique_trades t LEFT JOIN names n USING (symbol)"

[sinks.trades]
input = "named"
path = "events"
stream = "trades"
time = "at"
stream_options = { split = "1d", retention = "30d" }
compaction = "5m"

[sinks.archive]
input = "valid"
format = "parquet"
path = "archive"
trigger = "once"
partition_by = ["symbol"]
"""

Broken: TypeAlias = Callable[..., list[str]]
"""Puts something else in the place of a text of the pipeline; returns what is complained about, with line numbers."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "a.csv").write_text("at,id,symbol,price\n2026-01-01T00:00:00Z,1,TIDE,1.5\n")
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "n.json").write_text('{"symbol": "TIDE", "name": "Tide Ltd"}\n')
    (tmp_path / "pipeline.toml").write_text(GOOD)
    return tmp_path


@pytest.fixture
def good(folder: Path) -> Pipeline:
    return load(folder / "pipeline.toml")


@pytest.fixture
def broken(folder: Path) -> Broken:
    def run(*changes: tuple[str, str]) -> list[str]:
        text = GOOD
        for old, new in changes:
            assert text.count(old) >= 1, old
            text = text.replace(old, new, 1)
        file = folder / "broken.toml"
        file.write_text(text)
        with pytest.raises(PipelineError) as caught:
            check(load(file))
        for problem in caught.value.problems:
            assert problem.line is not None
            assert str(problem).startswith(f"{file}:{problem.line}: ")
            assert problem.shown == text.split("\n")[problem.line - 1]
        return [f"{each.line}:{each.column}: {each.message}" for each in caught.value.problems]

    return run
