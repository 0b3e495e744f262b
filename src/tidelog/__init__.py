"""tidelog: an event store and event-stream engine whose log is the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidelog import lazy
from tidelog.model import Interval, Schema
from tidelog.model.errors import (
    ClosedError,
    ConflictError,
    CorruptionError,
    ExistsError,
    GrainError,
    InputError,
    LockedError,
    NewerReleaseError,
    NotFoundError,
    NotStoredError,
    ReadOnlyError,
    SchemaError,
    StorageError,
    TidelogError,
    TimeError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any

    import pyarrow as pa

    from tidelog.engine.store import Store
    from tidelog.merging import Merged
    from tidelog.sql.result import Result
    from tidelog.store.backup import BackupReport, Progress
    from tidelog.store.salvage import SalvageReport

__all__ = [
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "ExistsError",
    "GrainError",
    "InputError",
    "Interval",
    "LockedError",
    "NewerReleaseError",
    "NotFoundError",
    "NotStoredError",
    "ReadOnlyError",
    "Schema",
    "SchemaError",
    "StorageError",
    "TidelogError",
    "TimeError",
    "merge",
    "open",
    "reconstitute",
    "restore",
    "salvage",
    "situations",
    "sql",
]

lazy.install()


def open(
    path: Path | str,
    *,
    read_only: bool = False,
    maintenance: Literal["auto", "manual"] = "auto",
    sql_memory: str | int | None = None,
) -> Store:
    """The store in a directory, which is created on first use; with ``read_only`` nothing is ever written.

    A thread keeps the streams that are written in order (merges splits, deletes what is beyond the retention, removes
    old files), unless ``maintenance`` is ``"manual"``: then ``Store.maintain`` does it when it is called.

    ``sql_memory`` is what SQL may take of memory to compute with, such as ``"2GB"``, by default 512 MB; what is more is
    written to a directory in the store, or of the system if ``read_only``, that is removed.

    Close it, or use it as a context manager. Raises :class:`NotFoundError` if ``read_only`` and there is no store.
    """
    with lazy.without_collecting():
        from tidelog.engine.store import Store  # with Arrow's engines, which most imports do not need

    return Store.open(path, read_only=read_only, maintenance=maintenance, sql_memory=sql_memory)


def restore(backup: Path | str, target: Path | str, *, progress: Progress | None = None) -> BackupReport:
    """Make a store in a new or empty directory of what ``Store.backup`` made, verified before and after.

    ``progress`` is told the stream, the bytes copied and the bytes in all. Raises :class:`CorruptionError` if the
    backup is damaged, :class:`ExistsError` if there is something in the target.
    """
    from tidelog.engine.store import restore

    return restore(backup, target, progress=progress)


def salvage(damaged: Path | str, target: Path | str) -> SalvageReport:
    """Make a store in a new or empty directory of what is whole in a damaged one, which is left as it is.

    For stores that :func:`open`, or reading, refuses with :class:`CorruptionError`, and of which there is no backup
    that is new enough. Sequence numbers, deletions and the last appends of producers are kept as far as they can be
    read. Nobody may be writing to the damaged one meanwhile. The report tells what is lost: read it before anything is
    appended to the new store. Raises :class:`ExistsError` if there is something in the target.
    """
    from tidelog.engine.store import salvage

    return salvage(damaged, target)


def sql(
    text: str,
    params: Any = None,
    *,
    tables: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    sql_memory: str | int | None = None,
) -> Result:
    """The result of SQL over tables in memory, without a store; see ``Store.sql`` for what it may say.

    ``tables`` are Arrow, pandas or Polars tables by name, or anything with ``__arrow_c_stream__``; ``sql_memory`` is
    what computing may take of memory, see :func:`open`.
    """
    from tidelog.sql.statements import run_on_tables

    return run_on_tables(text, params, tables, timezone, sql_memory)


def situations(
    table: Any,
    text: str | None = None,
    *,
    define: Mapping[str, str] | Sequence[str] | None = None,
    pattern: str | Sequence[str] | None = None,
    within: str | timedelta | int | None = None,
    returns: Mapping[str, str] | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    time: str | None = None,
    mode: Literal["completed", "early"] = "completed",
    dialect: Literal["allen", "thesis"] = "allen",
    timezone: str = "UTC",
    sql_memory: str | int | None = None,
) -> Result:
    """The matches of a pattern of situations in a table in memory, or, without a pattern, the situations themselves.

    What is asked is a ``text`` of the language, ``FROM ... PARTITION BY ... DEFINE ... PATTERN ... WITHIN ... RETURN``,
    whose FROM gives the table its name; or its parts as arguments. ``define`` has a condition, perhaps with a bound of
    its length, by the name of each situation, ``pattern`` the relations between them, one text or one for each
    constraint, ``within`` how long a match may last, ``returns`` what comes out, by name, ``time`` the column of the
    time if it is not the only one. See docs/situations.md; the rest is as for :func:`sql`.
    """
    from tidelog.sql.situations import asked
    from tidelog.sql.statements import situations_on_tables

    question = asked(
        text,
        define=define,
        pattern=pattern,
        within=within,
        returns=returns,
        partition_by=partition_by,
        time=time,
        mode=mode,
        dialect=dialect,
    )
    return situations_on_tables(table, question, timezone, sql_memory)


def merge(
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    time: str | None = None,
    key: str | Sequence[str] | bool | None = None,
    algorithm: str = "auto",
    policy: str = "lazy",
    check: Literal["inputs", "full"] = "inputs",
    delay: Any = None,
    order: Literal["none", "rising", "strict"] = "none",
    same_ties: bool = False,
    inserts_only: bool = False,
    output: Literal["events", "elements"] | None = None,
    stables: Literal["each", "last"] = "each",
    concurrent: bool = False,
    feedback: bool = True,
) -> Merged:
    """One stream of inputs that are copies of it: each tells the same events, in its own order and at its own pace.

    Inputs are Arrow data or iterables of batches, of plain events with a column ``time`` or of elements. ``key`` are
    the columns that tell events of one time apart, True for all. :func:`tidelog.merging.merge` says what the others
    are, docs/merging.md when to use which.
    """
    from tidelog.merging import merge

    return merge(
        inputs,
        time=time,
        key=key,
        algorithm=algorithm,
        policy=policy,
        check=check,
        delay=delay,
        order=order,
        same_ties=same_ties,
        inserts_only=inserts_only,
        output=output,
        stables=stables,
        concurrent=concurrent,
        feedback=feedback,
    )


def reconstitute(elements: Any, *, frozen: bool = False) -> pa.Table:
    """The events that a stream of elements stands for; see :func:`tidelog.merging.reconstitute`."""
    from tidelog.merging import reconstitute

    return reconstitute(elements, frozen=frozen)
