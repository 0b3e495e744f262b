"""Operators over DataFrames that are all there: by key, by ranges of time, or by one task.

Rows are shuffled and sorted by Spark, and each task replays what it gets. An operator with keys is run by as many tasks
as there are partitions, each for many keys; one without, which looks only so far behind and ahead, by ranges of time:
a task gets the rows of its range and those around it, and gives only what belongs to the range. Keys that are no
columns are computed by the tasks that read the rows, and are columns then. Where that is too far, and rows may be
looked at one by one before, tasks for ranges of time do that, and let only those rows through on which something
depends, to the one task that runs the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import boolean_column, integer_column
from tidelog.operators.base import FOREVER, Needs, Operator, advanced
from tidelog.operators.marking import marked
from tidelog.spark.jobs.tasks import import_all
from tidelog.spark.operators.columns import converted, declared, outward
from tidelog.spark.operators.inputs import KEY, PLACE, PORT, TIME, Input, column_of, tagged, untagged
from tidelog.spark.operators.ranges import RANGE, Ranges, by_range, find_ranges, in_ranges
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Make: TypeAlias = Callable[[], Operator]


def first_of(make: Make) -> Operator:
    """What looks at each row by itself, of an operator that is made of that and a rest."""
    return _split(make)[0]


def rest_of(make: Make) -> Operator:
    """What comes behind :func:`first_of`."""
    return _split(make)[1]


def _split(make: Make) -> tuple[Operator, Operator]:
    parts = make().split()
    assert parts is not None
    return parts


def keys_of(make: Make) -> Operator:
    """What computes keys of rows, of an operator that is made of that and of one with keys."""
    return _keyed(make)[0]


def behind_keys(make: Make) -> Operator:
    """What comes behind :func:`keys_of`."""
    return _keyed(make)[1]


def _keyed(make: Make) -> tuple[Operator, Operator]:
    parts = make().keyed()
    assert parts is not None
    return parts


def marking_keys_of(make: Make) -> Operator:
    """:func:`keys_of` that leaves no row out."""
    return marked_keys(make)[0]  # type: ignore[index]  # whoever asks knows that there is one


def behind_marked_keys(make: Make) -> Operator:
    """What comes behind :func:`marking_keys_of`."""
    return marked_keys(make)[1]  # type: ignore[index]


def marked_keys(make: Make) -> tuple[Operator, Operator] | None:
    """What computes keys of rows, and leaves none out, and what comes behind it; None if there is no such thing."""
    parts = make().keyed()
    return parts if parts is None or parts[0].keeps_rows else marked(*parts)


def prepared(own: Input, first: Make, imports: Sequence[str]) -> Input:
    """What comes out of an operator that looks at rows alone, done by the tasks that read them."""
    shape = first().output
    names = [column_of(name) for name in own.shape.schema.names]
    rows = own.frame.where(column_of(own.shape.time).isNotNull()).select(*names)
    mapped = rows.mapInArrow(partial(_prepare, first, tuple(imports)), declared(shape.schema))
    return Input(mapped, shape, name=own.name)


def _prepare(first: Make, imports: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import_all(imports)
    operator = first()
    schema = operator.inputs[0].schema
    for batch in batches:
        yield from outward(operator.push(0, converted(batch.columns, schema)), operator.output.schema)
    settle()


def run_batch(
    inputs: Sequence[Input], make: Make, *, tasks: int | None = None, imports: Sequence[str] = ()
) -> DataFrame:
    """What comes out of an operator for the rows of DataFrames.

    ``make`` gives a new operator, always an equal one, and is pickled; ``imports`` are modules that tasks import first.
    For an operator that is divided by time the times are looked at here, which reads the inputs once.
    """
    operator = make()
    needs = operator.needs
    if needs.keys == () and not needs.order:
        return _mapped(tagged(inputs), make, imports, None)
    if needs.keys == ():  # rows are by themselves, wherever they are
        return _mapped(_sorted(tagged(inputs)), make, imports, None)
    if needs.keys is not None:
        rows = tagged(inputs, needs.keys)
        shuffled = rows.repartition(KEY) if tasks is None else rows.repartition(tasks, KEY)
        return _mapped(_sorted(shuffled), make, imports, None)
    if tasks != 1 and all(each.place is None for each in inputs) and operator.keyed() is not None:
        computed = [prepared(inputs[0], partial(keys_of, make), imports)]
        return run_batch(computed, partial(behind_keys, make), tasks=tasks, imports=imports)
    rows = tagged(inputs)
    if needs.behind is not None and needs.ahead is not None and tasks != 1:
        ranges = find_ranges(rows, operator.inputs[0], needs, tasks)
        if len(ranges) > 1:
            return _mapped(_in_ranges(rows, operator, ranges), make, imports, ranges)
    if tasks != 1 and operator.split() is not None:
        ranges = find_ranges(rows, operator.inputs[0], Needs(), tasks)
        if len(ranges) > 1:
            return _thinned(_in_ranges(rows, operator, ranges), make, imports)
    return _mapped(_sorted(rows.repartition(1)), make, imports, None)


def _in_ranges(rows: DataFrame, operator: Operator, ranges: Ranges) -> DataFrame:
    divided = in_ranges(rows, operator.inputs[0], ranges).repartition(len(ranges), RANGE)
    return _sorted(divided, RANGE)


def _thinned(rows: DataFrame, make: Make, imports: Sequence[str]) -> DataFrame:
    """What comes out of an operator for rows in ranges, of which tasks let only those through that matter to one."""
    shape = rest_of(make).inputs[0]
    schema = shape.schema.append(pa.field(PLACE, pa.int64()))
    kept = rows.mapInArrow(_Thin(make, tuple(imports)), declared(schema))
    own = tagged([Input(kept, shape, place=PLACE)]).repartition(1)
    return _mapped(_sorted(own), partial(rest_of, make), imports, None)


class _Thin:
    """Lets rows through that matter, of those of a task, which are in order; numbered, so that they stay in it."""

    def __init__(self, make: Make, imports: tuple[str, ...]) -> None:
        self.__name__ = "rows_that_matter"  # what EXPLAIN calls it
        self._make, self._imports = make, imports

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """These rows, as the rest of the operator takes them."""
        import_all(self._imports)
        first, rest = first_of(self._make), rest_of(self._make)
        schema = rest.inputs[0].schema.append(pa.field(PLACE, pa.int64()))
        number = 0
        for batch in batches:
            for port, rows in untagged(batch, first.inputs):
                for found in first.push(port, rows):
                    kept = rest.thinned(found)
                    numbers = integer_column(np.arange(number, number + kept.num_rows))
                    number += kept.num_rows
                    yield from outward([pa.RecordBatch.from_arrays([*kept.columns, numbers], schema=schema)], schema)
        settle()


def _sorted(rows: DataFrame, *first: str) -> DataFrame:
    return rows.sortWithinPartitions(*first, TIME, PORT, PLACE)


def _mapped(rows: DataFrame, make: Make, imports: Sequence[str], ranges: Ranges | None) -> DataFrame:
    return rows.mapInArrow(partial(_task, make, tuple(imports), ranges), declared(make().output.schema))


def _task(
    make: Make, imports: Sequence[str], ranges: Ranges | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a task does with its rows, which are in order."""
    import_all(imports)
    output = make().output
    for number, rows in by_range(batches) if ranges is not None else [(0, iter(batches))]:
        found = replayed(make(), rows)
        if ranges is not None:
            found = (_inside(each, *ranges.bounds(number), output.times(each)) for each in found)
        yield from outward(found, output.schema)
    settle()


def _inside(batch: pa.RecordBatch, low: int, high: int, times: np.ndarray) -> pa.RecordBatch:
    mask = np.ones(len(times), np.bool_)
    if low > -FOREVER:
        mask &= times >= low
    if high < FOREVER:
        mask &= times < high
    return batch if mask.all() else batch.filter(boolean_column(mask))


def replayed(operator: Operator, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes out of a new operator for rows of all of its inputs in the order of time."""
    for batch in batches:
        if batch.num_rows:
            yield from _pushed(operator, batch)
    yield from advanced(operator, FOREVER)


def _pushed(operator: Operator, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    most = operator.most_rows or batch.num_rows
    for first in range(0, batch.num_rows, most):
        last = None
        for port, rows in untagged(batch.slice(first, most), operator.inputs):
            yield from operator.push(port, rows)
            own = int(operator.inputs[port].times(rows)[-1])
            last = own if last is None else max(last, own)
        if operator.needs.order and last is not None:
            yield from advanced(operator, last)
