"""Reading streams: what Spark calls to read one, and the way in for users, :func:`read`.

Spark makes a :class:`~tidelog.spark.datasource.provider.TidelogSource` in a Python process beside the driver, asks it
for a schema and a reader, and has the reader plan partitions. Tasks elsewhere get the reader, pickled, and one
partition each. Everything that can be wrong is found while planning, so that no job is started in vain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.expr import Predicate, predicate
from tidelog.model.arguments import flag
from tidelog.model.errors import NotFoundError, SchemaError
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.spark.datasource.filters import Taken, translate
from tidelog.spark.datasource.options import NAME, SourceOptions, as_time, option_texts, shared_path
from tidelog.spark.datasource.types import ToSpark, check_declared, folded_duplicates, rows_without_columns
from tidelog.spark.runtime.errors import own_errors, plainly
from tidelog.spark.runtime.session import is_remote
from tidelog.spark.runtime.workers import settle
from tidelog.storage import FileMedium
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.pieces import Piece, count_piece, plan, scan_piece
from tidelog.store.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSH_SETTING: Final = "spark.sql.python.filterPushdown.enabled"
"""Whether Spark offers filters to data sources in Python. Without it, those that would take some are an error."""

STREAM_COLUMN: Final = "_stream"
"""The column with the names of many streams, unless the option ``stream_column`` says another one."""

PARTITION_ROWS = 1 << 21
"""Rows that a task reads, about, unless the option ``partition_size`` says otherwise."""


@dataclass(frozen=True)
class StreamPiece:
    """A part of a stream."""

    name: str
    directory: str
    """That of the stream, in the store."""
    piece: Piece


class PiecesPartition(InputPartition):
    """What one task reads, of one stream or of several."""

    def __init__(self, pieces: Sequence[StreamPiece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)

    def __repr__(self) -> str:
        names = sorted({each.name for each in self.pieces})
        rows = sum(each.piece.rows for each in self.pieces)
        return f"PiecesPartition({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: about {rows} rows)"


class PiecesReader(DataSourceReader):
    """Reads pieces of streams, or what options leave of them."""

    def __init__(self, options: SourceOptions, declared: StructType, column: str | None = None) -> None:
        """``column`` is that with the names of streams, if there is one."""
        self._options = options
        self._names = declared.names
        self._column = column
        self._declared = StructType([field for field in declared if field.name != column])
        self._numbers = chosen_numbers(options.as_of)
        self._taken = Taken()

    def condition(self, stored: pa.Schema) -> Predicate | None:
        """The condition of the options and those of the filters taken, over stored rows."""
        own, pushed = self._options.where, self._taken.where
        if own is not None:
            predicate(own, stored)  # so that an error is about the text that the user wrote
        texts = [f"({text}\n)" for text in (own, pushed) if text is not None]
        return predicate(" AND ".join(texts), stored) if texts else None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some pieces, in order of time in each."""
        if not isinstance(partition, PiecesPartition):  # what Spark makes of no partitions at all
            return
        medium = FileMedium(self._options.path)
        stored: pa.Schema | None = None
        for each in partition.pieces:
            layout = each.piece.layout
            if layout.stored is not stored:  # mostly all streams have the same
                stored = layout.stored
                wanted = self._declared.names or [layout.schema.time]  # something must be read to know how many rows
                columns = pa.schema([stored.field(name) for name in wanted])
                convert = ToSpark(columns, self._declared, self._options.ns).convert
                condition = self.condition(stored)
            try:
                if not self._declared.names and condition is None and each.piece.numbers is None:
                    counted = rows_without_columns(count_piece(medium, each.directory, each.piece))
                    yield from (self._with_name(rows, each.name) for rows in counted)
                    continue
                for batch in scan_piece(medium, each.directory, each.piece, wanted, condition):
                    for rows in convert(batch):
                        yield self._with_name(rows, each.name)
            except NotFoundError as error:
                raise NotFoundError(
                    f"{error}. The stream has changed since this read was planned, and its grace period, "
                    f"{each.piece.manifest.options.grace:g} s, is over: read it anew, or give it a longer one"
                ) from None
        settle()

    def _with_name(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        if self._column is None or self._column not in self._names:
            return rows
        place = self._names.index(self._column)
        field = pa.field(self._column, pa.string(), nullable=False)
        return rows.add_column(place, field, pa.repeat(pa.scalar(name), rows.num_rows))


class TidelogReader(PiecesReader):
    """Reads a stream."""

    def __init__(self, options: SourceOptions, declared: StructType) -> None:
        """Raises unless everything asked for can be read."""
        super().__init__(options, declared)
        with Store.open(options.path, read_only=True) as store:
            stream = store.stream(options.stream)
            self._schema = stream.schema
            self.stored: pa.Schema = writer_of(stream).context.layout.stored
            self.version = writer_of(stream).context.version
            """Of the schema that the query was planned with, and keeps."""
        check_declared(declared, self._schema, options.ns)
        self.interval: Interval = self._schema.clock.interval(as_time(options.start), as_time(options.end))
        self.condition(self.stored)

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """Disjoint ranges of time of about equal work, of the stream as it is now."""
        with Store.open(self._options.path, read_only=True) as store:
            writer = writer_of(store.stream(self._options.stream))
            interval = self.interval.intersect(self._taken.interval)
            return self.planned(writer.published(self.version), interval, self._numbers, writer.context.directory)

    def planned(
        self, snapshot: Snapshot, interval: Interval, numbers: SeqSet | None, directory: str
    ) -> list[InputPartition]:
        """The rows with some numbers of an interval, as disjoint ranges of time of about equal work."""
        if interval.is_empty:
            return []
        size = self._options.partition_size or PARTITION_ROWS
        condition = self.condition(self.stored)
        pieces = plan(snapshot, Intervals((interval,)), condition, numbers, rows_per_piece=size)
        return [PiecesPartition([StreamPiece(self._options.stream, directory, piece)]) for piece in pieces]


class FilteringReader(TidelogReader):
    """Takes filters that Spark pushes down, if ``spark.sql.python.filterPushdown.enabled`` is set; off by default.

    Spark 4.3 keeps what a source made of the filters with the ``load()`` that the DataFrame came from, one for all its
    uses, instead of with each scan. The filters pushed last then decide what every other use of it reads too: after
    ``frame.where("a > 3").count()``, ``frame.count()`` counts the same rows, and in a union or join of two filtered
    uses both read what the one planned last leaves. So this is for DataFrames that are used once: filtered in one way,
    in one query. The options ``start``, ``end`` and ``where`` have no such trap.
    """

    @plainly
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (the name is Spark's)
        """Take those that the store can answer exactly; Spark applies the others."""
        self._taken, left = translate(filters, self._schema, self._options.ns)
        return left


def chosen_numbers(as_of: str | None) -> SeqSet | None:
    """The rows that the option ``as_of`` lets through; None if all."""
    if as_of is None:
        return None
    value = json.loads(as_of)
    return SeqSet.below(value) if isinstance(value, int) else SeqSet.from_list(value)


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    stream: str,
    *,
    start: Any = None,
    end: Any = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    as_of: int | SeqSet | None = None,
    partition_size: int | None = None,
    seq: bool = False,
    ns: str | None = None,
    push_filters: bool = False,
    stream_column: str | None = None,
) -> DataFrame:
    """A stream as a DataFrame; lazy, as always in Spark.

    ``path`` must mean the same store to the driver and to all workers. What is read is the stream as it is when the
    DataFrame's first action is planned: all that was flushed, by whomever. Later actions see the same; call this again
    to see more.

    ``start``, ``end`` (half-open), ``where`` and ``columns`` are as for ``Stream.scan``, and the store sees to them:
    what they leave out is not read, and without any columns (``[]``) rows are only counted. Filters and selections of
    the DataFrame only work on what has been read: Spark does not tell sources which columns a query uses, and what it
    does with filters that it pushes down is not right (``push_filters``, see :class:`FilteringReader`). So it pays to
    say here what is wanted. ``push_filters`` sets ``spark.sql.python.filterPushdown.enabled`` for the session, and
    leaves it so: it matters when queries are planned.

    ``as_of`` is a sequence number, or a set of them: other rows do not count. ``seq`` adds the column ``_seq``. ``ns``
    says what becomes of nanoseconds, ``"truncate"`` or ``"long"``. ``partition_size`` is the rows a task reads, about.

    A ``stream`` with a ``*`` stands for all streams whose names match, unless one is called so; the last column,
    ``_stream`` or what ``stream_column`` says, then has the name of its stream for every row. The streams must have the
    same columns, or those in common that are asked for.

    Raises :class:`NotFoundError`, :class:`InputError` and :class:`SchemaError` for what cannot be read. What is found
    wrong only when an action is planned is an ``AnalysisException`` of Spark with tidelog's message in it.
    """
    numbers = json.dumps(as_of.to_list()) if isinstance(as_of, SeqSet) else as_of
    for name, value in (("seq", seq), ("push_filters", push_filters)):
        flag(name, value)
    given = {
        "start": start, "end": end, "where": where, "columns": columns, "as_of": numbers, "ns": ns,
        "partition_size": partition_size, "seq": seq or None, "stream": stream, "push_filters": push_filters or None,
        "stream_column": stream_column,
    }  # fmt: skip
    texts = option_texts(given)
    place = shared_path(path, is_remote=is_remote(spark))
    SourceOptions.read({**texts, "path": place})
    if push_filters:
        spark.conf.set(PUSH_SETTING, "true")  # looked at whenever a query is planned, so it has to stay
    with own_errors():
        frame = spark.read.format(NAME).options(**texts).load(place)
        names = frame.columns  # Spark Connect looks at the stream only now
    alike = folded_duplicates(names)
    if alike is not None and spark.conf.get("spark.sql.caseSensitive") != "true":
        raise SchemaError(
            f"columns {alike[0]!r} and {alike[1]!r} differ by case only, and Spark takes them for one; set "
            "spark.sql.caseSensitive to true, or name the columns you want"
        )
    return frame
