"""The benchmarks of Spark from end to end, at sizes at which nothing is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.drivers import small_spark

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# In a process of its own: it must start, and stop, a session whose workers know the modules of the benchmarks.
RUN = """
import json, sys
from pathlib import Path
from harness import Bench, Workspace
from questions.spark.year import session
from questions.patterns import on_spark
import patterns, pipeline, spark

with Workspace(Path(sys.argv[1])) as workspace, session(Path(sys.argv[2])) as started:
    bench = Bench(workspace, quick=True, events=5_000, repetitions=1)
    spark.ask_in(bench, started)
    bench.only = ["range aggregates", "compaction", "pipeline", "many"]
    pipeline.ask_in(bench, started)
    on_spark.ask_in(bench, started, 5_000, patterns.ON_SPARK)
    assert not any(workspace.root.iterdir())
print(json.dumps([question.as_json() for question in bench.questions]))
"""


@pytest.mark.xdist_group("spark")
def test_everybody_reads_and_writes_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path / "work"), str(tmp_path / "scratch")]
    environ = small_spark()
    done = subprocess.run(command, cwd=BENCHMARKS, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {question["question"]: question for question in json.loads(done.stdout.splitlines()[-1])}
    both, keyed = {"ceiling", "Spark's Parquet"}, {"one stream, with a key"}
    assert {name: set(question["peers"]) for name, question in found.items()} == {
        "scan": both,
        "one day, filtered": both,
        "write, sorted by time": both,
        "streaming sink": {"Spark's Parquet"},
        "range aggregates": {"separate queries", "binned equi-join", "range join"},
        "distributed compaction": {"Spark's Parquet"},
        "pipeline, end to end": {"Spark's Parquet"},
        "many streams: write": keyed,
        "many streams: read all": keyed,
        "many streams: read one": keyed,
        "many streams: open, aggregate one": keyed,
        "many streams: open, list": keyed,
        "Spark, a thousand keys": {"shuffle, sort, no search"},
    }
    verdicts = {judgement["verdict"] for question in found.values() for judgement in question["judgements"]}
    assert verdicts == {"not judged", "-"}
    assert all(question["ours"]["median"] > 0 for question in found.values())
