"""Many streams as one table: those whose names match a pattern, with the name of its stream beside every row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.engine.store import Store, manifests_of
from tidelog.expr import Predicate, predicate
from tidelog.model.errors import InputError, NotFoundError, SchemaError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.spark.datasource.options import SourceOptions, as_time
from tidelog.spark.datasource.source import PARTITION_ROWS, chosen_numbers
from tidelog.spark.datasource.types import ToSpark, check_declared, spark_schema
from tidelog.spark.runtime.errors import plainly
from tidelog.spark.runtime.workers import settle
from tidelog.storage import FileMedium
from tidelog.store.manifest.manifest import ManifestLog
from tidelog.store.manifest.schemas import SchemaHistory
from tidelog.store.read.pieces import Piece, plan, scan_piece, within
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext

STREAM_COLUMN = "_stream"
"""The column with the names of streams, unless the option ``stream_column`` says another one."""

_OPENING_ROWS = 20_000
"""Rows that a task reads in the time that it takes to open a stream, about."""


def is_pattern(store: Store, name: str) -> bool:
    """Whether a name stands for all streams that match it: it has a ``*``, and no stream is called so itself."""
    return "*" in name and name not in store


def matching(store: Store, pattern: str) -> list[str]:
    """The names of streams that match, sorted; ``*`` stands for any text. Raises :class:`NotFoundError` for none."""
    match = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch
    names = store.streams()
    found = [name for name in names if match(name)]
    if not found:
        raise NotFoundError(f"no stream matches {pattern!r}; {did_you_mean(pattern, names)}")
    return found


def refuse_stream_column(options: SourceOptions) -> None:
    """Raise if a column of names was asked for that a single stream does not have."""
    if options.stream_column is not None:
        raise InputError(
            f"option 'stream_column' is for many streams, and {options.stream!r} is one; expected a pattern such as "
            "'sensors/*'"
        )


def many_schema(store: Store, options: SourceOptions) -> StructType:
    """The columns that the streams of a pattern have in common, and the one with their names, which comes last.

    Raises :class:`SchemaError` if columns differ that are asked for; all are, unless ``columns`` says otherwise.
    """
    first, *others = matching(store, options.stream)
    own = manifests_of(store, first).load().schema
    fields = {field.name: field for field in spark_schema(own, options.columns, seq=options.seq, ns=options.ns)}
    for name in others:
        schema = manifests_of(store, name).load().schema
        if schema != own:
            found = spark_schema(schema, options.columns, seq=options.seq, ns=options.ns)
            _refuse_different(first, own, fields, name, schema, found)
            for field in found:
                if field.nullable and not fields[field.name].nullable:
                    known = fields[field.name]
                    fields[field.name] = StructField(known.name, known.dataType, True, known.metadata)
    column = options.stream_column or STREAM_COLUMN
    if column in fields:
        raise InputError(f"the streams have a column {column!r}; give that of their names another one: stream_column")
    return StructType([*fields.values(), StructField(column, StringType(), nullable=False)])


def _refuse_different(
    first: str, own: Schema, fields: dict[str, StructField], name: str, schema: Schema, found: StructType
) -> None:
    advice = "read them apart, or name columns that they have in common: columns"
    if own.time != schema.time:
        raise SchemaError(f"the time column of stream {first!r} is {own.time!r}, of {name!r} {schema.time!r}; {advice}")
    for field in found:
        known = fields.get(field.name)
        if known is None:
            raise SchemaError(f"stream {name!r} has a column {field.name!r}, {first!r} has none; {advice}")
        if known.dataType != field.dataType:
            raise SchemaError(
                f"column {field.name!r} is {known.dataType.simpleString()} in stream {first!r} and "
                f"{field.dataType.simpleString()} in {name!r}; {advice}"
            )
    missing = [each for each in fields if each not in found.names]
    if missing:
        raise SchemaError(f"stream {first!r} has a column {missing[0]!r}, {name!r} has none; {advice}")
    if own.field(own.time).type != schema.field(schema.time).type:
        raise SchemaError(
            f"the times of stream {first!r} are {own.field(own.time).type}, of {name!r} "
            f"{schema.field(schema.time).type}; read them apart"
        )


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
        return f"PiecesPartition({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: {len(self.pieces)} pieces)"


class ManyReader(DataSourceReader):
    """Reads the streams of a pattern, or what options leave of them."""

    def __init__(self, options: SourceOptions, declared: StructType) -> None:
        """Raises unless everything asked for can be read."""
        if options.push_filters:
            raise InputError("option 'push_filters' is for single streams; say what you want with 'where'")
        self._options = options
        self._column = options.stream_column or STREAM_COLUMN
        self._names = declared.names
        self._declared = StructType([field for field in declared if field.name != self._column])
        self._streams: dict[str, tuple[ManifestLog, int]] = {}
        """Of each stream its manifests and the version of its schema that is read; where it is planned only."""
        checked: Schema | None = None
        with Store.open(options.path, read_only=True) as store:
            for name in matching(store, options.stream):
                log = manifests_of(store, name)
                history = SchemaHistory(log.load())
                self._streams[name] = log, history.version
                if history.schema != checked:
                    checked = history.schema
                    check_declared(self._declared, checked, options.ns)
                    self._condition(history.layout.stored)
        assert checked is not None
        self._interval: Interval = checked.clock.interval(as_time(options.start), as_time(options.end))
        self._numbers = chosen_numbers(options.as_of)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_streams": {}}  # tasks are told what to read

    def _condition(self, stored: pa.Schema) -> Predicate | None:
        return None if self._options.where is None else predicate(self._options.where, stored)

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of time of large streams, and small streams together, of about equal work."""
        if self._interval.is_empty:
            return []
        size = self._options.partition_size or PARTITION_ROWS
        found: list[InputPartition] = []
        held: list[StreamPiece] = []
        work = 0
        for name, (log, version) in self._streams.items():
            for each in self._pieces(name, log, version, size):
                cost = each.piece.rows + _OPENING_ROWS
                if held and work + cost > size:
                    found.append(PiecesPartition(held))
                    held, work = [], 0
                held.append(each)
                work += cost
        return [*found, PiecesPartition(held)] if held else found

    def _pieces(self, name: str, log: ManifestLog, version: int, size: int) -> list[StreamPiece]:
        snapshot = Snapshots(StreamContext.of(log), log).under(version)
        ranges = Intervals((self._interval,))
        if sum(part.rows for part in snapshot.reached_by(ranges)[1]) <= size:
            pieces = within(snapshot, ranges, self._numbers)
        else:
            condition = self._condition(snapshot.layout.stored)
            pieces = plan(snapshot, ranges, condition, self._numbers, rows_per_piece=size)
        return [StreamPiece(name, log.directory, piece) for piece in pieces]

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
                condition = self._condition(stored)
            for batch in scan_piece(medium, each.directory, each.piece, wanted, condition):
                for rows in convert(batch):
                    yield self._with_name(rows, each.name)
        settle()

    def _with_name(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        if self._column not in self._names:
            return rows
        place = self._names.index(self._column)
        field = pa.field(self._column, pa.string(), nullable=False)
        return rows.add_column(place, field, pa.repeat(pa.scalar(name), rows.num_rows))


__all__ = ["STREAM_COLUMN", "ManyReader", "is_pattern", "many_schema", "matching"]
