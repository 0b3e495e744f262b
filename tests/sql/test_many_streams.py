"""Many streams as one relation: streams('pattern'), with the name of each row's stream beside it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64())])


def rows(shift: int) -> pa.Table:
    times = pa.array([(shift + 3 * i) * 1_000_000 for i in range(100)], pa.timestamp("us"))
    return pa.table([times, pa.array([float(i + shift) for i in range(100)])], schema=SCHEMA)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("many"), maintenance="manual") as opened:
        for number in range(3):
            opened.create_stream(f"sensors/{number}", SCHEMA, "ts", data=rows(number))
        opened.create_stream("other", pa.schema([("at", pa.int64())]), "at", data={"at": [1]})
        yield opened


QUERIES = [
    "SELECT _stream, count(*), sum(x) FROM {} GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM {} ORDER BY ts, _stream LIMIT 5",
    "SELECT count(*) FROM {} s WHERE s._stream = 'sensors/1' AND ts >= '1970-01-01 00:01'",
    "SELECT sum(x) FROM {} WHERE _stream IN ('sensors/0', 'sensors/2') OR x = 7",
    "SELECT _stream FROM {} WHERE x = 99 ORDER BY 1",
    "SELECT max(x) FROM {} a JOIN {} b USING (ts, x)",
    "SELECT count(*) FROM {} WHERE x > 50 AND _stream LIKE '%2'",
    "SELECT max(_stream) FROM {}",
]


@pytest.mark.parametrize("text", QUERIES)
def test_the_same_rows_as_a_union(store: Store, text: str) -> None:
    tables = [rows(number).append_column("_stream", [[f"sensors/{number}"] * 100]) for number in range(3)]
    with duckdb.connect() as connection:
        connection.register("united", pa.concat_tables(tables))
        expected = connection.sql(text.replace("{}", "united")).fetchall()
    assert store.sql(text.replace("{}", "streams('sensors/*')")).fetchall() == expected


def test_only_streams_that_are_asked_for_are_read(store: Store) -> None:
    result = store.sql("SELECT sum(x) FROM streams('sensors/*') WHERE _stream = 'sensors/2'")
    assert result.fetchone() == (float(sum(range(2, 102))),)
    (relation,) = result._query.relations.values()
    assert len(relation.readings) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM streams('nothing*')", "no stream matches 'nothing\\*'"),
        ("FROM streams('*')", "have different columns"),
        ("FROM streams()", "expected streams"),
        ("FROM streams(1)", "expected streams"),
    ],
)
def test_what_cannot_be(store: Store, text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        store.sql(text)
