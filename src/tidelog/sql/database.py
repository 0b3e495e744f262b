"""The sealed DuckDB that answers: no files, no network, no extensions, no settings, no variables of Python.

What it may use is a list: statements are those that :mod:`tidelog.sql.statements` knows, tables those that are given,
functions that make tables those named here. Its memory is limited, and what is more is spilled into a directory that is
removed.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.model.errors import ClosedError, InputError
from tidelog.sql.tree import Parser

if TYPE_CHECKING:
    import duckdb

TABLE_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "generate_subscripts"}
)
"""Functions that make tables of their arguments, and of nothing else."""

REFUSED_FUNCTIONS: Final = frozenset(
    {
        "getenv",
        "current_setting",
        "getvariable",
        "query",
        "query_table",
        "current_user",
        "user",
        "session_user",
        "pg_typeof",
        "txid_current",
        "nextval",
        "currval",
        "json_execute_serialized_sql",
        "read_blob",
        "read_text",
        "add_parquet_key",
        "write_log",
        "sleep",
        "pg_sleep",
        "setseed",
        "current_query",
        "current_query_id",
        "current_connection_id",
        "current_transaction_id",
    }
)
"""Functions that tell of the process, or change it."""

MEMORY: Final = "1GB"
"""What DuckDB may use before it spills."""

_SEALED: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
}


class Database:
    """A sealed DuckDB, opened when it is first used. Any thread may ask it for cursors."""

    def __init__(self, timezone: str = "UTC", memory: str = MEMORY, spill: Path | None = None) -> None:
        self._timezone = timezone
        self._memory = memory
        self._spill = spill
        self._mutex = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._parser: Parser | None = None
        self._closing: weakref.finalize[..., Database] | None = None
        self._closed = False

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one query; close it."""
        with self._mutex:
            return self._opened().cursor()

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
        with self._mutex:
            found = self._opened().cursor()
            names = found.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
            ).fetchall()
            found.close()
        return frozenset(name for (name,) in names) | {"count_star"}

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise ClosedError(
                "this result belongs to a store that was closed; fetch results before the store is closed"
            )
        if self._connection is None:
            import duckdb

            directory = Path(tempfile.mkdtemp(prefix="tidelog-sql-", dir=self._spill))
            connection = duckdb.connect(config={**_SEALED, "temp_directory": str(directory / "spilled")})
            self._closing = weakref.finalize(self, _close, connection, directory)
            try:
                connection.execute(f"SET memory_limit = '{self._memory}'")
                connection.execute("SET GLOBAL asof_loop_join_threshold = 0")  # every relation counts as one row for it
                try:
                    connection.execute("SET GLOBAL TimeZone = '" + self._timezone.replace("'", "''") + "'")
                except duckdb.Error as error:
                    raise InputError(
                        f"found timezone {self._timezone!r}; expected one such as 'Europe/Berlin'"
                    ) from error
                connection.execute("SET lock_configuration = true")
            except BaseException:
                self._closing()
                raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """End it; results that were not fetched cannot be any more."""
        with self._mutex:
            self._closed = True
            self._parser = self._connection = None
            if self._closing is not None:
                self._closing()


def _close(connection: duckdb.DuckDBPyConnection, directory: Path) -> None:
    connection.close()
    shutil.rmtree(directory, ignore_errors=True)


_shared: dict[str, Database] = {}
_shared_mutex = threading.Lock()


def shared(timezone: str) -> Database:
    """The one for statements without a store, in a time zone."""
    with _shared_mutex:
        if timezone not in _shared:
            _shared[timezone] = Database(timezone)
        return _shared[timezone]


def _close_shared() -> None:
    for database in _shared.values():
        database.close()


atexit.register(_close_shared)  # else DuckDB complains of what is left when the interpreter ends
