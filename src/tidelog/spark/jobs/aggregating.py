"""Aggregates of many time ranges, answered by tasks from the trees of a stream instead of by a scan of its events.

The stream is looked at once, where the driver is: every task answers from that snapshot
(:mod:`tidelog.store.read.pieces`), whatever is committed meanwhile. Ranges that are neighbours in time go to the same
task, because they share the nodes that they are answered from.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.engine.questions import pairs_of, texts_of
from tidelog.model.arguments import found, integer, one_of, text
from tidelog.model.arguments import names as listed_names
from tidelog.model.errors import InputError, NotFoundError, did_you_mean
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.options import shared_path
from tidelog.spark.datasource.source import STREAM_COLUMN
from tidelog.spark.datasource.types import NS_RULES, NsRule
from tidelog.spark.jobs.aggregate_plan import AggregatePlan, Asked, Plans, as_spark, plan_aggregate, result_type
from tidelog.spark.jobs.tasks import beside_the_store, import_all
from tidelog.spark.runtime.session import is_remote
from tidelog.spark.runtime.workers import settle
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGES_PER_TASK: Final = 2048
"""Ranges that a task answers, if the index knows the answers: starting a task takes as long as some hundred of them."""
SCANS_PER_TASK: Final = 16
"""The same if events have to be read."""
MOST_TASKS: Final = 256

_OPENING_RANGES: Final = 64
"""Ranges that are answered in the time that it takes to open a stream, about."""
_OPEN_STREAMS: Final = 64
"""Streams that a task keeps open."""

_START, _END = "start", "end"


def aggregate(
    spark: SparkSession,
    path: str | os.PathLike[str],
    stream: str,
    intervals: DataFrame | Iterable[tuple[Any, Any]],
    aggregates: str | Sequence[str] | Mapping[str, str],
    where: str | None = None,
    *,
    start: str = _START,
    end: str = _END,
    tasks: int | None = None,
    as_of: int | SeqSet | None = None,
    ns: NsRule = "error",
    types: Mapping[str, pa.DataType] | None = None,
    imports: Sequence[str] = (),
    stream_column: str = STREAM_COLUMN,
) -> DataFrame:
    """Aggregates of many time ranges of a stream, as ``Stream.aggregate_all`` gives them, by tasks of Spark.

    ``intervals`` is a DataFrame with the columns ``start`` and ``end``, whose other columns are kept; or pairs of start
    and end. Ranges are half-open, and null is unbounded; times are Spark's, or ticks, or ISO 8601. ``aggregates`` are
    calls such as ``"avg(price)"``, each of which becomes a column of that name, or of another one: ``{"mean":
    "avg(price)"}``. What the index knows is taken from it, whatever the length of ranges; ``where`` and everything else
    takes a scan of each range.

    The rows answered from are those flushed when this is called, and no others, whenever the DataFrame is used; it has
    to be used within the stream's grace period. ``as_of`` leaves out rows as it does for :func:`tidelog.spark.read`.

    Neighbouring ranges go to the same task. How many ``tasks`` there are depends on the number of ranges, unless it is
    given: for a DataFrame with few ranges that take a scan each, it should be.

    ``types`` has the types of results of user-defined aggregates that do not say it themselves, and ``imports`` the
    modules that register them, to be imported by the tasks. ``ns`` is as for :func:`tidelog.spark.read`.

    A ``stream`` with a ``*`` stands for all streams whose names match, unless one is called so. Every range is then
    answered for each of them, with its name in a column ``_stream``, or what ``stream_column`` says; if the DataFrame
    has that column already, each of its rows is about the stream it names.

    Raises :class:`NotFoundError`, :class:`InputError` and :class:`SchemaError` for what cannot be asked.
    """
    calls = named_calls(aggregates)
    one_of("ns", ns, NS_RULES)
    if tasks is not None:
        tasks = integer("tasks", tasks, 1)
    for what, name in (("stream", stream), ("start", start), ("end", end), ("stream_column", stream_column)):
        text(what, name, "a name, as text")
    if where is not None:
        text("where", where, "a SQL condition as text")
    if as_of is not None and not isinstance(as_of, SeqSet):
        as_of = integer("as_of", as_of, 0)
    imports = listed_names("imports", imports, "module")
    if not (types is None or (isinstance(types, Mapping) and all(isinstance(each, str) for each in types))):
        raise found("types", types, "the types of results by name, such as {'mean': pyarrow.float64()}")
    given = dict(types or {})
    unknown = [name for name in given if name not in calls]
    if unknown:
        raise InputError(f"types has {unknown[0]!r}, which is not asked for; {did_you_mean(unknown[0], calls)}")
    numbers = SeqSet.below(as_of) if isinstance(as_of, int) else as_of
    asked = Asked(tuple(calls.values()), where, tuple(map(given.get, calls)), numbers, ns, tuple(imports))
    place = shared_path(path, is_remote=is_remote(spark))
    plans = beside_the_store(spark, plan_aggregate, place, stream, asked)
    types_of = zip(calls, plans.plans[0].result_types, strict=True)
    results = StructType([StructField(name, result_type(name, type_, ns)) for name, type_ in types_of])
    column = stream_column if plans.is_many else None
    if hasattr(intervals, "mapInArrow"):  # frames of Spark and of Spark Connect are of different classes
        return _of_frame(plans, column, cast("DataFrame", intervals), start, end, results, tasks)
    return _of_pairs(spark, plans, column, pairs_of(intervals), start, end, results, tasks)


def named_calls(aggregates: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Aggregate calls by the names of their columns."""
    if isinstance(aggregates, Mapping):
        for name, call in aggregates.items():
            if not (isinstance(name, str) and isinstance(call, str)):
                raise found(f"the aggregate {name!r}", call, "a text such as 'avg(price)', under a name")
        calls = dict(aggregates)
    else:
        texts = texts_of(aggregates)
        calls = {text: text for text in texts}
        if len(calls) < len(texts):
            raise InputError("an aggregate is asked for twice; name it once, or give the two other names")
    if not calls:
        raise InputError("no aggregate is asked for; expected calls such as 'avg(price)'")
    return calls


def _refuse_taken(names: Sequence[str], results: StructType) -> None:
    for field in results:
        if field.name in names:
            raise InputError(
                f"the intervals have a column {field.name!r} already; give the aggregate another name, such as "
                f"{{'result': ...}}"
            )


class _Opened:
    """Snapshots of streams, few of which are open at once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Snapshot] = OrderedDict()

    def of(self, plan: AggregatePlan) -> Snapshot:
        if plan.name not in self._known:
            self._known[plan.name] = plan.snapshot()
            while len(self._known) > _OPEN_STREAMS:
                self._known.popitem(last=False)
        self._known.move_to_end(plan.name)
        return self._known[plan.name]


def _beside(*batches: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of batches of one length, side by side."""
    columns = [column for batch in batches for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field for batch in batches for field in batch.schema]))


def _names(column: str | None, name: str, rows: int) -> list[pa.RecordBatch]:
    """The column with the name of a stream, if there is one."""
    if column is None:
        return []
    field = pa.field(column, pa.string(), nullable=False)
    return [pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(name), rows)], schema=pa.schema([field]))]


def _name_fields(column: str | None) -> list[StructField]:
    return [] if column is None else [StructField(column, StringType(), nullable=False)]


# Ranges in a DataFrame. -------------------------------------------------------------------------------


def _of_frame(
    plans: Plans,
    column: str | None,
    frame: DataFrame,
    start: str,
    end: str,
    results: StructType,
    tasks: int | None,
) -> DataFrame:
    names = frame.columns
    for name in (start, end):
        if name not in names:
            raise InputError(
                f"the intervals have no column {name!r}; {did_you_mean(name, names)}. Say which ones have the bounds: "
                "start=..., end=..."
            )
    _refuse_taken(names, results)
    has_names = column is not None and column in names
    # Without a number Spark looks at what there is, and a few ranges make one task.
    ordered = [column, start, end] if has_names else [start, end]
    keys = [f"`{name.replace('`', '``')}`" for name in ordered if name is not None]
    spread = frame.repartitionByRange(*keys) if tasks is None else frame.repartitionByRange(tasks, *keys)
    added = None if has_names else column
    work = partial(
        _answer_rows,
        plans.plans,
        names.index(column) if has_names and column is not None else None,
        added,
        (names.index(start), names.index(end)),
        results,
    )
    declared = StructType([*frame.schema.fields, *_name_fields(added), *results.fields])
    return spread.sortWithinPartitions(*keys).mapInArrow(work, declared)


def _answer_rows(
    plans: Sequence[AggregatePlan],
    named: int | None,
    added: str | None,
    bounds: tuple[int, int],
    results: StructType,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What a task does with rows that have ranges, and perhaps the name of a stream each."""
    import_all(plans[0].asked.imports)
    opened = _Opened()
    for batch in batches:
        for plan, rows in _parted(plans, named, batch):
            starts, ends = (rows.column(place).to_pylist() for place in bounds)
            answers = plan.answers(opened.of(plan), plan.ranges(starts, ends), results)
            yield _beside(rows, *_names(added, plan.name, rows.num_rows), answers)
    settle()


def _parted(
    plans: Sequence[AggregatePlan], named: int | None, batch: pa.RecordBatch
) -> Iterator[tuple[AggregatePlan, pa.RecordBatch]]:
    """Which rows are about which streams: all about all, if they do not name one."""
    if named is None:
        yield from ((plan, batch) for plan in plans)
        return
    known = {plan.name: plan for plan in plans}
    names = batch.column(named)
    for name in pc.unique(names).to_pylist():
        if name not in known:
            raise NotFoundError(f"no stream {name!r} is among those asked; {did_you_mean(str(name), known)}")
        yield known[name], batch.filter(pc.equal(names, name))


# Ranges as pairs. -------------------------------------------------------------------------------------

_Chunk = Sequence[tuple[int, int, int]]
"""What a task answers: numbers of plans, and of each the first and the last (exclusive) of the ranges."""


def _of_pairs(
    spark: SparkSession,
    plans: Plans,
    column: str | None,
    pairs: Iterable[tuple[Any, Any]],
    start: str,
    end: str,
    results: StructType,
    tasks: int | None,
) -> DataFrame:
    first, streams = plans.plans[0], len(plans.plans)
    bounds = [*pairs]
    ranges = first.ranges([each[0] for each in bounds], [each[1] for each in bounds])
    ranges.sort(key=lambda each: (each.start is not None, each.start or 0, each.end is None, each.end or 0))
    _refuse_taken([start, end, *([] if column is None else [column])], results)
    time = result_type("the time of the stream", first.time_type, first.asked.ns)
    own = StructType([StructField(start, time), StructField(end, time)])
    if tasks is None:
        work, most = (
            (len(ranges) + _OPENING_RANGES * (streams > 1), RANGES_PER_TASK)
            if first.is_indexed
            else (len(ranges), SCANS_PER_TASK)
        )
        tasks = min(-(-work * streams // most), MOST_TASKS)
    chunks = _chunks(streams, len(ranges), tasks)
    declared = StructType([*own.fields, *_name_fields(column), *results.fields])
    answer = partial(_answer_pairs, plans.plans, column, ranges, own, results, chunks)
    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(answer, declared)


def _chunks(streams: int, ranges: int, tasks: int) -> list[_Chunk]:
    """All ranges of all streams for so many tasks, or fewer: of a stream, neighbours go together."""
    total = streams * ranges
    tasks = max(min(tasks, total), 1)
    found: list[_Chunk] = []
    for low, high in pairwise([total * number // tasks for number in range(tasks + 1)]):
        chunk, at = [], low
        while at < high:
            plan, first = divmod(at, ranges)
            last = min(ranges, first + high - at)
            chunk.append((plan, first, last))
            at += last - first
        found.append(chunk)
    return found


def _answer_pairs(
    plans: Sequence[AggregatePlan],
    column: str | None,
    ranges: Sequence[Interval],
    bounds: StructType,
    results: StructType,
    chunks: Sequence[_Chunk],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What a task does that is given numbers of chunks."""
    import_all(plans[0].asked.imports)
    opened, time = _Opened(), plans[0].time_type
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for place, first, last in chunks[number]:
                plan, own = plans[place], ranges[first:last]
                ends = [
                    pa.array([each.start for each in own], pa.int64()).view(time),
                    pa.array([each.end for each in own], pa.int64()).view(time),
                ]
                shown = as_spark(ends, [time, time], bounds, plan.asked.ns)
                answers = plan.answers(opened.of(plan), own, results)
                yield _beside(shown, *_names(column, plan.name, len(own)), answers)
    settle()
