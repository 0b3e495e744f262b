"""The sealed DuckDB that answers: no files, no network, no extensions, no settings, no variables of Python.

What it may use is a list: statements are those that :mod:`tidelog.sql.statements` knows, tables those that are given,
functions that make tables those named here. Its memory is limited, and what is more is spilled into a directory that
goes with it (:mod:`tidelog.storage.media.scratch`).
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.expr.database.connection import answers
from tidelog.model.errors import ClosedError, InputError
from tidelog.sql.text.tree import Parser
from tidelog.storage.media.medium import Medium
from tidelog.storage.media.scratch import Scratch, make_scratch

if TYPE_CHECKING:
    import duckdb

TABLE_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "generate_subscripts"}
)
"""Functions that make tables of their arguments, and of nothing else."""

_TELLING: Final = re.compile(
    r"""
    __.*|pg_.*|has_.*_privilege|inet_.*|txid_.*|.*_description|format_pg_type|format_type|map_to_pg_oid
    |current_(?!date$|localtime).*|session_user|user|version|in_search_path|get_block_size|stats|vector_type|index_key
    |getenv|getvariable|nextval|currval|setval|setseed|write_log|parse_duckdb_log_message|sleep.*
    |json_serialize_.*|json_deserialize_.*|json_execute_.*|query|query_table|read_.*|add_parquet_key
    """,
    re.VERBOSE,
)
"""Functions that tell of the process or of DuckDB itself, or change something. Others compute, and nothing else."""

TELLING_NAMES: Final = frozenset(
    {"current_catalog", "current_database", "current_role", "current_schema", "current_user", "session_user", "user"}
)
"""Names that are such functions where there is no column of the name."""

MEMORY: Final = "512MB"
"""What DuckDB may use before it spills: what reads the streams, and what is fetched, comes on top."""
_LEAST: Final = 16_000_000
"""Bytes of it without which not even small statements can be answered."""
_UNITS: Final = {"B": 1} | {
    unit: size**power
    for power, letter in enumerate("KMGT", 1)
    for unit, size in ((f"{letter}B", 1000), (f"{letter}IB", 1024))
}

_SEALED: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
}


def is_telling(name: str) -> bool:
    """Whether a function of some name, in lower case, tells of the process or of DuckDB itself, or changes it."""
    return _TELLING.fullmatch(name) is not None


class Database:
    """A sealed DuckDB, opened when it is first used. Any thread may ask it for cursors."""

    def __init__(self, timezone: str = "UTC", memory: int | None = None, medium: Medium | None = None) -> None:
        """With so many bytes of memory; what is more is spilled into the store on a medium, if one is given."""
        self._timezone = timezone
        self.memory = memory_limit(MEMORY) if memory is None else memory
        """Bytes that it may compute with before it spills."""
        self._medium = medium
        self._mutex = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._parser: Parser | None = None
        self._closing: weakref.finalize[..., Database] | None = None
        self._closed = False
        self.prepared: dict[object, object] = {}
        """Statements that were read before (:mod:`tidelog.sql.prepared`), for who holds the mutex."""
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._cursors_mutex = threading.Lock()  # of its own: the other one is held while a statement is planned

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one query; close it."""
        with self._mutex:
            cursor = self._opened().cursor()
        with self._cursors_mutex:
            self._cursors.add(cursor)
        return cursor

    def interrupt(self) -> None:
        """Stop all queries under way, from another thread: they raise."""
        import duckdb

        with self._cursors_mutex:
            cursors = list(self._cursors)
        for cursor in cursors:
            with suppress(duckdb.Error):  # it was closed
                cursor.interrupt()

    @property
    def mutex(self) -> threading.RLock:
        """Held by whoever uses the parser."""
        return self._mutex

    @property
    def parser(self) -> Parser:
        """What reads and prints statements; for who holds the mutex."""
        with self._mutex:
            if self._parser is None:
                self._parser = Parser(self._opened().cursor())
            return self._parser

    @functools.cached_property
    def aggregates(self) -> frozenset[str]:
        """The names of functions that aggregate."""
        return self._functions("aggregate") | {"count_star"}

    @functools.cached_property
    def functions(self) -> frozenset[str]:
        """The names of functions that statements may use, but for those that make tables."""
        known = self._functions("scalar", "aggregate", "macro", "window") | {"count_star", "unnest"}
        return frozenset(name for name in known if not is_telling(name))

    @functools.cached_property
    def reserved(self) -> frozenset[str]:
        """Words that are names of columns only in quotes, in lower case."""
        cursor = self.cursor()
        try:
            found = cursor.execute("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
        finally:
            cursor.close()
        return frozenset(name.lower() for name, kind in found if kind in ("reserved", "type_function"))

    def _functions(self, *kinds: str) -> frozenset[str]:
        with self._mutex:
            cursor = self._opened().cursor()
            found = cursor.execute("SELECT DISTINCT function_name, function_type FROM duckdb_functions()").fetchall()
            cursor.close()
        return frozenset(name.lower() for name, kind in found if kind in kinds)

    def type_of(self, arrow: pa.DataType) -> str:
        """What DuckDB calls a type of Arrow."""
        cursor = self.cursor()
        try:
            return str(cursor.from_arrow(pa.schema([("x", arrow)]).empty_table()).types[0])
        finally:
            cursor.close()

    def check(self) -> None:
        """Raise :class:`ClosedError` once it was ended."""
        if self._closed:
            raise ClosedError(
                "this result belongs to a store that was closed; fetch results before the store is closed"
            )

    def _opened(self) -> duckdb.DuckDBPyConnection:
        self.check()
        if self._connection is None:
            import duckdb

            scratch = make_scratch(self._medium)
            try:
                connection = duckdb.connect(config={**_SEALED, "temp_directory": str(scratch.path / "spilled")})
            except BaseException:
                scratch.remove()
                raise
            self._closing = weakref.finalize(self, _close, connection, scratch, os.getpid())
            try:
                connection.execute(f"SET memory_limit = '{self.memory}B'")
                # A statement without end must not keep others from storing events.
                connection.execute(f"SET max_temp_directory_size = '{shutil.disk_usage(scratch.path).free // 2}B'")
                connection.execute("SET GLOBAL asof_loop_join_threshold = 0")  # every relation counts as one row for it
                try:
                    connection.execute("SET GLOBAL TimeZone = '" + self._timezone.replace("'", "''") + "'")
                except (duckdb.Error, RuntimeError) as error:  # the latter for what is no Unicode
                    raise InputError(
                        f"found timezone {self._timezone!r}; expected one such as 'Europe/Berlin'"
                    ) from error
                connection.execute("SET lock_configuration = true")
            except BaseException:
                self._closing()
                raise
            self._connection = connection
        return self._connection

    def recover(self) -> None:
        """After an error of DuckDB's: if it has ended it, which refuses everything then, open another one next time."""
        with self._mutex:
            if self._connection is not None and not answers(self._connection):
                self._parser = self._connection = None
                if self._closing is not None:
                    self._closing()

    def close(self) -> None:
        """End it; results that were not fetched cannot be any more."""
        with self._mutex:
            self._closed = True
            self._parser = self._connection = None
            if self._closing is not None:
                self._closing()


def _close(connection: duckdb.DuckDBPyConnection, scratch: Scratch, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has none of DuckDB's threads
        connection.close()
        scratch.remove()


def memory_limit(given: object) -> int:
    """Bytes of memory, given as their number or as a text such as ``"512MB"``."""
    found: float = 0
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B)\s*", given, re.IGNORECASE | re.ASCII)
        found = float(match[1]) * _UNITS.get(match[2].upper(), 0) if match is not None else 0
    elif isinstance(given, int) and not isinstance(given, bool):
        found = given
    if not _LEAST <= found < 1 << 62:
        raise InputError(
            f"found {given!r} for sql_memory; expected a size such as '512MB' or '2GB', or a number of bytes, at least "
            f"{_LEAST // 10**6}MB"
        )
    return int(found)


_shared: dict[tuple[str, int], Database] = {}
_shared_mutex = threading.Lock()


def shared(timezone: str, memory: int | None = None) -> Database:
    """The one for statements without a store, in a time zone and with so many bytes of memory."""
    key = timezone, memory_limit(MEMORY) if memory is None else memory
    with _shared_mutex:
        if key not in _shared:
            _shared[key] = Database(*key)
        return _shared[key]


def _close_shared() -> None:
    for database in _shared.values():
        database.close()


atexit.register(_close_shared)  # else DuckDB complains of what is left when the interpreter ends
