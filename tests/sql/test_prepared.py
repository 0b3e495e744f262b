"""A text that was asked before is answered as if it never was: of what its names mean now, and what is there now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path) as opened:
        opened.create_stream("s", time="ts", data=rows(3))
        yield opened


def rows(count: int, **more: list[object]) -> pa.Table:
    return pa.table({"ts": range(count), "x": [each / 4 for each in range(count)], **more})


TEXT = "SELECT * FROM s WHERE x >= 0 ORDER BY ts DESC"


def asked(store: Store, text: str = TEXT, **others: object) -> list[tuple[object, ...]]:
    """What is the same when it is asked again."""
    found = store.sql(text, **others).fetchall()  # type: ignore[arg-type]  # as users give them
    assert store.sql(text, **others).fetchall() == found  # type: ignore[arg-type]
    return found


def test_new_events_are_seen(store: Store) -> None:
    assert len(asked(store)) == 3
    store.stream("s").append(rows(5).slice(3))
    assert len(asked(store)) == 5
    assert len(asked(store, as_of=4)) == 4
    assert len(asked(store)) == 5


def test_other_columns_are_seen(store: Store) -> None:
    assert len(asked(store)[0]) == 2
    store.sql("ALTER STREAM s ADD COLUMN y DOUBLE")
    assert asked(store)[0] == (2, 0.5, None)
    store.drop_stream("s")
    with pytest.raises(SqlError, match="no stream or table 's'"):
        store.sql(TEXT)
    store.create_stream("s", time="ts", data=rows(1, z=["a"]))
    assert asked(store) == [(0, 0.0, "a")]


def test_a_table_of_the_name_comes_first(store: Store) -> None:
    assert len(asked(store)) == 3
    assert asked(store, tables={"s": rows(1)}) == [(0, 0.0)]
    assert asked(store, tables={"S": rows(2)}) == [(1, 0.25), (0, 0.0)]
    assert len(asked(store)) == 3


def test_a_name_may_come_to_mean_another_stream(store: Store) -> None:
    text = "SELECT count(*) FROM S"
    assert asked(store, text) == [(3,)]
    store.create_stream("S", time="ts", data=rows(7))
    assert asked(store, text) == [(7,)]
    store.drop_stream("S")
    assert asked(store, text) == [(3,)]


def test_versions_that_are_written_stay(store: Store) -> None:
    text = "SELECT count(*), count(x) FROM s AT (VERSION => 2)"
    assert asked(store, text) == [(2, 2)]
    store.stream("s").append(rows(9).slice(3))
    assert asked(store, text) == [(2, 2)]


def test_the_time_of_the_call_is_told_anew(store: Store) -> None:
    text = "SELECT now(), count(*) FROM s"
    first, second = (store.sql(text).fetchall()[0][0] for _ in range(2))
    assert first < second


def test_values_of_parameters_are_those_that_are_given(store: Store) -> None:
    text = "SELECT ts FROM s WHERE ts > ? ORDER BY ts"
    assert [store.sql(text, [at]).fetchall() for at in (0, 1)] == [[(1,), (2,)], [(2,)]]


def test_sequence_numbers_are_there_where_they_are_named(store: Store) -> None:
    assert asked(store, "SELECT *, _seq FROM s ORDER BY _seq LIMIT 1") == [(0, 0.0, 0)]
    assert asked(store, "SELECT * FROM s ORDER BY ts LIMIT 1") == [(0, 0.0)]


def test_errors_have_their_places_again(store: Store) -> None:
    text = "SELECT ts,\n  x + 'a' FROM s"
    messages = []
    for _ in range(2):
        with pytest.raises(SqlError) as raised:
            store.sql(text).fetchall()
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "line 2" in messages[0]
