"""One sealed DuckDB for the expressions of a process, opened when first used, and a connection to it for each thread
that evaluates something, as long as it does.

It sees nothing but the batches it is given: no files, no network, no extensions, no variables of Python. It starts no
threads, and does not rewrite what it is asked: an optimizer may hide an overflow, or compute a constant that no row
needs. What it answers is the same whatever its version knows to optimise.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

_SEALED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": "1",
    "async_threads": "0",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "temp_directory": "",
    "memory_limit": "1GB",
}

_KEPT: Final = 128
"""Projections that a thread keeps prepared."""


class _Rows:
    """What DuckDB reads as a table: whatever batch is there when a statement runs."""

    def __init__(self, schema: pa.Schema) -> None:
        self._nothing = schema.empty_table()
        self.table = self._nothing

    def clear(self) -> None:
        """Let go of the batch."""
        self.table = self._nothing

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Prepared:
    """One value for every row of tables of one schema, understood by DuckDB once.

    A statement that is prepared costs a batch least; but DuckDB gives Arrow, without a copy more, of relations alone.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, name: str, text: str, schema: pa.Schema) -> None:
        self._cursor = cursor
        self._name = name
        self._rows = _Rows(schema)
        cursor.register(name, self._rows)
        self._text = f"SELECT {text} AS x FROM {name}"
        self._relation: duckdb.DuckDBPyRelation | None = None
        self._is_statement = False

    def values(self, table: pa.Table) -> pa.Array:
        """The value for each row."""
        if self._relation is None:
            self._relation = self._cursor.sql(self._text)
        self._rows.table = table
        try:
            found = self._relation.to_arrow_table().column(0)
        finally:
            self._rows.clear()
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()

    def truths(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Where a boolean is true, neither false nor NULL."""
        if not self._is_statement:
            self._cursor.execute(f"PREPARE {self._name} AS {self._text}")
            self._is_statement = True
        self._rows.table = table
        try:
            found: Any = self._cursor.execute(f"EXECUTE {self._name}").fetchnumpy()["x"]
        finally:
            self._rows.clear()
        truths: npt.NDArray[np.bool_] = found.filled(False) if isinstance(found, np.ma.MaskedArray) else found
        return truths

    def close(self) -> None:
        """Let go of what DuckDB has of it."""
        self._relation = None
        if self._is_statement:
            self._cursor.execute(f"DEALLOCATE {self._name}")
        self._cursor.unregister(self._name)


class Connection:
    """A connection that one thread uses at a time, and what it has prepared."""

    def __init__(self, root: duckdb.DuckDBPyConnection) -> None:
        self.root = root
        self.cursor = root.cursor()
        self._prepared: OrderedDict[tuple[str, str], Prepared] = OrderedDict()
        self._names = count()

    def prepared(self, text: str, schema: pa.Schema, key: str) -> Prepared:
        """The projection of a text, over a schema that ``key`` stands for."""
        found = self._prepared.get((text, key))
        if found is None:
            found = Prepared(self.cursor, f"rows{next(self._names)}", text, schema)
            self._prepared[text, key] = found
            if len(self._prepared) > _KEPT:
                self._prepared.popitem(last=False)[1].close()
        else:
            self._prepared.move_to_end((text, key))
        return found

    def close(self) -> None:
        """End it."""
        self._prepared.clear()
        self.cursor.close()


class _Process:
    """What a process has of DuckDB. A child that is forked begins anew: it does not touch what others were using."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.root: duckdb.DuckDBPyConnection | None = None
        self.connections: list[Connection] = []
        self.idle: list[Connection] = []
        """Those that nobody uses, the last used one last. None belongs to a thread: threads of another DuckDB, which
        reads a stream, are threads of Python only while it calls, and what they had would be closed when a call ends,
        which DuckDB does not bear.
        """

    def let_go(self, root: duckdb.DuckDBPyConnection) -> None:
        """Forget a DuckDB that has ended, so that another one is opened for what comes next."""
        with self.mutex:
            if self.root is root:
                self.root = None
                self.connections.clear()
                self.idle.clear()


_process = _Process()
_of_parents = threading.local()
"""What a child has from its parent: let go of when its only thread ends, which is in time for DuckDB."""


@contextmanager
def connection() -> Iterator[Connection]:
    """A connection for the calling thread alone."""
    process = _process
    try:
        found = process.idle.pop()
    except IndexError:
        with process.mutex:
            found = Connection(_opened())
            process.connections.append(found)
    try:
        yield found
    except BaseException:
        if not answers(found.cursor):
            process.let_go(found.root)
        raise
    finally:
        if found.root is process.root:
            process.idle.append(found)


def answers(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a DuckDB goes on: some errors end it, and it refuses everything from then on."""
    import duckdb

    try:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True


def _opened() -> duckdb.DuckDBPyConnection:
    if _process.root is None:
        import duckdb

        root = duckdb.connect(config=_SEALED)
        root.execute("SET GLOBAL TimeZone = 'UTC'")
        names = [name for (name,) in root.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
        root.execute(f"SET GLOBAL disabled_optimizers = '{','.join(names)}'")
        root.execute("SET lock_configuration = true")
        _process.root = root
    return _process.root


def _close() -> None:
    """At the end of the process: DuckDB complains of what is left then."""
    with _process.mutex:
        for each in _process.connections:
            each.close()
        _process.connections.clear()
        _process.idle.clear()
        if _process.root is not None:
            _process.root.close()
            _process.root = None


def _begin_anew() -> None:
    global _process
    if _process.root is not None:
        _of_parents.kept = [*getattr(_of_parents, "kept", ()), _process]
    _process = _Process()


atexit.register(_close)
os.register_at_fork(after_in_child=_begin_anew)
