"""Many streams as one table: those whose names match a pattern, with the name of its stream beside every row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.engine.store import Store, manifests_of
from tidelog.model.errors import InputError, NotFoundError, SchemaError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.spark.datasource.options import SourceOptions, as_time
from tidelog.spark.datasource.source import PARTITION_ROWS, STREAM_COLUMN, PiecesPartition, PiecesReader, StreamPiece
from tidelog.spark.datasource.types import check_declared, spark_schema
from tidelog.spark.runtime.errors import plainly
from tidelog.store.manifest.manifest import ManifestLog
from tidelog.store.manifest.schemas import SchemaHistory
from tidelog.store.read.pieces import plan, within
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext

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


class ManyReader(PiecesReader):
    """Reads the streams of a pattern."""

    def __init__(self, options: SourceOptions, declared: StructType) -> None:
        """Raises unless everything asked for can be read."""
        if options.push_filters:
            raise InputError("option 'push_filters' is for single streams; say what you want with 'where'")
        super().__init__(options, declared, options.stream_column or STREAM_COLUMN)
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
                    self.condition(history.layout.stored)
        assert checked is not None
        self._interval: Interval = checked.clock.interval(as_time(options.start), as_time(options.end))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_streams": {}}  # tasks are told what to read

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
            condition = self.condition(snapshot.layout.stored)
            pieces = plan(snapshot, ranges, condition, self._numbers, rows_per_piece=size)
        return [StreamPiece(name, log.directory, piece) for piece in pieces]
