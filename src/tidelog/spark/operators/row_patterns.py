"""Row patterns over DataFrames that are all there: partitions are shuffled and sorted by Spark, and searched by tasks.

An operator would need rows in the order of time; here any order will do, and rows come to the search in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import ArrayType, AtomicType, DataType, IntegerType, StructField, StructType

from tidelog.operators.rowpattern.compiling import compile_query
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.syntax import RowPattern
from tidelog.spark.jobs.tasks import import_all
from tidelog.spark.operators.columns import converted, declared, outward
from tidelog.spark.operators.inputs import column_of, hash_of
from tidelog.spark.operators.pattern_ranges import find_pattern_ranges, link, one_task_because
from tidelog.spark.operators.ranges import RANGE
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def run_row_pattern(
    frame: DataFrame,
    query: RowPattern,
    *,
    place: str | None = None,
    tasks: int | None = None,
    imports: Sequence[str] = (),
) -> DataFrame:
    """What comes out of a row pattern for the rows of a DataFrame, which has the query's columns.

    ``place`` is a column that decides between rows that are equal in the order. Partitions are divided among
    ``tasks``. A query without them is divided into ranges of time, if it has WITHIN: then the rows are read here, once
    to find the ranges and once to link them. Where one task has to search them all, EXPLAIN says why.
    """
    columns = [column_of(name) for name in query.schema.names]
    if place is not None:
        columns.append(column_of(place))
    rows = frame.select(*columns)
    last = [] if place is None else [column_of(place).asc()]
    if query.partition:
        key = hash_of(frame.schema, query.partition)
        rows = rows.repartition(key) if tasks is None else rows.repartition(tasks, key)
        rows = rows.sortWithinPartitions(*[column_of(name).asc() for name in query.partition], *_order(query), *last)
        return _mapped(rows, query, _Task("row_pattern", query, tuple(imports)))
    compiled = compile_query(query)
    reason = one_task_because(compiled, tasks)
    if reason is None and place is None:
        # Rows come twice, and have to come in the same order: that of all of their columns, if there is no other.
        last = [column_of(name).asc() for name in query.schema.names if _is_ordered(frame.schema[name].dataType)]
        if len(last) < len(query.schema):
            reason = "rows have columns without an order"
    if reason is None:
        ranges = find_pattern_ranges(rows, compiled, tasks, imports)
        reason = "there are few rows" if len(ranges) == 1 else None
    if reason is None:
        kinds = StructType([*rows.schema.fields, StructField(RANGE, IntegerType())])
        divided = rows.mapInArrow(ranges.divided, kinds).repartition(len(ranges), column_of(RANGE))
        divided = divided.sortWithinPartitions(column_of(RANGE).asc(), *_order(query), *last)
        known = link(divided, ranges, compiled)
        if known is not None:
            return divided.mapInArrow(known.rendering, declared(query.output))
        reason = "searches from different rows do not come together"
    rows = rows.repartition(1)
    keys = [*_order(query), *last]
    rows = rows.sortWithinPartitions(*keys) if keys else rows
    return _mapped(rows, query, _Task(f"row_pattern in one task, because {reason}", query, tuple(imports)))


def _mapped(rows: DataFrame, query: RowPattern, task: _Task) -> DataFrame:
    return rows.mapInArrow(task, declared(query.output))


def _is_ordered(kind: DataType) -> bool:
    """Whether Spark can sort by values of a type."""
    if isinstance(kind, ArrayType):
        return _is_ordered(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_ordered(each.dataType) for each in kind)
    return isinstance(kind, AtomicType)


def _order(query: RowPattern) -> list[Column]:
    found = []
    for each in query.order:
        column = column_of(each.column)
        if each.is_descending:
            found.append(column.desc_nulls_first() if each.nulls_first else column.desc_nulls_last())
        else:
            found.append(column.asc_nulls_first() if each.nulls_first else column.asc_nulls_last())
    return found


class _Task:
    """What a task does with its partitions, which come one behind the other, each in order."""

    def __init__(self, name: str, query: RowPattern, imports: tuple[str, ...]) -> None:
        self.__name__ = name  # what EXPLAIN calls it
        self._query, self._imports = query, imports

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that come out."""
        import_all(self._imports)
        count = len(self._query.schema)
        rows = (converted(batch.columns[:count], self._query.schema) for batch in batches)
        yield from outward(evaluate(self._query, rows), self._query.output)
        settle()
