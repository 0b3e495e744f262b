"""The oracle: the same rows as tables of a plain DuckDB, and whether its answer and ours are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from support.queries.world import World
from tidelog.model.errors import GrainError, TidelogError
from tidelog.sql.errors import SqlError


@dataclass
class Query:
    """One question, as tidelog is asked and as DuckDB is asked."""

    text: str
    plain: str
    params: Any = None
    timezone: str = "UTC"
    as_of: int | None = None
    ordered: bool = False
    """The order of the rows is determined."""
    whole: str | None = None
    """The plain text without LIMIT, where it is left open which rows are taken."""
    keys: int = 0
    """Of so many columns at the front of a row, the values are determined nevertheless."""
    reduced: bool = False
    """It may be that there are no rows left to answer it."""
    renamed: bool = False
    """Columns without names are written in another way for DuckDB."""
    features: tuple[str, ...] = field(default=(), compare=False)


class Oracle:
    """A DuckDB with the rows of a world."""

    def __init__(self, world: World) -> None:
        self._connection = duckdb.connect()
        self._zones: dict[str, duckdb.DuckDBPyConnection] = {}
        self.versions: dict[str, list[int]] = {}
        run = self._connection.execute
        for schema in ("plain", "numbered"):
            run(f"CREATE SCHEMA {schema}")
        for name, plain in world.plain.items():
            table = plain.table(_numbers(world, name))
            self._connection.register("given", table)
            run(f'CREATE TABLE numbered."{name}" AS FROM given')
            run(f'CREATE TABLE plain."{name}" AS SELECT * EXCLUDE (_seq) FROM given')
            numbers = sorted(table["_seq"].to_pylist())
            self.versions[name] = [numbers[len(numbers) * part // 4] for part in range(4)] if numbers else [0]
            for version in self.versions[name]:
                for schema, columns in (("plain", "* EXCLUDE (_seq)"), ("numbered", "*")):
                    past = f"SELECT {columns} FROM given WHERE _seq < {version}"
                    run(f'CREATE TABLE {schema}."{name}@{version}" AS {past}')
        for name, table in world.tables.items():
            self._connection.register("given", table)
            run(f"CREATE TABLE plain.{name} AS FROM given")
            run(f"CREATE TABLE numbered.{name} AS FROM given")
        self._connection.unregister("given")

    def ask(self, text: str, params: Any, timezone: str, *, numbered: bool) -> pa.Table:
        """What it says."""
        if timezone not in self._zones:
            self._zones[timezone] = self._connection.cursor()
            self._zones[timezone].execute(f"SET TimeZone = '{timezone}'")
            self._zones[timezone].execute("SET threads = 1")
        cursor = self._zones[timezone]
        cursor.execute(f"USE {'numbered' if numbered else 'plain'}")
        return cursor.sql(text, params=params).to_arrow_table()

    def close(self) -> None:
        self._connection.close()


def _numbers(world: World, name: str) -> Mapping[int, int]:
    """The sequence numbers of rows by their ids, and a check that these are the rows that should be there."""
    plain = world.plain[name]
    if plain.reduced:
        return {row["id"]: row["id"] for row in plain.rows}
    found = world.store.stream(name).scan(columns=["id", "_seq"]).read_all()
    numbers = dict(zip(found["id"].to_pylist(), found["_seq"].to_pylist(), strict=True))
    assert sorted(found["id"].to_pylist()) == sorted(row["id"] for row in plain.rows)
    places = sorted((row["ts"], row["id"], numbers[row["id"]]) for row in plain.rows)
    by_time = sorted(places, key=lambda each: (each[0], each[2]))
    assert by_time == places  # ids tell the order of the events of one time
    return numbers


def difference(world: World, oracle: Oracle, query: Query) -> str | None:
    """How our answer differs from that of DuckDB; None if it does not."""
    numbered = "_seq" in query.text
    expected: pa.Table | None = None
    failure = ""
    try:
        expected = oracle.ask(query.plain, query.params, query.timezone, numbered=numbered)
    except duckdb.Error as error:
        failure = str(error)
    try:
        found = world.store.sql(
            query.text, query.params, tables=world.tables, as_of=query.as_of, timezone=query.timezone
        ).arrow()
    except GrainError as error:
        return None if query.reduced else f"raised {error!r}"
    except SqlError as error:
        return None if expected is None else f"raised SqlError: {error}\nexpected {_shown(expected)}"
    except TidelogError as error:
        return f"raised {error!r}\nexpected {failure or _shown(expected)}"
    if expected is None:
        return f"found {_shown(found)}\nexpected the error {failure}"
    is_named = (
        "@" in query.plain or query.renamed or found.schema.names == expected.schema.names
    )  # names of the past are other names
    if not is_named or found.schema.types != expected.schema.types:
        return f"found columns {found.schema}\nexpected {expected.schema}"
    if found.num_rows == expected.num_rows and _same(query, oracle, found, expected, numbered=numbered):
        return None
    return f"found {_shown(found)}\nexpected {_shown(expected)}"


def _same(query: Query, oracle: Oracle, found: pa.Table, expected: pa.Table, *, numbered: bool) -> bool:
    if query.whole is not None:
        whole = oracle.ask(query.whole, query.params, query.timezone, numbered=numbered)
        keys = list(range(query.keys))
        if keys and rows(found.select(keys)) != rows(expected.select(keys)):
            return False
        return not Counter(rows(found)) - Counter(rows(whole))
    if found.equals(expected):
        return True
    ours, theirs = rows(found), rows(expected)
    return ours == theirs if query.ordered else Counter(ours) == Counter(theirs)


def rows(table: pa.Table) -> list[str]:
    """Rows as texts that are equal if and only if values are, NaN too; minus zero is zero."""
    columns = [[_text(value) for value in column.to_pylist()] for column in table.columns]
    return [" | ".join(row) for row in zip(*columns, strict=True)] if columns else [""] * table.num_rows


def _text(value: Any) -> str:
    if value == "-nan":  # the sign of what is no number depends on the order in which it was computed
        return "'nan'"
    return repr(value + 0.0) if isinstance(value, float) else repr(value)


def _shown(table: pa.Table | None) -> str:
    if table is None:
        return "an error"
    shown = sorted(rows(table))
    return f"{len(shown)} rows\n    " + "\n    ".join(shown[:12])
