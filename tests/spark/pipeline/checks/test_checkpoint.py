"""A checkpoint belongs to one pipeline: what Spark would take for something else is refused, by name."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tidelog.spark import pipeline as pl
from tidelog.spark.pipeline.checks import checkpoint
from tidelog.spark.pipeline.running.explaining import explain


def recorded(good: pl.Pipeline) -> None:
    """What a run leaves behind: the record, and directories of queries."""
    with checkpoint.held(good, pl.check(good).sinks):
        for sink in good.sinks:
            Path(checkpoint.checkpoint_of(good, sink)).mkdir(parents=True, exist_ok=True)


def refusals(changed: pl.Pipeline) -> str:
    with pytest.raises(pl.PipelineError) as caught:
        pl.check(changed)
    return str(caught.value)


def test_the_same_pipeline_goes_on(good: pl.Pipeline, folder: Path) -> None:
    recorded(good)
    recorded(good)
    noted = json.loads((folder / "state" / checkpoint.RECORD).read_text())
    assert noted["sinks"]["trades"]["states"] == ["deduplicate by id"]


def with_source(good: pl.Pipeline, **changes: Any) -> pl.Pipeline:
    first, *rest = good.sources
    return replace(good, sources=[replace(first, **changes), *rest])


def with_step(good: pl.Pipeline, index: int, **changes: Any) -> pl.Pipeline:
    steps = list(good.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(good, steps=steps)


def with_sink(good: pl.Pipeline, **changes: Any) -> pl.Pipeline:
    first, *rest = good.sinks
    return replace(good, sinks=[replace(first, **changes), *rest])


def test_what_may_change(good: pl.Pipeline, folder: Path) -> None:
    recorded(good)
    pl.check(with_source(good, options={"header": True, "maxFilesPerTrigger": 1}))
    pl.check(with_step(good, 0, sql="SELECT id, at, price, symbol FROM incoming -- other columns, no filter"))
    pl.check(replace(good, trigger="1h", sinks=good.sinks[:1]))
    (folder / "other").mkdir()
    more = pl.Source(name="more", format="json", path="other", schema="symbol string, name string", streaming=False)
    without_names = with_step(good, 2, sql="SELECT t.*, n.name FROM unique_trades t JOIN more n USING (symbol)")
    pl.check(replace(without_names, sources=[*good.sources, more]))  # what is no stream has no offset


def test_what_may_not_change(good: pl.Pipeline, folder: Path) -> None:
    recorded(good)
    (folder / "other").mkdir()
    said = refusals(with_source(good, path="other"))
    assert f"reads csv {folder}/other; with this checkpoint it read csv {folder}/incoming" in said
    assert said.count("start anew with another checkpoint directory") == 2, "both sinks read it"
    assert "writes stream others of" in refusals(with_sink(good, stream="others"))
    assert "its state was made by deduplicate by id" in refusals(with_step(good, 1, keys=("id", "at")))
    assert "is the checkpoint of pipeline 'trades', not of 'other'" in refusals(replace(good, name="other"))


def test_a_run_that_spark_refused_binds_nobody(good: pl.Pipeline, folder: Path) -> None:
    with checkpoint.held(good, pl.check(good).sinks):
        pass
    (folder / "other").mkdir()
    pl.check(replace(with_source(good, path="other"), name="other"))


def test_the_order_of_sources_is_part_of_it(good: pl.Pipeline, folder: Path) -> None:
    """Spark knows the sources of a query by their places: in another order each would get the other's offsets."""
    (folder / "second").mkdir()
    second = replace(good.sources[0], name="second", path="second")
    both = replace(with_step(good, 0, sql="TABLES"), sources=[*good.sources, second])
    one_way = with_step(both, 0, sql="SELECT * FROM incoming UNION ALL SELECT * FROM second")
    other_way = with_step(both, 0, sql="SELECT * FROM second UNION ALL SELECT * FROM incoming")
    recorded(one_way)
    assert "with this checkpoint it read" in refusals(other_way)


def test_a_directory_of_something_else_is_refused(good: pl.Pipeline, folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "precious").touch()
    assert "has 'precious' in it and is no checkpoint of a pipeline" in refusals(good)
    (folder / "state" / checkpoint.RECORD).write_text("{")
    with pytest.raises(tidelog.TidelogError, match="cannot be read"):
        pl.check(good)


def _try_to_hold(file: str, answers: Any) -> None:
    good = pl.load(file)
    try:
        with checkpoint.held(good, pl.check(good).sinks):
            answers.put("held")
    except tidelog.TidelogError as error:
        answers.put(str(error))


def test_a_pipeline_runs_once_at_a_time(good: pl.Pipeline, folder: Path) -> None:
    answers: Any = multiprocessing.Queue()
    with checkpoint.held(good, pl.check(good).sinks):
        process = multiprocessing.Process(target=_try_to_hold, args=(str(folder / "pipeline.toml"), answers))
        process.start()
        assert "another process is running pipeline 'trades'" in answers.get(timeout=240)
        process.join()
    recorded(good)


def test_a_sink_that_was_renamed_is_warned_of(good: pl.Pipeline, folder: Path) -> None:
    assert pl.check(good).warnings == ()
    recorded(good)
    assert pl.check(good).warnings == ()
    renamed = with_sink(good, name="deals")
    (warning,) = pl.check(renamed).warnings
    assert warning.startswith("sink 'deals' has no checkpoint yet: everything that is there will be read again")
    assert f"mv {folder}/state/sinks/trades {folder}/state/sinks/deals" in warning
    assert f"warning: {warning}" in explain(pl.check(renamed))
    (folder / "state/sinks/trades").rename(folder / "state/sinks/deals")
    assert pl.check(renamed).warnings == ()


def test_a_sink_that_begins_elsewhere_is_a_new_one(good: pl.Pipeline, folder: Path) -> None:
    recorded(good)
    elsewhere = with_sink(good, name="deals", stream="deals")
    assert pl.check(elsewhere).warnings == ()
    beside = replace(good, sinks=[*good.sinks, replace(good.sinks[0], name="deals")])
    assert pl.check(beside).warnings == (), "the other one is still there"
