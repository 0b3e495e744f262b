"""``tidelog shell``: what is typed, completed, run and shown, with a terminal that is none."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import tidelog
from support.commands import TRADES, Cli, stored
from tidelog.cli import running
from tidelog.cli.shell.completion import offer
from tidelog.cli.shell.inputs import inputs, is_complete
from tidelog.cli.shell.loop import History, SqlCompleter, converse, history_path
from tidelog.cli.shell.session import Session
from tidelog.sql.database import shared

ENDLESS = "SELECT count(*) FROM range(100000000000)"


class Typist:
    """Types into a shell, and says what was printed on standard output and on standard error."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *lines: str, read_only: bool = False) -> tuple[str, str]:
        with create_pipe_input() as keys, Session(Path("events"), read_only=read_only) as session:
            keys.send_text("".join(f"{line}\r" for line in lines) + "\x04")
            converse(session, input=keys, output=DummyOutput())
        out, err = self._capture.readouterr()
        return out, err.partition("leaves\n")[2]


@pytest.fixture
def type_(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trades: list[Any]
) -> Typist:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TIDELOG_TRACEBACK", raising=False)
    return Typist(capfd)


# -- what is typed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  \n", True),
        ("-- a word", True),
        ("exit", True),
        ("Quit ;", True),
        ("help me", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done;", True),
        ("SELECT 1 -- ;", False),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 'it''s;", False),
        ('FROM "a;', False),
        ("SELECT /* ;", False),
        ("SELECT /* ; */ 1;", True),
        ("SELECT $$ ;", False),
        ("SELECT $x$ ; $$;", False),
        ("SELECT $x$ ; $x$;", True),
        ("SELECT $1;", True),
        ("SELECT 1; SELECT", False),
        ("\\d trades", True),
        ("  \\q", True),
    ],
)
def test_when_a_statement_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) == complete


def test_statements_and_commands_of_a_file() -> None:
    text = "\n-- first\nSELECT\n 1;\n\\d x\nSELECT '\n\\d y\n;'; SELECT 2;\n\n  \\q  \nSELECT 3"
    found = list(inputs(text.splitlines(keepends=True)))
    assert found == ["-- first\nSELECT\n 1;\n", "\\d x", "SELECT '\n\\d y\n;'; SELECT 2;\n", "\\q", "SELECT 3"]


def test_statements_over_several_lines(type_: Typist) -> None:
    out, err = type_("\\format csv", "SELECT 'a;", "b' AS x,", "2 AS y;", "SELECT 3 AS z; SELECT 4 AS z;")
    assert (out, err) == ('x,y\n"a;\nb",2\nz\n3\nz\n4\n', "")


def test_tables_have_at_most_fifty_rows_unless_asked(type_: Typist) -> None:
    out, err = type_("FROM range(100);")
    assert len(out.splitlines()) == 52
    assert err == "the first 50 rows; \\limit or another \\format shows more\n"
    out, err = type_("\\limit 3", "FROM range(100);")
    assert ([line.strip() for line in out.splitlines()[2:]], err) == (["0", "1", "2"], "")


def test_mistakes_are_told_with_their_place_and_the_shell_goes_on(type_: Typist) -> None:
    out, err = type_("\\format csv", "SELECT prise", "FROM trades;", "SELECT 1 AS a;")
    assert out == "a\n1\n"
    lines = err.splitlines()
    assert lines[0].startswith("tidelog: ")
    assert lines[-2:] == ["  SELECT prise", "         ^"]


def test_leaving(type_: Typist) -> None:
    for way in ("\\q", "quit", "EXIT;"):
        assert type_("\\format csv", "SELECT 1 AS a;", way, "SELECT 2 AS a;") == ("a\n1\n", "")


def test_help_is_there_for_who_does_not_know_the_commands_yet(type_: Typist) -> None:
    out, _ = type_("help")
    assert "\\?" in out
    assert "\\d [STREAM]" in out


def test_what_is_being_typed_is_forgotten_by_an_interrupt(type_: Typist) -> None:
    assert type_("\\format csv", "SELECT 1,", "\x03SELECT 2 AS a;") == ("a\n2\n", "")


# -- changes ----------------------------------------------------------------------------------------------------------


def test_a_store_is_opened_for_writing_when_something_changes(type_: Typist) -> None:
    insert = "INSERT INTO trades (ts, price) VALUES (TIMESTAMP '2030-01-01', 7);"
    out, err = type_("\\format csv", insert, "SELECT price FROM trades ORDER BY ts DESC LIMIT 1;")
    assert (out, err) == ("count\n1\nprice\n7.0\n", "")
    assert len(stored("events")) == TRADES.num_rows + 1


def test_a_shell_that_reads_locks_nothing(trades: list[Any], tmp_path: Path) -> None:
    with Session(tmp_path / "events") as session, tidelog.open(tmp_path / "events") as store:
        session.run("FROM trades;")
        store.stream("trades").append({"ts": ["2030-01-01"], "price": [1.0]})
    with tidelog.open(tmp_path / "events") as store, Session(tmp_path / "events", read_only=True) as session:
        store.stream("trades").append({"ts": ["2030-01-02"], "price": [1.0]})
        with pytest.raises(tidelog.ReadOnlyError):
            session.run("DROP STREAM trades;")


# -- interrupts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ctrl-C as soon as a query is one that people wait for."""
    waited: list[str] = []

    @contextmanager
    def interrupt() -> Iterator[None]:
        waited.append("")
        os.kill(os.getpid(), signal.SIGINT)
        yield

    monkeypatch.setattr(running, "waiting", interrupt)
    return waited


@pytest.mark.parametrize(
    "statement",
    [
        ENDLESS,
        "SELECT sum(a.price * b.range) FROM trades a, range(100000000000) b",
        "CREATE STREAM x AS SELECT TIMESTAMP '2026-01-01' + to_microseconds(range) AS ts FROM range(10000000000)",
        "INSERT INTO trades (ts) SELECT TIMESTAMP '2026-01-01' + to_microseconds(range) FROM range(10000000000)",
    ],
)
def test_an_interrupt_stops_the_query_and_not_the_shell(type_: Typist, interrupted: list[str], statement: str) -> None:
    out, err = type_(f"{statement};", "\\format csv", "SELECT count(*) AS n FROM trades; SHOW STREAMS;")
    assert len(interrupted) == 1
    assert (out, err) == (f"n\n{TRADES.num_rows}\nname\ntrades\n", "tidelog: interrupted\n")


def test_an_interrupt_ends_tidelog_sql(cli: Cli, trades: list[Any], interrupted: list[str]) -> None:
    run = cli("sql", ENDLESS, "-s", "events")
    assert (run.code, run.out, run.err) == (130, "", "tidelog: interrupted\n")


def test_what_was_done_before_it_could_be_stopped_was_done() -> None:
    class Busy:
        """A store that goes on with what it does when it is asked to stop."""

        is_asked = threading.Event()

        def interrupt(self) -> None:
            self.is_asked.set()

    busy = Busy()

    def work(results: object) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        busy.is_asked.wait()
        return 6

    assert running.interruptible(lambda: busy, work) == 6  # type: ignore[arg-type,return-value]  # all it is asked for


# -- commands ---------------------------------------------------------------------------------------------------------


def test_streams_and_what_they_have(type_: Typist) -> None:
    out, _ = type_("\\format jsonl", "\\d")
    assert json.loads(out) == {"name": "trades"}
    for name in ("trades", '"trades"', "trades;"):
        out, err = type_("\\format jsonl", f"\\d {name}")
        rows = [json.loads(line) for line in out.splitlines()]
        columns = {row["column_name"]: row["column_type"] for row in rows if "column_name" in row}
        assert columns == {"ts": "TIMESTAMP", "symbol": "VARCHAR", "price": "DOUBLE", "volume": "BIGINT"}
        assert {"name": "fanout", "value": "64"} in rows
        assert rows[-1] == {"rows": TRADES.num_rows}
    _, err = type_("\\d trade")
    assert "did you mean 'trades'?" in err


def test_help_names_every_command(type_: Typist) -> None:
    out, err = type_("\\?")
    assert err == ""
    for name in ("\\?", "\\q", "\\d [STREAM]", "\\timing", "\\format table|", "\\limit", "\\o [FILE]", "\\i FILE"):
        assert name in out


def test_timing(type_: Typist) -> None:
    _, err = type_("\\timing on", "SELECT 1;", "\\timing", "SELECT 1;")
    first, took, last = err.splitlines()
    assert (first, last) == ("timing is on", "timing is off")
    assert took.endswith((" ms", " s"))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("table", "a  b  \n──────\n1  x|y\n"),
        ("markdown", "| a | b |\n|---:|---|\n| 1 | x\\|y |\n"),
        ("csv", "a,b\n1,x|y\n"),
        ("json", '[\n{"a": 1, "b": "x|y"}\n]\n'),
        ("jsonl", '{"a": 1, "b": "x|y"}\n'),
    ],
)
def test_formats(type_: Typist, form: str, expected: str, tmp_path: Path) -> None:
    out, err = type_(f"\\format {form}", "SELECT 1 AS a, 'x|y' AS b;", "\\o out", "SELECT 1 AS a, 'x|y' AS b;")
    trimmed = [line.rstrip() for line in out.splitlines()]
    assert (trimmed, err) == ([line.rstrip() for line in expected.splitlines()], "")
    assert (tmp_path / "out").read_text() == out


def test_output_to_a_file_and_back(type_: Typist, tmp_path: Path) -> None:
    out, err = type_("\\format csv", "\\o a b", "SELECT 1 AS x;", "SELECT 2 AS x;", "\\o", "SELECT 3 AS x;", "\\o no/x")
    assert (out, err) == ("x\n3\n", "tidelog: no/x: No such file or directory\n")
    assert (tmp_path / "a b").read_text() == "x\n1\nx\n2\n"


def test_files_are_run_up_to_the_first_error(type_: Typist, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\format csv\nSELECT 1 AS x;\n\\i b.sql\nSELECT 3 AS x;")
    (tmp_path / "b.sql").write_text("SELECT 2 AS x;")
    assert type_("\\i a.sql") == ("x\n1\nx\n2\nx\n3\n", "")
    (tmp_path / "b.sql").write_text("SELECT nothing;")
    out, err = type_("\\i a.sql", "SELECT 4 AS x;")
    assert out == "x\n1\nx\n4\n"
    assert "nothing" in err
    (tmp_path / "b.sql").write_text("\\i b.sql")
    _, err = type_("\\i b.sql")
    assert err == "tidelog: b.sql: 16 files run each other already; expected fewer\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("\\formt csv", "there is no command \\formt; did you mean 'format'?"),
        ("\\format parquet", "\\format: found 'parquet'; expected one of table, markdown, csv, json, jsonl"),
        ("\\limit many", "\\limit: found 'many'; expected a number of rows"),
        ("\\timing maybe", "\\timing: found 'maybe'; expected on or off"),
        ("\\q now", "\\q takes nothing; found 'now' behind it"),
        ("\\i", "\\i: expected the name of a file behind it"),
        ("\\i nowhere.sql", "nowhere.sql: No such file or directory"),
    ],
)
def test_commands_that_cannot_be(type_: Typist, line: str, said: str) -> None:
    out, err = type_(line)
    assert out == ""
    assert err.startswith(f"tidelog: {said}")


# -- history ----------------------------------------------------------------------------------------------------------


def test_history_is_kept_for_its_owner_alone(type_: Typist, tmp_path: Path) -> None:
    type_("\\format csv", "SELECT 1 AS a;")
    path = tmp_path / "state" / "tidelog" / "history"
    assert history_path() == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    type_("SELECT", "2;")
    assert list(History(path).load_history_strings()) == ["SELECT\n2;", "SELECT 1 AS a;", "\\format csv"]


def test_a_history_that_cannot_be_kept_is_no_error(
    type_: Typist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert type_("\\format csv", "SELECT 1 AS a;") == ("a\n1\n", "")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_path() == tmp_path / ".local" / "state" / "tidelog" / "history"


# -- completion -------------------------------------------------------------------------------------------------------


class Known:
    """Some names."""

    def streams(self) -> Sequence[str]:
        return ["trades", "quotes", "sensors/1", "Mixed"]

    def columns(self, stream: str) -> Sequence[str]:
        return {
            "trades": ["ts", "price", "symbol"],
            "quotes": ["ts", "bid", "order"],
            "sensors/1": ["ts", "price per unit"],
            "Mixed": ["ts", "Power"],
        }[stream]

    def functions(self) -> Sequence[str]:
        return ["pow", "approx_count_distinct", "bit_count"]

    def reserved(self) -> Collection[str]:
        return {"order", "select"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM |", ["trades", "quotes", '"sensors/1"', "Mixed"]),
        ("SELECT * FROM tr|", ["trades"]),
        ("SELECT * FROM se|", ['"sensors/1"']),
        ('SELECT * FROM "se|', ['"sensors/1"']),
        ("select * from mi|", ["Mixed"]),
        ("SELECT p| FROM trades", ["price", "pow", "partition by", "preceding", "pivot"]),
        ("SELECT PARTI|", ["PARTITION BY"]),
        ("SELECT po|", ["Power", "pow"]),
        (
            "SELECT b| FROM trades JOIN quotes USING (ts)",
            ["bid", "bit_count", "between", "by name", "bigint", "boolean", "blob"],
        ),
        ("SELECT q.| FROM trades t, quotes AS q", ["ts", "bid", '"order"']),
        ("SELECT t.p| FROM trades t, quotes AS q", ["price"]),
        ("SELECT quotes.o| FROM quotes WHERE x", ['"order"']),
        ("SELECT x.p| FROM trades t", []),
        ('SELECT "pri| FROM "sensors/1"', ['"price per unit"']),
        ("SELECT pri| FROM 'trades'", ["price", '"price per unit"']),
        ("SELECT 'pri|", []),
        ("SELECT 1 -- pri|", []),
        ("SELECT /* pri|", []),
        ("SELECT |", []),
        ("ALTER STREAM q|", ["quotes"]),
        ("INSERT INTO q|", ["quotes"]),
        ("SELECT 1; DESCRIBE t|", ["trades"]),
        ("\\f|", ["\\format"]),
        ("\\format j|", ["json", "jsonl"]),
        ("\\d s|", ["sensors/1"]),
        ("\\timing |", ["on", "off"]),
        ("\\q x|", []),
    ],
)
def test_what_is_offered(text: str, expected: list[str]) -> None:
    before, _, behind = text.partition("|")
    assert list(offer(before, behind, Known()).texts) == expected


def test_what_is_offered_replaces_what_was_typed() -> None:
    assert offer("SELECT * FROM tra", "", Known()).replaced == 3
    assert offer('SELECT * FROM "sens', "", Known()).replaced == 5
    assert offer("\\for", "", Known()).replaced == 4
    assert offer("\\d sen", "", Known()).replaced == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT vol", ("volume", -3)),
        ("FROM tra", ("trades", -3)),
        ("SELECT approx_count_d", ("approx_count_distinct", -14)),
        ("FROM gen", None),
    ],
)
def test_names_of_a_store_are_offered(
    trades: list[Any], tmp_path: Path, text: str, expected: tuple[str, int] | None
) -> None:
    with Session(tmp_path / "events") as session:
        found = list(SqlCompleter(session).get_completions(Document(text), CompleteEvent()))
    assert [(each.text, each.start_position) for each in found] == ([] if expected is None else [expected])


def test_words_that_duckdb_keeps_for_itself_are_quoted() -> None:
    reserved = shared("UTC").reserved
    assert {"order", "select", "left"} <= reserved
    assert not {"price", "ts", "value"} & reserved


# -- without a terminal -----------------------------------------------------------------------------------------------


def test_standard_input(cli: Cli, trades: list[Any]) -> None:
    text = b"\\format csv\nSELECT count(*) AS n\nFROM trades;\nEXPLAIN SELECT count(*) FROM trades;\nSELECT 2 AS a"
    run = cli("shell", "-s", "events", stdin=text)
    assert (run.code, run.err) == (0, "")
    lines = run.out.splitlines()
    assert lines[:3] == ["n", str(TRADES.num_rows), "plan"]
    assert "from the index" in run.out
    assert lines[-2:] == ["a", "2"]


def test_standard_input_ends_with_the_first_error(cli: Cli, trades: list[Any]) -> None:
    run = cli("shell", "-s", "events", stdin=b"\\format csv\nSELECT 1 AS a;\nSELECT * FROM trade;\nSELECT 2 AS a;\n")
    assert (run.code, run.out) == (1, "a\n1\n")
    assert "did you mean 'trades'?" in run.err
    assert run.err.rstrip().endswith("^")
    assert cli("shell", "-s", "events", stdin=b"SELECT 'x").code == 1
    assert cli("shell", "-s", "events", stdin=b"\\q\nSELECT * FROM trade;").code == 0
    assert cli("shell", "-s", "events", stdin=b"").code == 0
    assert cli("shell", "-s", "nowhere", stdin=b"SELECT 1").code == 1


def test_read_only(cli: Cli, trades: list[Any]) -> None:
    run = cli("shell", "-s", "events", "--read-only", stdin=b"DROP STREAM trades;")
    assert run.code == 1
    assert "reading" in run.err
    assert len(stored("events")) == TRADES.num_rows


def test_time_zones(cli: Cli, trades: list[Any]) -> None:
    text = b"\\format csv\nSELECT hour(TIMESTAMPTZ '2026-01-01 00:00+00') AS h"
    assert cli("shell", "-s", "events", "--timezone", "Asia/Tokyo", stdin=text).out == "h\n9\n"


def test_a_pipe_does_not_load_what_a_prompt_needs(trades: list[Any], tmp_path: Path) -> None:
    script = "import sys; from tidelog.cli import main; main(['shell', '-s', 'events']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], input="SELECT 1 AS a;", capture_output=True, text=True, cwd=tmp_path, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "duckdb" in loaded
    assert "prompt_toolkit" not in loaded
