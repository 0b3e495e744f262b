"""Logical merge over DataFrames: by the hash of payloads, with stables told to everybody.

Each *share* of the payloads has a merge of its own. How far an input has come is no matter of Spark's watermark, which
is the least of all inputs, so that one that is dead would hold everybody up: every share is told the newest time of
each input, and is as far as that less a delay, or gets a copy of the stables that stand among elements. Elements carry
a number that puts those of an input into their order again, wherever they were read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arguments import found, integer, several
from tidelog.model.arrays import integers
from tidelog.model.errors import InputError, SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Batches, Shape
from tidelog.operators.merge import codes
from tidelog.operators.merge.columns import COLUMNS, FROM, KIND_COLUMN
from tidelog.operators.merge.elements import KINDS
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.options import MergeOptions
from tidelog.operators.merge.ports import Input as Spec
from tidelog.operators.state import State, together
from tidelog.spark.operators.columns import declared, delay_of, outward
from tidelog.spark.operators.inputs import KEY, PLACE, PORT, TIME, Input, checked, column_of, tagged, untagged
from tidelog.spark.operators.ranges import RANGE, by_range
from tidelog.spark.operators.running import check_provider, inputs_of
from tidelog.spark.operators.streaming import METRICS, SHARES, Continuing, run_shares
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARE: Final = "share"
_STABLE: Final = KINDS[codes.STABLE]


def logical_merge(
    frames: Sequence[DataFrame],
    *,
    names: Sequence[str] | None = None,
    time: str | Sequence[str] | None = None,
    key: bool | str | Sequence[str] | None = None,
    delay: Any = None,
    order: str = SEQUENCE_COLUMN,
    algorithm: str = "auto",
    policy: str = "lazy",
    output: str | None = None,
    tasks: int | None = None,
    metrics: str = METRICS,
) -> DataFrame:
    """One DataFrame of several copies of the same events, batches or streams; see docs/merging.md.

    All have the same columns. Rows are elements, by the names of their columns, or plain events at ``time`` (by default
    the time of a stream that was read, or the only timestamp). ``key``, ``algorithm``, ``policy`` and ``output`` are
    those of ``Store.merge_into``. Elements need ``order``, a column of whole numbers that is the order of the rows of
    an input, such as ``_seq``, which is no part of what is merged.

    Of streams, an input of plain events is as far as its newest row less ``delay``, and is told so at the end of each
    micro-batch: rows that come later and are before that are late, dropped and counted (``late_rows`` of the
    ``observedMetrics`` under ``metrics``). By default the delay is the longest of the DataFrames' watermarks, if all
    have one; without any nothing is ever forgotten. The output is as far as the
    farthest input. Stables of elements come out a micro-batch later, when all shares of the work have come so far.

    ``names`` tell the inputs of a streaming query apart when it is started again from its checkpoint: one whose name is
    not there any more has left, one with a new name is attached. A name is used once. ``tasks`` is the number of
    shares, and must not change as long as the checkpoint is used.
    """
    own = several("frames", frames, "a list of DataFrames")
    if not own:
        raise InputError("found no DataFrames to merge; expected at least one")
    for each in own:
        if not hasattr(each, "mapInArrow"):
            raise found("a frame", each, "a DataFrame")
    if names is None:
        names = [f"input{number}" for number in range(len(own))]
    if len(set(names)) != len(own) or not all(isinstance(each, str) for each in names):
        raise found("names", names, f"{len(own)} texts that differ")
    options = MergeOptions.of(algorithm, key, policy, output)
    shares = SHARES if tasks is None else integer("tasks", tasks, 1)
    inputs = [replace(each, name=name) for each, name in zip(_inputs(own, time, order), names, strict=True)]
    shape = inputs[0].shape
    ticks = _watermark(inputs) if delay is None else shape.clock.duration(delay)
    return merge_inputs(inputs, Merging(options, shape, ticks), shares=shares, metrics=metrics)


def merge_inputs(
    inputs: Sequence[Input], merging: Merging, *, shares: int = SHARES, metrics: str = METRICS
) -> DataFrame:
    """:func:`logical_merge` for inputs of one shape."""
    checked(inputs)
    for name in merging.key:
        if _has_map(merging.shape.schema.field(name).type):
            raise SchemaError(
                f"column {name!r} has maps, which Spark does not compare, and so cannot tell events apart; give a key "
                "of other columns, or make lists of entries of them (map_entries)"
            )
    kinds = {each.frame.isStreaming for each in inputs}
    if len(kinds) > 1:
        raise InputError("some inputs are streams, and others are not; expected either")
    names = tuple(each.name for each in inputs)
    operator = merging.operator(names)
    if operator.policy.code == codes.FULLY_FROZEN:  # its stables wait for events, and those are elsewhere
        shares = 1
    rows = _shared(tagged(inputs, [merging.key] * len(inputs)), merging, shares)
    if kinds == {False}:
        sorted_rows = (
            rows.withColumnRenamed(SHARE, RANGE)
            .repartition(shares, RANGE)
            .sortWithinPartitions(RANGE, TIME, PORT, PLACE)
        )
        task = partial(_task, replace(merging, delay=None), names)
        return sorted_rows.mapInArrow(task, declared(operator.output.schema))
    check_provider(inputs[0].frame)
    how = MergingContinued(
        partial(merging.operator, names), (0,) * len(names), shares, None, (), False, merging=merging, names=names
    )
    return run_shares(inputs, rows, how, metrics)


def _has_map(type_: pa.DataType) -> bool:
    return pa.types.is_map(type_) or any(_has_map(type_.field(at).type) for at in range(type_.num_fields))


def _inputs(frames: Sequence[DataFrame], time: Any, order: str) -> list[Input]:
    """The inputs, all with the columns of the first one in its order; numbers of rows are called ``_seq``."""
    from pyspark.sql import functions as f

    own = []
    for each in frames:
        if order != SEQUENCE_COLUMN and hasattr(each, "columns"):
            if order not in each.columns:
                raise SchemaError(f"there is no column {order!r}, which is said to be the order of rows")
            each = each.withColumn(SEQUENCE_COLUMN, column_of(order).cast("bigint")).drop(order)
        own.append(each)
    is_elements = all(set(COLUMNS) <= set(getattr(each, "columns", ())) for each in own)
    if is_elements:
        time = FROM
        for each in own:
            if SEQUENCE_COLUMN not in each.columns:
                raise SchemaError(
                    "elements come in an order, which rows of Spark do not have; expected a column with their numbers: "
                    "read streams with the option seq, or say order='column'"
                )
    first = inputs_of(own[0], time[0] if isinstance(time, list | tuple) else time)[0]
    columns = [each for each in own[0].columns if each != SEQUENCE_COLUMN]
    found_inputs: list[Input] = []
    for number, each in enumerate(own):
        missing = [name for name in columns if name not in each.columns]
        more = [name for name in each.columns if name not in (*columns, SEQUENCE_COLUMN)]
        if missing or more:
            raise SchemaError(
                f"DataFrame {number} has the columns {', '.join(each.columns)}; expected those of the first, "
                f"{', '.join(columns)}"
            )
        numbers = column_of(SEQUENCE_COLUMN) if SEQUENCE_COLUMN in each.columns else f.lit(None).cast("bigint")
        whole = each.select(*[column_of(name) for name in columns], numbers.alias(SEQUENCE_COLUMN))
        (read,) = inputs_of(whole, first.shape.time)
        if number and read.shape.schema != found_inputs[0].shape.schema:
            raise SchemaError(
                f"DataFrame {number} has the columns {read.shape.schema}; expected the types of the first, "
                f"{found_inputs[0].shape.schema}: cast them"
            )
        found_inputs.append(read)
    return found_inputs


def _watermark(inputs: Sequence[Input]) -> int | None:
    """The longest delay of watermarks, in ticks; None unless all inputs have one."""
    delays = [delay_of(each.frame.schema, each.shape.time) for each in inputs]
    known = [each for each in delays if each is not None]
    return max(known) if len(known) == len(delays) and inputs[0].shape.clock.unit == "us" else None


def _shared(rows: DataFrame, merging: Merging, shares: int) -> DataFrame:
    """Rows with their share; stables with every one."""
    from pyspark.sql import functions as f

    own = f.pmod(f.col(KEY), f.lit(shares)).cast("int")
    if not merging.is_elements:
        return rows.withColumn(SHARE, own)
    ports = [each for each in rows.columns if each.startswith("r") and each[1:].isdecimal()]
    kind = f.coalesce(*[f.col(f"{port}.c{merging.shape.schema.get_field_index(KIND_COLUMN)}") for port in ports])
    everybody = f.array(*[f.lit(share) for share in range(shares)])
    return rows.withColumn(SHARE, f.explode(f.when(kind == _STABLE, everybody).otherwise(f.array(own))))


@dataclass(frozen=True)
class Merging:
    """What is merged, and how. Pickled."""

    options: MergeOptions
    shape: Shape
    """The columns of every input."""
    delay: int | None

    @property
    def is_elements(self) -> bool:
        """Whether rows are elements."""
        return Spec("", self.shape).is_elements

    @property
    def key(self) -> tuple[str, ...]:
        """The columns by whose hash rows are shared out."""
        payload = [each for each in self.shape.schema.names if each not in (*COLUMNS, SEQUENCE_COLUMN, self.shape.time)]
        return self.options.key or tuple(payload)

    def operator(self, names: Sequence[str]) -> MergeOperator:
        """A new operator for inputs of some names."""
        return self.options.make([Spec(name, self.shape) for name in names])


def _task(merging: Merging, names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merges the shares of a task, one by one; what is there is in the order of time."""
    schema = merging.operator(names).output.schema
    for share, rows in by_range(batches):
        operator = merging.operator(names)
        given = (each for batch in rows for each in _replayed(operator, batch))
        for batch in chain(given, _finished(operator)):
            yield from outward([_without_stables(batch) if share else batch], schema)
    settle()


def _finished(operator: MergeOperator) -> Iterator[pa.RecordBatch]:
    yield from operator.finish()


def _replayed(operator: MergeOperator, batch: pa.RecordBatch) -> Batches:
    given: Batches = []
    last = None
    for port, rows in untagged(batch, operator.inputs):
        given += operator.push(port, rows)
        own = int(operator.inputs[port].times(rows)[-1])
        last = own if last is None else max(last, own)
    return given if last is None else given + operator.advance(last)


def _without_stables(batch: pa.RecordBatch) -> pa.RecordBatch:
    if KIND_COLUMN not in batch.schema.names:
        return batch
    return batch.filter(pc.not_equal(batch.column(KIND_COLUMN), _STABLE))


@dataclass(frozen=True)
class MergingContinued(Continuing):
    """How a streaming query merges. Pickled."""

    merging: Merging | None = None
    names: tuple[str, ...] = ()

    def arrivals(self, now: float) -> Arrivals:
        """A new merge that nothing has come to yet."""
        assert self.merging is not None
        return _Arrivals(self.merging, self.names)

    @property
    def meaning(self) -> str:
        """What must not change; inputs come and go."""
        assert self.merging is not None
        shape = self.merging.shape
        return json.dumps([str(shape.schema), shape.time, self.merging.options.to_json(), self.shares])


class _Arrivals(Arrivals):
    """The merge of one share: rows of a micro-batch, then how far inputs are."""

    operator: MergeOperator

    def __init__(self, merging: Merging, names: Sequence[str]) -> None:
        super().__init__(merging.operator(names), [0] * len(names))
        self.names = tuple(names)
        self._merging = merging
        self._came: dict[int, Batches] = {}
        self._reached: dict[int, int] = {}
        self._owed: int | None = None
        """The stable that comes out with the next micro-batch."""
        self._told: int | None = None

    def push(self, port: int, batch: pa.RecordBatch, now: float = 0.0) -> Batches:
        """Let rows of an input wait for the others of the micro-batch."""
        self._came.setdefault(port, []).append(batch)
        self.rows[port] += batch.num_rows
        return []

    def hear(self, port: int, newest: int, now: float = 0.0) -> Batches:
        """Note how far an input is."""
        self._reached[port] = max(self._reached.get(port, newest), newest)
        return []

    def tick(self, now: float = 0.0) -> Batches:
        """Nothing comes out by waiting."""
        return []

    def settle(self, now: float = 0.0, has_more: Collection[int] = ()) -> Batches:
        """Merge the rows of the micro-batch, each input's in their order, and tell how far inputs are then."""
        late = self._late_count()
        given: Batches = []
        for port in sorted(self._came):
            rows = pa.Table.from_batches(self._came[port]).combine_chunks().to_batches()[0]
            given += self.operator.push(self._port(port), self._in_order(rows))
        delay = self._merging.delay
        if delay is not None and not self._merging.is_elements:
            for port, newest in sorted(self._reached.items()):
                given += self.operator.stable(self.names[port], max(newest - delay, INT64_MIN))
        self._came, self._reached = {}, {}
        self.late_rows[0] += self._late_count() - late
        if self.operator.output_kind == "events":
            return given
        owed, self._owed = self._owed, self.operator.reached
        found = [_without_stables(batch) for batch in given]
        return [*self._stable(owed), *found]

    def _port(self, port: int) -> int:
        return self.operator.port(self.names[port])

    def _in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """By number; those without one by time, which matters where order does."""
        numbers = rows.column(SEQUENCE_COLUMN)
        by = self._merging.shape.times(rows) if numbers.null_count else integers(numbers)
        return rows if (by[1:] >= by[:-1]).all() else rows.take(pa.array(np.argsort(by, kind="stable")))

    def _stable(self, time: int | None) -> Batches:
        if self.share or time is None or time > INT64_MAX or time == self._told:
            return []
        self._told = time
        shape = self.operator.output
        values = {KIND_COLUMN: pa.array([_STABLE]), FROM: pa.array([time], pa.int64()).view(shape.time_type)}
        columns = [values.get(each.name, pa.nulls(1, each.type)) for each in shape.schema]
        return [pa.RecordBatch.from_arrays(columns, schema=shape.schema)]

    def _late_count(self) -> int:
        return sum(each.late for each in self.operator.states)

    def snapshot(self) -> State:
        """What the merge knows."""
        core = {"rows": self.rows, "late": self.late_rows, "owed": self._owed, "told": self._told}
        return together({"operator": self.operator.snapshot()}, core)

    def restore(self, state: State) -> None:
        """Go on; inputs that are not there any more have left, those that were not there before are attached."""
        core, part = state.core, state.part("operator")
        known = [each["name"] for each in part.core["ports"]]
        self.operator = self._merging.operator(known)
        self.operator.restore(part)
        gone = {each["name"] for each in part.core["ports"] if each["detached"]}
        for name in self.names:
            if name in gone:
                raise InputError(
                    f"the input {name!r} has left this merge before; one that comes back needs another name"
                )
            if name not in known:
                self.operator.attach(name)
        for name in known:
            if name not in self.names and name not in gone:
                self.operator.detach(name)
        self.rows = [sum(core["rows"])] + [0] * (len(self.names) - 1)
        self.late_rows = [sum(core["late"])] + [0] * (len(self.names) - 1)
        self._owed, self._told = core["owed"], core["told"]
