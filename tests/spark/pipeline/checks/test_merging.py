"""A step that merges copies: what it is told before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from tidelog.spark import pipeline

FILE = """
[pipeline]
name = "receivers"
checkpoint = "checkpoint"

[sources.north]
format = "json"
path = "north"
schema = "ts timestamp, sensor string, value double"

[sources.south]
format = "json"
path = "south"
schema = "{south}"

[[steps]]
name = "clean"
kind = "merge"
{step}

[sinks.clean]
input = "clean"
path = "store"
stream = "clean"
time = "ts"
"""
SOUTH = "ts timestamp, sensor string, value double"


def checked(folder: Path, step: str, south: str = SOUTH) -> pipeline.Plan:
    for name in ("north", "south"):
        (folder / name).mkdir(exist_ok=True)
    tidelog.open(folder / "store").close()
    file = folder / "pipeline.toml"
    file.write_text(FILE.format(step=step, south=south))
    return pipeline.check(pipeline.load(file))


def test_a_merge_has_the_columns_of_its_inputs(tmp_path: Path) -> None:
    plan = checked(tmp_path, 'inputs = ["north", "south"]\nkey = ["sensor"]\ndelay = "10s"')
    columns = plan.relations["clean"].columns
    assert columns is not None
    assert list(columns) == ["ts", "sensor", "value"]
    (sink,) = plan.sinks
    assert sink.inputs == ("north", "south")
    assert sink.states == ("merge by sensor with auto, lazy",)


@pytest.mark.parametrize(
    ("step", "south", "message"),
    [
        ("inputs = []", SOUTH, "found no inputs"),
        ('inputs = ["north", "North"]', SOUTH, "'North' twice"),
        ('inputs = ["north", "east"]', SOUTH, "no source and no earlier step 'east'"),
        ('inputs = ["north", "south"]\nkey = ["sensr"]', SOUTH, "no column 'sensr'"),
        ('inputs = ["north", "south"]\nkey = ["*", "sensor"]', SOUTH, "beside names"),
        ('inputs = ["north", "south"]\ndelay = "soon"', SOUTH, "soon"),
        ('inputs = ["north", "south"]\nalgorithm = "R8"', SOUTH, "no algorithm 'R8'"),
        ('inputs = ["north", "south"]\npolicy = "eager"', SOUTH, "no policy 'eager'"),
        ('inputs = ["north", "south"]\ntime = "at"', SOUTH, "no column 'at'"),
        ('inputs = ["north", "south"]\ntasks = -1', SOUTH, "expected at least 1"),
        ('inputs = ["north", "south"]', "ts timestamp, sensor string", "'south' has no column 'value'"),
        (
            'inputs = ["north", "south"]',
            SOUTH + ", more int",
            "'south' has a column 'more', which 'north' does not have",
        ),
        ('inputs = ["north", "south"]', "ts timestamp, sensor string, value boolean", "expected double, as of 'north'"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, step: str, south: str, message: str) -> None:
    with pytest.raises(pipeline.PipelineError, match=message):
        checked(tmp_path, step, south)
