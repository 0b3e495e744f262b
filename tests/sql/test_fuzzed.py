"""Texts that are nearly statements end in results or in errors of tidelog, and change nothing that they must not.

Valid statements and those of the hostile corpus, with words exchanged, left out, doubled, put together and cut off.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from support.queries.hostile import STATEMENTS, State
from tidelog.engine.store import Store
from tidelog.model.errors import TidelogError
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import tokens

VALID = [
    "SELECT * FROM s",
    "SELECT count(*), sum(n), avg(x) FROM s WHERE ts >= '2026-01-01' AND n BETWEEN 1 AND 5",
    "SELECT time_bucket(INTERVAL 1 HOUR, ts) AS b, max(x) FROM s GROUP BY b HAVING max(x) > 1 ORDER BY b DESC LIMIT 3",
    "WITH c AS (SELECT n, x FROM s WHERE k = 'a'), d AS (FROM c) SELECT * FROM d JOIN s USING (n)",
    "SELECT *, _seq FROM s AT (VERSION => 2) ORDER BY ts LIMIT 2",
    "SELECT n, row_number() OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s",
    "SELECT k, n FROM s QUALIFY rank() OVER (PARTITION BY k ORDER BY n) = 1",
    "SELECT a.n FROM s a ASOF JOIN s b ON a.k = b.k AND a.ts >= b.ts",
    "SELECT a.n, b.* FROM s a ASOF NEAREST LEFT JOIN s b USING (k, ts) TOLERANCE '1 h' WHERE a.n > 1",
    "SELECT window_start, k, sum(n) FROM TUMBLE(TABLE s, DESCRIPTOR(ts), '1 h', '5 m') GROUP BY 1, window_end, k",
    "SELECT n FROM HOP(DATA => TABLE (SELECT * FROM s), TIMECOL => DESCRIPTOR(ts), SLIDE => '1 h', SIZE => '2 h') w",
    "SELECT window_end, count(*) FROM SESSION(TABLE s PARTITION BY k, n, DESCRIPTOR(ts), '1 h') GROUP BY ALL",
    "SELECT l.n, r.*, time FROM WINDOW_JOIN(TABLE s AS l, TABLE s r DESCRIPTOR(ts), ON => l.k = r.k AND l.x < r.x, "
    "LEFT => '1 h' SLIDE '2 m', RIGHT => 3 ROWS SLIDE 2, TIME => time, COMPLETE_ONLY => true) w ORDER BY w.time",
    "SELECT k, max(x) FROM s GROUP BY k, window(ts, '2 h', early => '1 h') HAVING revision = 1",
    "SELECT k, list(n ORDER BY ts), {'a': sum(n)} FROM s GROUP BY ALL",
    "SELECT [i * 2 FOR i IN [1, 2, 3] IF i > 1], list_transform([1], lambda q: q + 1)",
    "SELECT n FROM s UNION ALL SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT sum(i) FROM r",
    "SELECT CASE WHEN x > 1 THEN 'a' ELSE k END, x::INTEGER, CAST(n AS VARCHAR), TRY_CAST(k AS DATE) FROM s",
    "PIVOT s ON k IN ('a', 'b') USING sum(n)",
    "FROM streams('*') SELECT _stream, count(*) GROUP BY 1",
    "SELECT ?, $name, now(), current_date",
    "EXPLAIN SELECT count(*) FROM s",
    "DESCRIBE s",
    "SUMMARIZE SELECT n FROM s",
    "SHOW STREAMS",
    "SHOW OPTIONS FROM s",
    "SELECT 'it''s', E'a\\n', $$;$$, \"n\" /* c */ FROM s -- d",
    "VALUES (1, 'a'), (2, NULL)",
    "SELECT * FROM range(10) t(i) TABLESAMPLE 5 ROWS",
    "SELECT * EXCLUDE (n) REPLACE (x + 1 AS x), COLUMNS('k.*') FROM s",
]
CHANGES = [
    "CREATE STREAM IF NOT EXISTS made (ts TIMESTAMP, a INTEGER NOT NULL) WITH (time = 'ts', split = '1d')",
    "INSERT INTO made (ts, a) VALUES ('2026-01-01', 1), (now(), 2)",
    "ALTER STREAM made ADD COLUMN b DOUBLE",
    "ALTER STREAM made SET (retention = '7d')",
    "DELETE FROM made WHERE ts < '2020-01-01'",
    "CREATE STREAM other AS SELECT ts, n FROM s",
    "DROP STREAM IF EXISTS other",
]
STRANGE = [
    "\0",
    "\N{ZERO WIDTH SPACE}",
    "\N{NO-BREAK SPACE}",
    "'",
    '"',
    "--",
    "/*",
    "*/",
    ";",
    "$$",
    "\\",
    "\ud800",
    "é",
    "🙂",
]
LIMITS = ("", " LIMIT 5", "; SELECT 1", ")", " WHERE", " FROM s", ";")
LONGEST = 10.0
"""Seconds that a statement may take before it is stopped: some are right, and without end."""


class Mutations:
    """Nearly statements, by a seed."""

    def __init__(self, corpus: list[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._corpus = corpus
        self._words = sorted({token.text for text in VALID + CHANGES for token in tokens(text)})

    def text(self) -> str:
        """One of them."""
        text = self._random.choice(self._corpus)
        for _ in range(self._random.randint(1, 4)):
            text = self._changed(text)
        return text

    def _changed(self, text: str) -> str:
        choose = self._random
        try:
            parts = [token.text for token in tokens(text)]
        except SqlError:
            parts = text.split(" ")
        if len(parts) > 400 or not parts:
            return text[: choose.randint(0, 200)]
        at = choose.randrange(len(parts))
        what = choose.randrange(9)
        if what == 0:
            del parts[at]
        elif what == 1:
            parts.insert(at, parts[choose.randrange(len(parts))])
        elif what == 2:
            parts[at] = choose.choice(self._words)
        elif what == 3:
            other = choose.choice(self._corpus).split(" ")
            parts[at : at + choose.randint(0, 3)] = other[choose.randrange(len(other)) :][:6]
        elif what == 4:
            parts.insert(at, choose.choice(STRANGE))
        elif what == 5:
            return " ".join(parts)[: choose.randint(0, len(text))]
        elif what == 6:
            parts.append(choose.choice(LIMITS))
        elif what == 7:
            parts[at] = choose.choice(["NULL", "-1", "1e400", "99999999999999999999", "''", "0x", "1__0", "TRUE", "*"])
        else:
            other = parts[at:]
            choose.shuffle(other)
            parts[at:] = other[:20]
        return " ".join(parts)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    rows = {
        "ts": ["2026-01-01 08:00", "2026-01-01 09:00", "2026-01-02 08:00"],
        "n": [1, 2, 3],
        "k": ["a", "b", "a"],
        "x": [0.5, None, 2.25],
    }
    fields = [("ts", pa.timestamp("us")), ("n", pa.int64()), ("k", pa.string()), ("x", pa.float64())]
    with tidelog.open(tmp_path_factory.mktemp("fuzzed") / "store", maintenance="manual", sql_memory="128MB") as opened:
        opened.create_stream("s", pa.schema(fields), "ts", data=rows).flush()
        opened.sql("SELECT 1").fetchall()
        yield opened


def run(store: Store, text: str) -> str:
    """What became of a text; raises what is no error of tidelog's."""
    stopping = threading.Timer(LONGEST, store.interrupt)
    stopping.start()
    try:
        for batch in store.sql(text).reader():
            if batch.num_rows:
                break
        return "result"
    except TidelogError:
        return "error"
    finally:
        stopping.cancel()


def campaign(store: Store, corpus: list[str], count: int, seed: int, *, changes: bool) -> dict[str, int]:
    """Try so many: the same ones on any machine."""
    root = Path(str(store._medium))
    before = State(root)
    told = {"result": 0, "error": 0}
    for number in range(seed + 1, seed + count + 1):
        text = Mutations(corpus, number).text().replace("{out}", str(root.parent / "out"))
        try:
            told[run(store, text)] += 1
        except BaseException as error:
            raise AssertionError(f"seed {number}: {type(error).__name__}: {error}\n{text!r}") from error
        if number % 20 == 0:
            after = State(root)
            assert (after.environ, after.directory, after.beside) == (before.environ, before.directory, before.beside)
            assert changes or after.content == before.content, f"seed {number}: {text!r}"
        if changes and number % 500 == 0:
            for name in store.streams():
                if name != "s":
                    store.drop_stream(name)
            store.sweep()
    assert os.environ == before.environ
    return told


READING = [*VALID, *(text for text in STATEMENTS if len(text) < 500 and "STREAM" not in text and "INSERT" not in text)]
READING = [text for text in READING if "DELETE" not in text.upper()]


def test_nearly_statements_end_in_results_or_errors(store: Store) -> None:
    told = campaign(store, READING, 1500, 0, changes=False)
    assert told["error"] > 20
    assert told["result"] > 0


def test_nearly_changes_end_in_results_or_errors(store: Store) -> None:
    told = campaign(store, [*VALID, *CHANGES * 4], 1000, 1_000_000, changes=True)
    assert told["error"] > 20
    assert store.check() == []


@pytest.mark.soak
def test_many_nearly_statements(store: Store) -> None:
    campaign(store, READING, 150_000, 10_000_000, changes=False)
    campaign(store, [*STATEMENTS, *VALID, *CHANGES * 20], 100_000, 20_000_000, changes=True)
    assert store.check() == []
