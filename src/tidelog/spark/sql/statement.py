"""``tidelog.spark.sql``: a statement over streams and tables, as a DataFrame."""

from __future__ import annotations

import datetime
import os
import pickle
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.arguments import found, integer, names
from tidelog.model.arguments import text as checked_text
from tidelog.model.errors import InputError
from tidelog.operators.rowpattern.syntax import RowPattern
from tidelog.spark.datasource.options import shared_path
from tidelog.spark.datasource.source import PARTITION_ROWS
from tidelog.spark.jobs.tasks import beside_the_store
from tidelog.spark.operators.inputs import Input
from tidelog.spark.operators.row_patterns import run_row_pattern
from tidelog.spark.operators.running import Late, run
from tidelog.spark.runtime.session import is_remote
from tidelog.spark.sql.columns import positions, table
from tidelog.spark.sql.continuous import continuous
from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.operators import Source, statement
from tidelog.spark.sql.planning import Asked, ContinuousAsked, Operated, Planned, RowsAsked, Selecting, plan_statement
from tidelog.spark.sql.reading import (
    frame_of_frame,
    frame_of_stream,
    frame_of_table,
    is_frame,
    name_of,
    plain_schema,
    schema_of_frame,
)
from tidelog.sql.errors import SqlError
from tidelog.sql.reading.sources import checked_tables
from tidelog.sql.text.tree import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.statisticalAggregate": "false",
}
"""What a statement is analyzed under; expressions keep it."""

_PLACE: Final = "#place"
"""The column with the numbers of rows, by which those of one time are in order."""
_MARK: Final = "\0"
"""What names of tables are written between until they are known: no text of a statement has it."""
_SHORTEST: Final = 19
"""The Java from which on texts of floats have no digits that are not needed."""


def sql(
    session: SparkSession,
    text: str,
    params: Any = None,
    *,
    store: str | os.PathLike[str] | None = None,
    tables: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    as_of: int | None = None,
    partition_size: int | None = None,
    lateness: Any = None,
    late: Late = "drop",
    tasks: int | None = None,
    imports: Sequence[str] = (),
) -> DataFrame:
    """A ``SELECT`` over the streams of a store and over tables, in the dialect of ``store.sql``, as a DataFrame.

    ``store`` is the path of a store, as for :func:`tidelog.spark.read`. ``tables`` may be DataFrames of Spark, of
    batches or streaming, and whatever ``store.sql`` takes. ``params``, ``timezone`` and ``as_of`` are as there.

    All streams are read as of the moment of the call, within their grace period, with the columns, times and conditions
    that the statement needs; what the index knows is answered at the call. The rows are those that ``store.sql`` gives;
    whatever Spark would compute otherwise, and is not rewritten, is refused (see docs/spark-sql.md).
    ``partition_size`` is the rows that a task reads, about.

    A statement with event clauses (windows, joins by time) whose tables are streaming DataFrames is a continuous query
    (docs/continuous.md says what it may contain). ``lateness`` and ``late`` are then as for
    :func:`tidelog.spark.run_operator`; ``lateness`` may be a dict by the names of tables. ``tasks`` is by how many
    tasks event clauses are computed, ``imports`` are modules of user-defined aggregates that these import.

    Raises :class:`SqlError`, at the place in the text, for what cannot be asked.
    """
    checked_text("a statement", text)
    zone = checked_text("timezone", timezone)
    path = None if store is None else shared_path(store, is_remote=is_remote(session))
    frames, arrows = _parted(tables)
    columns = {name: schema_of_frame(name, each) for name, each in frames.items()}
    columns |= {name: plain_schema(each.schema) for name, each in arrows.items()}
    asked = Asked(
        text,
        params,
        columns,
        None if as_of is None else integer("as_of", as_of, 0),
        zone,
        datetime.datetime.now(datetime.UTC),
        PARTITION_ROWS if partition_size is None else integer("partition_size", partition_size, 1),
        frozenset(name for name, each in frames.items() if each.isStreaming),
    )
    modules = names("imports", imports, "module")
    count = None if tasks is None else integer("tasks", tasks, 1)
    with _told(text):
        try:
            return _asked(session, path, asked, frames, arrows, modules, count)
        except ContinuousAsked:
            streams = {name: frames[name] for name in asked.streaming}
            looked_up = {name: each for name, each in {**frames, **arrows}.items() if name not in streams}
            return continuous(
                text, params, zone, streams, looked_up, lateness=lateness, late=late, tasks=count, imports=modules
            )


def _asked(
    session: SparkSession,
    path: str | None,
    asked: Asked,
    frames: Mapping[str, DataFrame],
    arrows: Mapping[str, Any],
    imports: Sequence[str],
    tasks: int | None,
) -> DataFrame:
    while True:
        try:
            planned = (
                plan_statement(None, asked) if path is None else beside_the_store(session, plan_statement, path, asked)
            )
            break
        except RowsAsked as question:
            before = replace(asked, text=question.text, params=None)
            rows = _asked(session, path, before, frames, arrows, imports, tasks).toArrow()
            asked = replace(asked, rows={**asked.rows, question.text: rows})
    return _Writing(session, path, asked, planned, frames, arrows, imports, tasks).whole()


@dataclass(frozen=True)
class _Writing:
    """A planned statement as DataFrames."""

    session: SparkSession
    path: str | None
    asked: Asked
    planned: Planned
    frames: Mapping[str, DataFrame]
    arrows: Mapping[str, Any]
    imports: Sequence[str]
    tasks: int | None

    def whole(self) -> DataFrame:
        """What the statement gives."""
        own = self.planned.whole
        return self._selected(own).toDF(*own.bound.names)

    def _selected(self, own: Selecting, *, as_numbers: bool = False) -> DataFrame:
        """What a statement, or a part of one, gives."""
        used: dict[str, Any] = {}
        tables = [*self.planned.operations, *self.planned.answers, *self.planned.given]

        def source(scan: Node) -> Source:
            number, name = int(scan["number"]), table(scan)
            known = f"r{number}" if number in own.readings else f"g{tables.index(name)}"
            if known not in used:
                used[known] = self._frame(own, number, name)
            places = own.readings[number].columns if number in own.readings else positions(scan)
            return Source(f"{_MARK}{known}{_MARK}", {place: name_of(place) for place in places})

        tools = Tools(partial(_has_shortest_texts, self.session))
        written = statement(own.bound, self.asked.timezone, source, tools, as_numbers=as_numbers)
        if used:  # then Spark looks for names in braces
            written = written.replace("{", "{{").replace("}", "}}")
        for known in used:
            written = written.replace(f"{_MARK}{known}{_MARK}", f"{{{known}}}")
        with _settled(self.session):
            return self.session.sql(written, **used)

    def _frame(self, own: Selecting, number: int, name: str) -> DataFrame:
        planned = self.planned
        if number in own.readings:
            assert self.path is not None
            return frame_of_stream(self.session, self.path, own.readings[number], self.asked.rows_per_task)
        if name in planned.operations:
            return self._operated(planned.operations[name])
        if name in planned.answers:
            return frame_of_table(self.session, name, planned.answers[name])
        given = planned.given[name]
        if given in self.frames:
            return frame_of_frame(self.frames[given])
        return frame_of_table(self.session, given, self.arrows[given])

    def _operated(self, operation: Operated) -> DataFrame:
        """What an event clause gives."""
        make = pickle.loads(operation.make)
        is_pattern = isinstance(make, RowPattern)
        schemas = [make.schema] if is_pattern else [each.schema for each in make().inputs]
        frames, places = [], []
        for (selecting, is_numbered), schema in zip(operation.inputs, schemas, strict=True):
            places.append(_PLACE if is_numbered else None)
            columns = [*schema.names, *([_PLACE] if is_numbered else [])]
            frames.append(self._selected(selecting, as_numbers=True).toDF(*columns))
        if is_pattern:
            found = run_row_pattern(frames[0], make, place=places[0], tasks=self.tasks, imports=self.imports)
            return frame_of_frame(found)
        shapes = make().inputs
        inputs = [Input(frame, shape, place=place) for frame, shape, place in zip(frames, shapes, places, strict=True)]
        return frame_of_frame(run(inputs, make, tasks=self.tasks, imports=self.imports))


def _parted(tables: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of Spark, and those in memory."""
    if tables is not None and not isinstance(tables, Mapping):
        raise found("tables", tables, "a dict of names and tables")
    frames = {name: each for name, each in (tables or {}).items() if is_frame(each)}
    arrows = checked_tables({name: each for name, each in (tables or {}).items() if name not in frames})
    return frames, arrows


_JAVAS: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""The versions of Java that sessions run on."""


def _has_shortest_texts(session: SparkSession) -> bool:
    if session not in _JAVAS:
        ask = "SELECT java_method('java.lang.System', 'getProperty', 'java.specification.version') AS version"
        (row,) = session.sql(ask).collect()
        _JAVAS[session] = int(str(row["version"]).split(".")[0])
    return _JAVAS[session] >= _SHORTEST


@contextmanager
def _settled(session: SparkSession) -> Iterator[None]:
    """Settings under which expressions mean what they should; as they were afterwards.

    With Spark Connect statements are analyzed later, so they have to be set there.
    """
    other = {}
    for name, value in _SETTINGS.items():
        known = str(session.conf.get(name))
        if known.lower() != value.lower():
            other[name] = known
    if other and is_remote(session):
        name = next(iter(other))
        raise InputError(
            f"{name} is {other[name]!r} in this session of Spark Connect; statements of tidelog need "
            f"{_SETTINGS[name]!r}: session.conf.set({name!r}, {_SETTINGS[name]!r})"
        )
    for name in other:
        session.conf.set(name, _SETTINGS[name])
    try:
        yield
    finally:
        for name, value in other.items():
            session.conf.set(name, value)


@contextmanager
def _told(text: str) -> Iterator[None]:
    """What Spark says of a statement, as an error of ours."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        message = str(error).split("\n")[0]
        raise SqlError(f"Spark does not take what the statement became: {message}", text=text) from error
    except RecursionError:
        raise SqlError("the statement is nested too deeply; split it up", text=text, position=0) from None
    except Exception as error:
        if "StackOverflowError" not in str(error):
            raise
        raise SqlError("the statement is nested too deeply for Spark; split it up", text=text, position=0) from error
