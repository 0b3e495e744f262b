"""Conditions that are the same for every row, wholly or in part, and scans without columns, against DuckDB.

The stream has everything that rows can be in: closed splits of two schemas that overlap, marks of deletion, an open
split with leaves, late rows and rows in memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.expr import EvaluationError
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int32()), ("s", pa.string())])
Row = tuple[int, int | None, str | None, float | None]


def rows(first: int, count: int, step: int, seed: int) -> list[Row]:
    dice = random.Random(seed)
    values = [None, *range(-3, 9)]
    return [
        (first + step * number, dice.choice(values), dice.choice([None, "a", "b", ""]), dice.choice([None, 0.5, 2.0]))
        for number in range(count)
    ]


def table(some: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.table([[row[index] for row in some] for index in range(len(schema))], schema=schema)


@pytest.fixture(scope="module")
def streams() -> Iterator[tuple[Stream, Stream, duckdb.DuckDBPyConnection]]:
    """The stream as its writer and as another process sees it, and the same rows in DuckDB."""
    medium = MemoryMedium()
    store = Store(medium, maintenance="manual")
    stream = store.create_stream(
        "s", SCHEMA, "ts", leaf_rows=16, fanout=4, split=4000, late_rows=1000, journal_bytes=1 << 20
    )
    model = [(*row[:3], None) for row in rows(0, 600, 10, 1)]
    stream.append(table(model, SCHEMA))
    stream.flush()
    loaded = [(*row[:3], None) for row in rows(5, 300, 20, 2)]  # over the others
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(table(loaded, SCHEMA).to_batches()[0])
        commit_bulk(writer_of(stream).manifests, writer.finish())
    anew = [(*row[:3], None) for row in rows(1003, 20, 10, 3)]
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(table(anew, SCHEMA).to_batches()[0])
        commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=Interval(1000, 1200))
    model = [row for row in model + loaded if not 1000 <= row[0] < 1200] + anew
    stream.evolve(add={"x": pa.float64()}, widen={"v": pa.int64()})
    wider = pa.schema([SCHEMA.field(0), ("v", pa.int64()), SCHEMA.field(2), ("x", pa.float64())])
    for more in (rows(6000, 300, 10, 4), rows(6001, 40, 50, 5), rows(9000, 7, 1, 6)):
        stream.append(table(more, wider))
        stream.flush()
        model += more
    stats = stream.stats()
    assert stats["rows_in_memory"] > stats["late"]["queued"] > 0
    assert len(stats["trees"]) > 4
    connection = duckdb.connect(config={"threads": 1})
    connection.register("s", table(model, wider))
    with Store(medium, read_only=True) as other:
        yield stream, other.stream("s"), connection
    store.close()


CONSTANTS = [
    *("true", "false", "null", "1 = 1", "1 = 2", "'a' = 'b'", "null = 1", "null is null", "0", "1", "not true"),
    *("not null", "1 in (1, 2)", "3 not in (1, null)", "'ab' like 'a%'", "coalesce(null, true)", "true is true"),
    *("1 between 0 and 2", "case when true then false else true end", "null is not distinct from null", "1 < 2.5"),
    *("length('abc') = 3", "cast('true' as boolean)", "try_cast('x' as integer) is null", "nullif(1, 1) is null"),
]
OF_ROWS = ["v > 3", "v = 1", "s = 'a'", "v is null", "s is not null", "x > 1", "ts < 3000", "ts >= 6000", "v in (1, 2)"]


def conditions(depth: int = 3) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(CONSTANTS) | st.sampled_from(CONSTANTS) | st.sampled_from(OF_ROWS)
    if not depth:
        return leaf
    inner = conditions(depth - 1)
    return (
        leaf
        | st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | inner.map("not ({})".format)
        | st.builds("case when {} then {} else {} end".format, inner, inner, inner)
    )


def answers(stream: Stream, where: str | None, start: int | None, end: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for names in (None, [], ["v"], ["s", "_seq"]):
        reader = stream.scan(start, end, columns=names, where=where)
        assert reader.schema.names == (names if names is not None else list(stream.schema.names))
        batches = list(reader)
        assert all(batch.num_rows for batch in batches)
        found[f"rows {names}"] = sum(batch.num_rows for batch in batches)
        assert stream.scan(start, end, columns=names, where=where).read_all().num_rows == found[f"rows {names}"]
    return found


def asked(connection: duckdb.DuckDBPyConnection, text: str, where: str | None, bounds: tuple[Any, Any]) -> Any:
    parts = [f"({where})"] if where is not None else []
    parts += [
        f"ts {operator} {bound}" for operator, bound in zip((">=", "<"), bounds, strict=True) if bound is not None
    ]
    (row,) = connection.execute(f"SELECT {text} FROM s WHERE {' AND '.join(parts) or 'true'}").fetchall()
    return row


BOUNDS = st.sampled_from([(None, None), (995, 6100), (6000, None), (2501, 2503), (7, 7), (None, 4000)])


@settings(max_examples=scaled(30))
@given(where=st.none() | conditions(), other=conditions(), bounds=BOUNDS)
def test_against_duckdb(streams: Any, where: str | None, other: str, bounds: tuple[int | None, int | None]) -> None:
    *both, connection = streams
    texts = ["count(*)", f"count(*) FILTER (WHERE {other})", f"sum(v) FILTER (WHERE {other})", "sum(1)", "max('a')"]
    texts += ["count(null)", "sum(v)", f"count(v) FILTER (WHERE ({other}) IS NULL)"]
    expected = asked(connection, ", ".join(texts), where, bounds)
    for stream in both:
        found = stream.aggregate(*bounds, texts, where=where)
        assert tuple(found[text] for text in texts) == expected
        assert set(answers(stream, where, *bounds).values()) == {expected[0]}


def test_a_constant_that_raises_does_so_where_there_are_rows(streams: Any) -> None:
    for stream in streams[:2]:
        for where in ("1 // 0 > 0", "cast('x' as integer) = 3", "1 % 0 = 1"):
            for names in (None, [], ["v"]):
                with pytest.raises(EvaluationError):
                    stream.scan(columns=names, where=where).read_all()
                assert stream.scan(7, 7, columns=names, where=where).read_all().num_rows == 0
            with pytest.raises(EvaluationError):
                stream.aggregate(None, None, "count(*)", where=where)


def test_a_condition_that_is_always_true_does_not_keep_the_index_from_answering(streams: Any) -> None:
    for stream in streams[:2]:
        stream.explain(None, None, "sum(x)")  # nodes that have been read once are not read again
        assert stream.explain(None, None, "sum(x)", where="1 = 1") == stream.explain(None, None, "sum(x)")


def test_a_row_without_columns(streams: Any) -> None:
    assert streams[0].nth(3, columns=[]) == {}
