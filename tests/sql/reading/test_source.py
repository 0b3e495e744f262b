"""What DuckDB is told of a stream, what it pushes into it, and that nobody reads ahead of those who take the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.plan.reading import Reading
from tidelog.storage.read import source as blocks

ROWS = 40_000
START = 1_767_225_600_000_000
SMALL = {"few": pa.table({"site": ["a", "c"], "name": ["first", "third"]})}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    n = np.arange(ROWS)
    sites = np.array(["a", "b", "c", None], object)[n % 4]
    columns = {
        "ts": pa.array((START + n * 60_000_000) * 1000, pa.timestamp("ns")),
        "site": pa.array(sites, pa.string()),
        "x": pa.array(np.where(n % 1000 == 7, np.nan, n / 4)),
        "note": pa.array([f"{k * 7919 % 100_003:x} and {'so on ' * (k % 7)}" for k in n.tolist()]),
    }
    with tidelog.open(tmp_path_factory.mktemp("source"), maintenance="manual") as opened:
        stream = opened.create_stream("big", time="ts", data=pa.table(columns), leaf_rows=1024)
        stream.flush()
        yield opened


def readings(store: Store, text: str) -> list[Reading]:
    result = store.sql(text, tables=SMALL)
    result.arrow()
    return [reading for relation in result._query.relations.values() for reading in relation.readings]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name, count(*) AS n FROM big JOIN few USING (site) GROUP BY name ORDER BY name",
        "SELECT name, count(*) AS n FROM few JOIN big USING (site) GROUP BY name ORDER BY name",
        "SELECT name, count(*) AS n FROM big, few WHERE big.site = few.site GROUP BY name ORDER BY name",
    ],
)
def test_the_small_side_of_a_join_is_the_one_that_is_kept(store: Store, text: str) -> None:
    result = store.sql(text, tables=SMALL)
    assert result.fetchall() == [("first", ROWS // 4), ("third", ROWS // 4)]
    with result._query.opened() as running:
        plan = str(running.relation.explain())
    join = plan[plan.index("Hash Join") :]
    # The second child of a join is the one that its hash table is made of.
    assert join.index(f"~{ROWS:,} rows", join.index("├")) < join.index("~2 rows")


def test_what_a_text_confines_a_stream_to_counts_in_its_estimate(store: Store) -> None:
    text = "SELECT count(x) FROM (SELECT * FROM big WHERE ts >= TIMESTAMP '2026-01-28 00:00:00') JOIN few USING (site)"
    (relation,) = store.sql(text, tables=SMALL)._query.relations.values()
    expected = ROWS - 27 * 24 * 60
    assert relation.likely_rows == pytest.approx(expected, abs=3)


def test_nanoseconds_are_confined_though_duckdb_does_not_push_them(store: Store) -> None:
    text = "SELECT x FROM big WHERE ts >= TIMESTAMP '2026-01-28 00:00:00'"
    (reading,) = readings(store, text)
    assert reading.counters.leaves <= 4  # of 40
    assert reading.rows == ROWS - 27 * 24 * 60


@pytest.mark.parametrize(
    "condition",
    [
        "x < 3 OR x BETWEEN 5000 AND 5001",
        "NOT (x < 9999)",  # not a number is greater than all
        "x IN (1.25, 1.5, 1.75)",
        "site IS NULL AND x > 9998",
        "note = '0 and '",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM big WHERE {}",
        "WITH w AS (SELECT * FROM big) SELECT count(*) FROM w WHERE {}",
        "SELECT count(*) FROM (SELECT * FROM big UNION ALL SELECT * FROM big WHERE false) WHERE {}",
    ],
)
def test_conditions_of_floats_and_texts_are_pushed(store: Store, condition: str, text: str) -> None:
    table = tidelog.sql(
        text.format(condition).replace("big", "rows"), tables={"rows": store.stream("big").scan().read_all()}
    )
    result = store.sql(text.format(condition))
    assert result.fetchall() == table.fetchall()
    first = next(iter(result._query.relations.values())).readings[0]
    assert first.where is not None
    assert 0 < first.rows < ROWS
    assert [(first.rows,)] == table.fetchall()  # what does not count does not come out


def test_texts_come_back_as_texts(store: Store) -> None:
    expected = store.stream("big").scan(columns=["site", "note"]).read_all()
    found = store.sql("SELECT site, note FROM big ORDER BY ts").arrow()
    assert found.schema.types == [pa.string(), pa.string()]
    assert found.to_pydict() == expected.to_pydict()
    kinds = store.sql("SELECT DISTINCT typeof(site), typeof(note) FROM big").fetchall()
    assert kinds == [("VARCHAR", "VARCHAR")]


def test_who_does_not_take_rows_keeps_others_from_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_TASK_ROWS", 1024)
    done: list[int] = []
    decode = blocks.BlockReader._decode_run

    def counting(self: blocks.BlockReader, ids: npt.NDArray[np.int64], indexes: list[int]) -> list[pa.RecordBatch]:
        done.append(int(ids[0]))
        return decode(self, ids, indexes)

    monkeypatch.setattr(blocks.BlockReader, "_decode_run", counting)
    rows = pa.table({"ts": range(1 << 19), "x": np.arange(1 << 19) / 8})
    with tidelog.open(tmp_path, maintenance="manual") as store:
        store.create_stream("s", time="ts", data=rows, leaf_rows=1024)
        reader = store.sql("SELECT ts, x FROM s").reader(1024)
        assert reader.read_next_batch().num_rows == 1024
        assert 0 < len(done) < 300  # of 512: little is read ahead of a result that nobody takes
        reader.close()


def test_conditions_are_computed_by_duckdb_inside_of_duckdb(store: Store) -> None:
    """In threads that are none of Python's, each time anew: nothing may be tied to what Python has of them."""
    text = "SELECT site, x FROM big WHERE upper(site) = ? AND x >= ? ORDER BY ts LIMIT 2"
    for n in range(30):
        assert store.sql(text, ["C", float(n)]).fetchall()[0] == ("c", float(n) + (0.5 - n) % 1)


def test_conditions_of_the_time_alone_are_not_computed_row_by_row(store: Store) -> None:
    within = "ts >= TIMESTAMP '2026-01-10 00:00:00' AND ts < TIMESTAMP '2026-01-11 00:00:00'"
    result = store.sql(f"SELECT count(*) FROM big WHERE site = 'a' AND {within}")
    assert result.fetchall() == [(24 * 60 // 4,)]
    (relation,) = result._query.relations.values()
    (reading,) = relation.readings
    assert reading.counters.leaves <= 3
    assert reading.rows == 24 * 60 // 4
