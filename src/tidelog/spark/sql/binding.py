"""The plan that DuckDB makes of a statement: every name bound, every type known, every cast written out.

Names, stars, ``GROUP BY ALL``, aliases that are used again, subqueries, ``QUALIFY`` and the like are no more there:
what is left are operators over numbered columns. Nothing is optimized but constants, which are computed.
"""

from __future__ import annotations

import atexit
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.sql.errors import SqlError, of_engine
from tidelog.sql.query import Query
from tidelog.sql.text.tree import Node, characters, nodes

if TYPE_CHECKING:
    import duckdb

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "memory_limit": "256MB",
    "threads": "1",
}
_KEPT: Final = "expression_rewriter"
"""The only optimizer that runs: it computes constants."""
_NUMBERS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?NAN\b')
"""Texts, which stay as they are, and no numbers."""
_NOWHERE: Final = (1 << 64) - 1
_MOST_DATABASES: Final = 8


@dataclass(frozen=True)
class Bound:
    """A statement, bound."""

    root: Node
    """The operator that gives the result."""
    names: tuple[str, ...]
    """The names of the columns of the result."""
    places: Mapping[int, int]
    """Where expressions are in the user's text, in characters, by where they are in what was bound, in bytes."""
    text: str

    def place(self, node: Node) -> int | None:
        """Where an expression of the plan is in the user's text; None if that is not known."""
        waiting: list[Any] = [node]
        while waiting:  # those that DuckDB has made have no place, but what they are made of has
            each = waiting.pop(0)
            if isinstance(each, dict):
                at = each.get("query_location", _NOWHERE)
                if at in self.places:
                    return self.places[at]
                waiting += each.values()
            elif isinstance(each, list):
                waiting += each
        return None


def bind(query: Query, timezone: str, columns: Mapping[str, pa.Schema]) -> Bound:
    """Bind a statement that was read and checked; ``columns`` has those of everything that it mentions.

    Raises :class:`SqlError` for what DuckDB refuses.
    """
    names, root = _bound(query.printed, query, timezone, columns)
    return Bound(root, names, dict(_places(query)), query.text)


def bind_part(text: str, query: Query, timezone: str, columns: Mapping[str, pa.Schema]) -> Bound:
    """The same for a part of a statement that was made of it."""
    names, root = _bound(text, query, timezone, columns)
    return Bound(root, names, {}, query.text)


def _bound(printed: str, query: Query, timezone: str, columns: Mapping[str, pa.Schema]) -> tuple[tuple[str, ...], Node]:
    import duckdb

    with _mutex, closing(_database(timezone).cursor()) as cursor:
        for name, schema in columns.items():
            cursor.register("given", schema.empty_table())
            cursor.execute(f"CREATE TEMP TABLE {_quoted(name)} AS FROM given")
            cursor.unregister("given")
        with query.told():
            names = tuple(cursor.sql(printed).columns)
        ask = "SELECT json_serialize_plan(?::VARCHAR, optimize := true, skip_null := true, skip_empty := true)"
        try:
            told = cursor.execute(ask, [printed]).fetchone()
        except duckdb.Error as error:
            raise of_engine(error, query.text, lambda _: None) from None
        assert told is not None
        plan = json.loads(_NUMBERS.sub(_number, told[0]))
        if plan["error"]:
            raise SqlError(f"DuckDB cannot tell how it would run this: {plan['error_message']}", text=query.text)
    return names, plan["plans"][0]


def _number(found: re.Match[str]) -> str:
    """What DuckDB writes for no number, as JSON has it in Python."""
    return found[0] if found[0].startswith('"') else found[0].replace("NAN", "NaN")


def _places(query: Query) -> Iterator[tuple[int, int]]:
    """Pairs of places, in the text that was bound and in the user's, of what is in both."""
    with query.database.mutex:
        printed = query.database.parser.parse(query.printed)
    for ours, theirs in zip(nodes(printed), nodes(query.tree), strict=False):
        if ours["type"] != theirs["type"]:  # it was printed in another way
            return
        if ours.get("class") in ("CONSTANT", None):  # it may stand in the place of a parameter
            continue
        at, own = ours.get("query_location", _NOWHERE), theirs.get("query_location", _NOWHERE)
        if _NOWHERE not in (at, own) and own < len(query.text.encode()):
            yield at, characters(query.text, own)


_mutex = threading.Lock()
_databases: dict[str, duckdb.DuckDBPyConnection] = {}


def _database(timezone: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB that sees nothing but the tables it is told of, for one time zone."""
    import duckdb

    if timezone not in _databases:
        while len(_databases) >= _MOST_DATABASES:
            _databases.pop(next(iter(_databases))).close()
        connection = duckdb.connect(config=_SETTINGS)
        known = [each for (each,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
        connection.execute(f"SET GLOBAL disabled_optimizers = '{','.join(each for each in known if each != _KEPT)}'")
        connection.execute("SET GLOBAL TimeZone = '" + timezone.replace("'", "''") + "'")
        connection.execute("SET lock_configuration = true")
        _databases[timezone] = connection
    return _databases[timezone]


def _close() -> None:
    for connection in _databases.values():
        connection.close()


atexit.register(_close)  # else DuckDB complains of what is left when the interpreter ends


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
