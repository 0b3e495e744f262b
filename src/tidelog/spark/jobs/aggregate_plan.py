"""What tasks of Spark need to answer aggregates: snapshots of streams, taken once, and the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from tidelog.engine.questions import Questions
from tidelog.engine.store import Store, manifests_of
from tidelog.expr import Predicate, predicate
from tidelog.index.layout import Layout
from tidelog.model.errors import SchemaError
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.many_source import is_pattern, matching
from tidelog.spark.datasource.types import NsRule, ToSpark, spark_type
from tidelog.spark.jobs.tasks import import_all
from tidelog.storage import FileMedium
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.aggregation import Question, aggregate_all
from tidelog.store.read.pieces import Piece, open_piece, whole
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext


@dataclass(frozen=True)
class Asked:
    """What is asked, of any stream."""

    texts: tuple[str, ...]
    where: str | None = None
    types: tuple[pa.DataType | None, ...] = ()
    """The types of the results, where they were given."""
    numbers: SeqSet | None = None
    """Rows with other sequence numbers do not count."""
    ns: NsRule = "error"
    imports: tuple[str, ...] = ()
    """Modules that register user-defined aggregates."""


@dataclass(frozen=True, kw_only=True)
class AggregatePlan:
    """Everything that a task needs to answer a question about ranges of one snapshot of a stream. Can be pickled."""

    name: str
    """That of the stream."""
    path: str
    directory: str
    """That of the stream, in the store."""
    piece: Piece
    """The snapshot."""
    asked: Asked

    def __getstate__(self) -> dict[str, Any]:
        # What is read from texts is read again elsewhere.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def layout(self) -> Layout:
        """That of the snapshot."""
        return self.piece.layout

    @property
    def time_type(self) -> pa.DataType:
        """The type of the stream's times."""
        return self.layout.schema.field(self.layout.schema.time).type

    @cached_property
    def question(self) -> Question:
        """The aggregates asked for."""
        return Questions(self.layout, self.piece.manifest.options).question(self.asked.texts)

    @cached_property
    def condition(self) -> Predicate | None:
        """Which rows count."""
        return None if self.asked.where is None else predicate(self.asked.where, self.layout.stored)

    @property
    def is_indexed(self) -> bool:
        """Whether the index can answer, so that no events have to be read."""
        return self.asked.where is None and self.question.is_indexed

    @cached_property
    def result_types(self) -> list[pa.DataType]:
        """The types of the results; raises :class:`SchemaError` where an aggregate does not tell, and nobody has."""
        found = []
        for text, call, given in zip(self.asked.texts, self.question.calls, self.asked.types, strict=True):
            own = call.type if given is None else given
            if own is None:
                raise SchemaError(
                    f"{text} does not say of which type its results are; give it, e.g. types={{{text!r}: pa.float64()}}"
                )
            found.append(own)
        return found

    def ranges(self, starts: Iterable[Any], ends: Iterable[Any]) -> list[Interval]:
        """Time ranges by the stream's clock."""
        clock = self.layout.schema.clock
        return [clock.interval(start, end) for start, end in zip(starts, ends, strict=True)]

    def snapshot(self) -> Snapshot:
        """The snapshot, opened here."""
        return open_piece(FileMedium(self.path), self.directory, self.piece)

    def answers(self, snapshot: Snapshot, ranges: Sequence[Interval], results: StructType) -> pa.RecordBatch:
        """The results for some ranges, a column of Spark's for each aggregate."""
        found = aggregate_all(snapshot, ranges, self.question, self.condition, self.asked.numbers)
        values = zip(*(answers.values for answers in found), strict=True) if found else [[]] * len(self.asked.texts)
        columns = [pa.array(list(column), type_) for column, type_ in zip(values, self.result_types, strict=True)]
        return as_spark(columns, self.result_types, results, self.asked.ns)


def as_spark(
    columns: Sequence[pa.Array], types: Sequence[pa.DataType], declared: StructType, ns: NsRule
) -> pa.RecordBatch:
    """Columns of stored types as a batch that Spark expects."""
    stored = pa.schema([pa.field(name, type_) for name, type_ in zip(declared.names, types, strict=True)])
    found = ToSpark(stored, declared, ns).convert(pa.RecordBatch.from_arrays(columns, schema=stored))
    return found[0] if len(found) == 1 else pa.Table.from_batches(found).combine_chunks().to_batches()[0]


def result_type(name: str, type_: pa.DataType, ns: NsRule) -> DataType:
    """The type of Spark's for results; raises :class:`SchemaError` that names them if there is none."""
    try:
        return spark_type(type_, ns)
    except (SchemaError, KeyError) as error:
        reason = str(error) if isinstance(error, SchemaError) else f"Spark has no type for results of {type_}"
        raise SchemaError(f"{name}: {reason}") from None


@dataclass(frozen=True)
class Plans:
    """The streams asked, one or many."""

    plans: tuple[AggregatePlan, ...]
    is_many: bool
    """Whether they were given by a pattern, be it one that a single stream matches."""


def plan_aggregate(path: str, stream: str, asked: Asked) -> Plans:
    """Look at a stream, or at those that match a pattern, and see whether the question can be asked."""
    import_all(asked.imports)
    with Store.open(path, read_only=True) as store:
        is_many = is_pattern(store, stream)
        names = matching(store, stream) if is_many else [stream]
        plans = tuple(_plan(store, path, name, asked) for name in names)
    first = plans[0]
    first.condition  # noqa: B018  (raises for what is wrong with it)
    for text, type_ in zip(asked.texts, first.result_types, strict=True):
        result_type(text, type_, asked.ns)
    for plan in plans[1:]:
        if plan.layout.schema != first.layout.schema:
            _refuse_different(first, plan)
    return Plans(plans, is_many)


def _plan(store: Store, path: str, name: str, asked: Asked) -> AggregatePlan:
    log = manifests_of(store, name)
    piece = whole(Snapshots(StreamContext.of(log), log).newest(), asked.numbers)
    return AggregatePlan(name=name, path=path, directory=log.directory, piece=piece, asked=asked)


def _refuse_different(first: AggregatePlan, other: AggregatePlan) -> None:
    """Raise :class:`SchemaError` if two streams cannot be asked the same with answers of the same types."""
    other.condition  # noqa: B018
    named = zip(first.asked.texts, first.result_types, other.result_types, strict=True)
    for text, one, another in [*named, ("the time", first.time_type, other.time_type)]:
        if one != another:
            raise SchemaError(
                f"{text} is {one} of stream {first.name!r} and {another} of {other.name!r}; ask them apart"
            )
