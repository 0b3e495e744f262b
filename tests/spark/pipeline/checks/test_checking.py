"""What is wrong with a pipeline is found before Spark starts, all of it, each at its line, with a suggestion."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.spark import pipeline as pl
from tidelog.spark.pipeline.description.relations import type_text
from tidelog.spark.pipeline.running.explaining import explain

from ..conftest import Broken


def test_a_good_pipeline_is_understood(good: pl.Pipeline, folder: Path) -> None:
    plan = pl.check(good)
    assert [each.sink.name for each in plan.sinks] == ["trades", "archive"]
    assert plan.sinks[0].inputs == ("incoming", "names")
    assert plan.sinks[0].steps == ("valid", "unique_trades", "named")
    assert plan.sinks[0].relation.is_streaming
    assert {name: type_text(type_) for name, type_ in (plan.relations["named"].columns or {}).items()} == {
        "at": "timestamp", "id": "bigint", "symbol": "string", "price": "double", "name": "string",
    }  # fmt: skip
    assert plan.notes == ()
    assert not (folder / "state").exists(), "checking writes nothing"
    assert not (folder / "events").exists()
    told = explain(plan)
    assert "sink trades: named into stream 'trades'" in told
    assert "keeps state: deduplicate by id" in told


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("trigger =", "triger =")], ["4:1: [pipeline] has no key 'triger'; did you mean 'trigger'?"]),
        ([("[spark]", "[sparc]")], ["6:1: the file has no key 'sparc'; did you mean 'spark'?"]),
        ([('name = "trades"\n', "")], ["1:1: [pipeline] lacks the key 'name'"]),
        ([('trigger = "10s"', "trigger = 10")], ["4:1: 'trigger' is 10; expected a text"]),
        ([('trigger = "10s"', 'trigger = "soon"')], ["4:1: found 'soon', which is no duration"]),
        ([("local[2]", "locl[2]")], ["7:1: found 'locl[2]'; expected local[N]"]),
        ([('"csv"', '"cvs"')], ["11:1: Spark brings no format 'cvs' along; did you mean 'csv'?"]),
        ([('path = "incoming"', 'path = "incomming"')], ["12:1: there is no "]),
        ([("id bigint", "id bigit")], ["13:1: found 'at timestamp, id bigit"]),
        ([("id bigint, symbol string", "symbol string, id bigint")], ["13:1: the schema has the columns at, symbol"]),
        ([("{ header = true }", "{ header = [1] }")], ["14:13: 'header' is a list; expected a text, a number"]),
        ([('column = "at"', 'column = "att"')], ["15:15: 'incoming' has no column 'att'; did you mean 'at'?"]),
        ([('column = "at"', 'column = "price"')], ["15:15: column 'price' is double; expected a timestamp"]),
        ([('delay = "10m"', 'delay = "10 months"')], ["15:30: found '10 months', which is no duration"]),
        ([("streaming = false", 'streaming = "no"')], ["21:1: 'streaming' is 'no'; expected true or false"]),
        ([("       price\n", "       pricee\n")], ["27:8: there is no column 'pricee'; did you mean 'price'?"]),
        ([("FROM incoming", "FROM incomming")], ["28:6: there is no source and no earlier step 'incomming'; did you"]),
        ([("WHERE price > 0", "WHERE price > (")], ["29:"]),
        ([("WHERE price", "WHERE abss(price)")], ["29:7: Spark has no function 'abss'; did you mean 'abs'?"]),
        ([("SELECT at, id", "DELETE at, id")], ["26:1: "]),
        ([("deduplicate", "dedupe")], ["34:1: there is no kind of step 'dedupe'; did you mean 'deduplicate'?"]),
        ([('keys = ["id"]', 'keys = ["idd"]')], ["36:1: 'valid' has no column 'idd'; did you mean 'id'?"]),
        ([('keys = ["id"]', 'keys = "id"')], ["36:1: 'keys' is 'id'; expected a list of texts"]),
        ([('keys = ["id"]\n', "")], ["32:1: the step lacks the key 'keys'; expected the columns"]),
        ([("unique_trades t", "named t")], ["40:32: there is no source and no earlier step 'named'; the step itself"]),
        ([("FROM incoming", "FROM named")], ["28:6: there is no source and no earlier step 'named'; that step"]),
        ([('input = "named"', 'input = "nammed"')], ["43:1: there is no source and no earlier step 'nammed'; did you"]),
        ([('stream = "trades"\n', "")], ["42:1: [sinks.trades] lacks the key 'stream'"]),
        ([('time = "at"\n', "")], ["42:1: there is no stream 'trades' yet, and [sinks.trades] lacks the key 'time'"]),
        ([('time = "at"', 'time = "symbol"')], ["46:1: column 'symbol' is string; expected a timestamp or a bigint"]),
        ([("retention =", "retension =")], ["47:1: there is no option 'retension'; did you mean 'retention'?"]),
        ([('"30d"', '"30 days and"')], ["47:1: "]),
        ([('"5m"', '"often"')], ["48:1: found 'often', which is no duration"]),
        ([('trigger = "once"', 'mode = "complete"')], ["54:1: files can only be added, so mode 'complete' cannot be"]),
        ([('partition_by = ["symbol"]', 'partition_by = ["sym"]')], ["55:1: 'valid' has no column 'sym'; did you"]),
        ([('path = "archive"', 'path = "pipeline.toml"')], ["53:1: ", "is a file; expected a directory"]),
        ([("watermark = { column", "# { column")], ["35:1: 'valid' has no watermark"]),
        ([("[[steps]]\nname = \"valid\"", "[[steps]]\nname = \"incoming\"")], ["24:1: there are two sources or steps"]),
        ([("name = \"valid\"", "name = \"the valid\"")], ["24:1: 'the valid' cannot be the name of a table"]),
    ],
)  # fmt: skip
def test_mistakes_are_told_at_their_lines(broken: Broken, changes: list[tuple[str, str]], expected: list[str]) -> None:
    found = broken(*changes)
    assert found[0].startswith(expected[0]), found
    assert all(text in found[0] for text in expected[1:]), found


def test_all_mistakes_are_told_at_once_in_order(broken: Broken) -> None:
    found = broken(('path = "incoming"', 'path = "nowhere"'), ("FROM incoming", "FROM x"), ('"5m"', '"-1s"'))
    assert [text.split(":")[0] for text in found] == ["12", "28", "48"]


def test_text_that_is_no_toml(broken: Broken) -> None:
    assert broken(('name = "trades"', 'name = "trades'))[0].startswith("2:15: this is no TOML: ")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(tidelog.TidelogError, match="pipeline init"):
        pl.load(tmp_path / "none.toml")
    with pytest.raises(tidelog.TidelogError, match="is a directory"):
        pl.load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(tidelog.TidelogError, match="no text in UTF-8"):
        pl.load(tmp_path / "binary")


@pytest.mark.parametrize(
    ("place", "wanted", "line"), [("incoming", os.R_OK, 12), ("", os.W_OK, 3), ("events", os.W_OK, 44)]
)
def test_missing_permissions(
    broken: Broken, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, wanted: int, line: int
) -> None:
    if place:
        (folder / place).mkdir(exist_ok=True)
    usual = os.access

    def access(path: Any, mode: int) -> bool:
        return usual(path, mode) and not (Path(path) == folder / place and mode & wanted)

    monkeypatch.setattr(os, "access", access)
    found = [text for text in broken() if text.startswith(f"{line}:")]
    assert len(found) == 1
    assert "no permission to" in found[0]


def test_python_objects_are_checked_alike() -> None:
    source = pl.Source(name="a", format="rate")
    step = pl.Sql(name="b", sql="SELECT value FROM aa")
    made = pl.Pipeline(
        name="p",
        checkpoint="state",
        sources=[source],
        steps=[step],
        sinks=[pl.Sink(name="s", input="b", format="noop")],
    )
    with pytest.raises(pl.PipelineError) as caught:
        pl.check(made)
    assert str(caught.value) == "steps.b.sql: there is no source and no earlier step 'aa'; did you mean 'a'?"
    assert caught.value.problems[0].line is None


def test_columns_of_parquet_are_known_from_its_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "v": [1.0]}), tmp_path / "x.parquet")

    def made(sql: str) -> pl.Pipeline:
        return pl.Pipeline(
            name="p",
            checkpoint="state",
            base=str(tmp_path),
            sources=[pl.Source(name="a", format="parquet", path="*.parquet")],
            steps=[pl.Sql(name="b", sql=sql)],
            sinks=[pl.Sink(name="s", input="b", path="events", stream="s", time="at")],
        )

    assert list(pl.check(made("SELECT * FROM a")).relations["b"].columns or ()) == ["at", "v"]
    with pytest.raises(pl.PipelineError, match="no column 'w'"):
        pl.check(made("SELECT at, w FROM a"))


@pytest.fixture
def events(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "events") as store:
        store.create_stream(
            "readings",
            pa.schema(
                [pa.field("at", pa.timestamp("us", "UTC"), nullable=False), ("place", pa.string()), ("v", pa.int64())]
            ),
            "at",
            retention="7d",
        )
    return tmp_path


def of_streams(base: Path, sql: str = "SELECT * FROM a", source: Any = None, sink: Any = None) -> pl.Pipeline:
    return pl.Pipeline(
        name="p",
        checkpoint="state",
        base=str(base),
        sources=[pl.Source(name="a", format="tidelog", path="events", **{"stream": "readings", **(source or {})})],
        steps=[pl.Sql(name="b", sql=sql)],
        sinks=[pl.Sink(name="s", input="b", path="events", **{"stream": "readings", **(sink or {})})],
    )


def test_streams_bring_their_columns(events: Path) -> None:
    plan = pl.check(of_streams(events))
    assert list(plan.relations["b"].columns or ()) == ["at", "place", "v"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": {"stream": "reading"}}, "sources.a.stream: .*did you mean 'readings'"),
        ({"source": {"options": {"columns": "at, w"}}}, "sources.a.options: there is no column 'w'"),
        ({"source": {"options": {"kolumns": "at"}}}, "no option 'kolumns'; did you mean 'columns'"),
        ({"source": {"schema": "at timestamp"}}, "sources.a.schema: a stream has its own schema"),
        ({"sql": "SELECT at, place, v AS w FROM a"}, "'b' has a column 'w', which stream 'readings' lacks"),
        ({"sql": "SELECT at, v AS place FROM a"}, "column 'place' of 'b' does not fit .* bigint cannot become string"),
        ({"sql": "SELECT place, v FROM a"}, "'b' lacks column 'at' of stream 'readings', its time"),
        ({"sink": {"stream_options": {"retention": "8d"}}}, "its retention is '7d'; options are chosen when"),
        ({"sink": {"time": "place"}}, "its time column is 'at'; leave 'time' out"),
        ({"sink": {"mode": "overwrite"}}, "rows that keep arriving are written in one of the modes"),
        ({"sink": {"mode": "complete"}}, "Spark only adds rows to streams"),
        ({"sink": {"mode": "update"}}, "Spark only adds rows to streams"),
        ({"sink": {"options": {"creates": True}}}, "no option 'creates'; did you mean 'create'"),
        ({"sink": {"options": {"overwrite_start": 5}}}, "'overwrite_start' was given, but the mode is append"),
    ],
)
def test_streams_that_do_not_fit(events: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.PipelineError, match=message):
        pl.check(of_streams(events, **given))


def test_grouping_needs_a_watermark_in_mode_append(events: Path) -> None:
    grouped = "SELECT window(at, '1 hour').start AS at, count(*) AS v FROM a GROUP BY window(at, '1 hour')"
    with pytest.raises(pl.PipelineError, match="groups or joins rows that keep arriving"):
        pl.check(of_streams(events, grouped))
    mark = pl.Watermark(column="at", delay="1h")
    assert len(pl.check(of_streams(events, grouped, {"watermark": mark})).sinks[0].states) == 1


def test_what_nobody_reads_is_noted(events: Path) -> None:
    made = of_streams(events)
    more = pl.Source(name="z", format="rate")
    assert pl.check(pl.Pipeline(**{**vars(made), "sources": [*made.sources, more]})).notes == (
        "'z' is read by nothing",
    )


def test_kinds_of_steps_can_be_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (tmp_path / "my_kinds_of_steps.py").write_text(
        "from dataclasses import dataclass\n"
        "from tidelog.spark.pipeline import Reference, Step, register_step\n"
        "@register_step('limit')\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Limit(Step):\n"
        "    input: str\n"
        "    rows: int = 10\n"
        "    def references(self): return [Reference(self.input, 'input')]\n"
        "    def columns(self, inputs): return inputs[self.input].columns\n"
        "    def build(self, session, inputs): return inputs[self.input].limit(self.rows)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        (folder / "pipeline.toml").read_text().replace('"deduplicate"', '"limit"').replace('keys = ["id"]', "rows = 3")
    )
    (folder / "own.toml").write_text(text)
    with pytest.raises(pl.PipelineError, match="no kind of step 'limit'"):
        pl.load(folder / "own.toml")
    (folder / "own.toml").write_text(text.replace("[spark]", 'modules = ["my_kinds_of_steps"]\n[spark]'))
    plan = pl.check(pl.load(folder / "own.toml"))
    assert list(plan.relations["unique_trades"].columns or ()) == ["at", "id", "symbol", "price"]
    (folder / "own.toml").write_text(text.replace("[spark]", 'modules = ["not_there"]\n[spark]'))
    with pytest.raises(pl.PipelineError, match="module 'not_there' cannot be imported"):
        pl.load(folder / "own.toml")
    del sys.modules["my_kinds_of_steps"]


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(tidelog.TidelogError, match="there is a kind of step 'sql' already"):
        pl.register_step("sql")(pl.Deduplicate)
