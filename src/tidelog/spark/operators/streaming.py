"""Operators over streaming DataFrames: ``transformWithState``, the rows packed, the state in chunks.

Rows are packed as Arrow, by the tasks that read them: one blob for each batch, input and *share* of the keys. A share
has an operator of its own, for all of its keys, whose state Spark keeps: a core, and chunks, of which only new ones are
written. Besides, every task tells all shares how far the time of its rows has come, so that shares without rows go on
as well, within the same micro-batch. Spark's own watermark would be one batch behind, one for all inputs, and late rows
would be gone before anybody could count them.

What comes out is packed likewise, with what was late, and unpacked by the tasks behind.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tidelog.model.arrays import boolean_column, distinct
from tidelog.model.errors import InputError
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Batches, Operator
from tidelog.operators.state import State, packed, unpacked
from tidelog.spark.jobs.tasks import import_all
from tidelog.spark.operators.columns import declared, given, outward
from tidelog.spark.operators.inputs import KEY, PORT, TIME, Input, tagged, untagged
from tidelog.spark.operators.ranges import ticks
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES: Final = 8
"""Shares of the keys, unless another number is asked for."""
LATE: Final = "_late"
METRICS: Final = "tidelog"

_PACKED: Final = "share int, port int, task int, number int, newest bigint, rows binary"
_GIVEN: Final = "kind int, port int, rows binary, came bigint, late bigint, written bigint"
_RESULT, _LATE, _TOLD = range(3)
_LAST: Final = (1 << 31) - 1
_MOST_KEPT: Final = 64
"""Operators that a worker keeps for the next micro-batch."""


@dataclass(frozen=True)
class Continuing:
    """How a streaming query runs an operator. Pickled."""

    make: Callable[[], Operator]
    lateness: tuple[int, ...]
    shares: int
    idle_timeout: float | None
    imports: tuple[str, ...]
    keeps_late: bool
    keeps_operators: bool = True
    """Whether workers keep operators for the next micro-batch; else each is made of its state again."""
    query: str = ""
    """What is asked, as a text, which must not change as long as there is a state; empty if nobody says."""

    def arrivals(self, now: float) -> Arrivals:
        """A new operator that nothing has come to yet."""
        return Arrivals(self.make(), self.lateness, idle_timeout=self.idle_timeout, now=now)

    @property
    def meaning(self) -> str:
        """What must not change as long as there is a state."""
        operator = self.make()
        shapes = [(str(each.schema), each.time) for each in (*operator.inputs, operator.output)]
        return json.dumps([shapes, list(operator.needs.keys or ()), self.shares])


def run_streaming(inputs: Sequence[Input], how: Continuing, metrics: str = METRICS) -> DataFrame:
    """What comes out of an operator for the rows of streaming DataFrames."""
    from pyspark.sql import functions as f

    operator = how.make()
    rows = tagged(inputs, operator.needs.keys or ())
    shared = rows.withColumn("share", f.pmod(f.col(KEY), f.lit(how.shares)).cast("int"))
    return run_shares(inputs, shared, how, metrics)


def run_shares(inputs: Sequence[Input], shared: DataFrame, how: Continuing, metrics: str = METRICS) -> DataFrame:
    """:func:`run_streaming` for rows of :func:`~.inputs.tagged` inputs that have a ``share``."""
    from pyspark.sql import functions as f

    operator = how.make()
    given_rows = (
        shared.mapInArrow(partial(_pack, how), _PACKED)
        .groupBy("share")
        .transformWithState(_Processor(how), _GIVEN, "Append", "None" if how.idle_timeout is None else "ProcessingTime")
        .observe(
            metrics,
            f.coalesce(f.sum("came"), f.lit(0)).alias("rows"),
            f.coalesce(f.sum("late"), f.lit(0)).alias("late_rows"),
            f.coalesce(f.sum("written"), f.lit(0)).alias("state_bytes"),
        )
    )
    output = declared(operator.output.schema)
    if how.keeps_late:
        output = output.add(LATE, _late_type(inputs, operator))
    names = tuple(each.name for each in inputs)
    return given_rows.mapInArrow(partial(_unpack, how, names), output)


def run_rowwise(inputs: Sequence[Input], how: Continuing) -> DataFrame:
    """The same for an operator that looks at each row by itself, and has no state."""
    return tagged(inputs).mapInArrow(partial(_each, how), declared(how.make().output.schema))


def _each(how: Continuing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import_all(how.imports)
    operator = how.make()
    for batch in batches:
        for port, rows in untagged(batch, operator.inputs):
            yield from outward(operator.push(port, rows), operator.output.schema)
    settle()


# -- rows on their way in ---------------------------------------------------------------------------------------------


def _pack(how: Continuing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as blobs by share, and then for every share how far time has come."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    import_all(how.imports)
    shapes = how.make().inputs
    newest: dict[int, int] = {}
    closed: set[int] = set()
    number = 0
    for batch in batches:
        _note(batch, shapes, newest, closed)
        found = []
        for share, own in _shared(batch, how.shares):
            for port, rows in untagged(own, shapes):
                found.append(
                    (share, port, task, number, int(shapes[port].times(rows).max()), packed(rows).to_pybytes())
                )
                number += 1
        if found:
            yield _as_packed(found)
    told: list[tuple[int, int | None]] = [*newest.items(), *((port, None) for port in closed)]
    if told:
        yield _as_packed([(share, port, task, _LAST, each, None) for port, each in told for share in range(how.shares)])
    settle()


def _note(batch: pa.RecordBatch, shapes: Sequence[Any], newest: dict[int, int], closed: set[int]) -> None:
    """Note the newest times of inputs, and which of them have ended."""
    ports = np.asarray(batch.column(PORT))
    ends = np.asarray(batch.column(TIME).is_null())
    closed.update(ports[ends].tolist())
    if ends.any():
        batch, ports = batch.filter(boolean_column(~ends)), ports[~ends]
    times = ticks(batch, shapes[0])
    for port in distinct(ports).tolist():
        top = int(times[ports == port].max())
        newest[port] = max(newest.get(port, top), top)


def _shared(batch: pa.RecordBatch, shares: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if shares == 1:
        yield 0, batch
        return
    numbers = np.asarray(batch.column("share"))
    order = np.argsort(numbers, kind="stable")
    sorted_rows = batch.take(pa.array(order))
    found, firsts = np.unique(numbers[order], return_index=True)
    for share, first, last in zip(found.tolist(), firsts, [*firsts[1:], len(order)], strict=True):
        yield share, sorted_rows.slice(int(first), int(last - first))


def _as_packed(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    kinds = (pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.binary())
    names = [each.split()[0] for each in _PACKED.split(", ")]
    columns = [pa.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=names)


# -- state ------------------------------------------------------------------------------------------------------------

_kept: OrderedDict[tuple[str, str], Arrivals] = OrderedDict()
"""Operators by what runs them and the name of the state that they are in, for whoever finds that name in Spark's."""


class _Processor(StatefulProcessor):
    """Runs the operator of each share, and keeps its state."""

    def __init__(self, how: Continuing) -> None:
        self._how = how
        self._meaning = how.meaning
        self._run = uuid.uuid4().hex  # a query that is written anew may be another one: it does not get old operators

    def init(self, handle: Any) -> None:
        """Have Spark keep a core, and chunks."""
        import_all(self._how.imports)
        self._handle = handle
        self._core = handle.getValueState("core", "content binary")
        self._chunks = handle.getMapState("chunks", "name string", "content binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take the rows of a share, in the order of tasks; then it is as late as the newest row anywhere."""
        now = self._now(timerValues)
        core, arrivals = self._restored(now)
        arrivals.share = int(key[0])
        before = sum(arrivals.rows), sum(arrivals.late_rows)
        found: Batches = []
        waiting = sorted(rows, key=lambda each: (each.task, each.number))
        for each in waiting:
            if each.rows is not None:
                schema = arrivals.operator.inputs[each.port].schema
                batch = unpacked(pa.py_buffer(bytes(each.rows)), schema)
                for first in range(0, batch.num_rows, arrivals.operator.most_rows or batch.num_rows):
                    found += arrivals.push(each.port, batch.slice(first, arrivals.operator.most_rows), now)
        for each in waiting:
            if each.rows is None and each.newest is not None:
                found += arrivals.hear(each.port, each.newest, now)
        for each in waiting:
            if each.rows is None and each.newest is None:
                found += arrivals.close(each.port, now)
        found += arrivals.settle(now)
        yield from self._given(core, arrivals, found, before, now)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Go on without inputs that have been silent for too long."""
        now = self._now(timerValues)
        core, arrivals = self._restored(now)
        before = sum(arrivals.rows), sum(arrivals.late_rows)
        yield from self._given(core, arrivals, arrivals.tick(now), before, now)

    def close(self) -> None:
        """Nothing is open."""
        settle()

    def _now(self, values: Any) -> float:
        return 0.0 if self._how.idle_timeout is None else float(values.getCurrentProcessingTimeInMs()) / 1000

    def _restored(self, now: float) -> tuple[dict[str, Any], Arrivals]:
        """The operator as it was, and what was written of it."""
        found = self._core.get()
        if found is None:
            return {"chunks": [], "timer": None}, self._how.arrivals(now)
        core = json.loads(bytes(found[0]))
        if core["meaning"] != self._meaning:
            raise InputError(
                "the checkpoint has the state of another query, or of another number of shares; expected the same: "
                "give the query a new checkpoint"
            )
        query = core.get("query", self._how.query)  # states that were written before have none
        if query != self._how.query:
            raise InputError(
                f"the checkpoint has the state of another query, {query or 'an operator'}; found "
                f"{self._how.query or 'an operator'}: give the query a new checkpoint"
            )
        arrivals = _kept.pop((self._run, core["token"]), None)
        if arrivals is None:
            arrivals = self._how.arrivals(now)
            chunks = {name: pa.py_buffer(bytes(self._chunks.getValue((name,))[0])) for name in core["chunks"]}
            arrivals.restore(State(core["state"], chunks))
        arrivals.heard = list(core["heard"])
        return core, arrivals

    def _given(
        self, core: dict[str, Any], arrivals: Arrivals, found: Batches, before: tuple[int, int], now: float
    ) -> Iterator[Row]:
        """What comes out, after the state has been written."""
        late = arrivals.take_late()
        written = self._write(core, arrivals, now)
        came, dropped = sum(arrivals.rows) - before[0], sum(arrivals.late_rows) - before[1]
        for batch in found:
            if batch.num_rows:
                yield Row(kind=_RESULT, port=0, rows=packed(batch).to_pybytes(), came=0, late=0, written=0)
        if self._how.keeps_late:
            for port, batch in late:
                yield Row(kind=_LATE, port=port, rows=packed(batch).to_pybytes(), came=0, late=0, written=0)
        yield Row(kind=_TOLD, port=0, rows=None, came=came, late=dropped, written=written)

    def _write(self, core: dict[str, Any], arrivals: Arrivals, now: float) -> int:
        """Write the core, and the chunks that are new; the bytes of these."""
        state = arrivals.snapshot()
        known = set(core["chunks"])
        written = 0
        for name, content in state.chunks.items():
            if name not in known:
                self._chunks.updateValue((name,), (content.to_pybytes(),))
                written += len(content) + len(name)
        for name in known - state.chunks.keys():
            self._chunks.removeKey((name,))
        token = uuid.uuid4().hex
        own = json.dumps(
            {
                "state": state.core,
                "chunks": list(state.chunks),
                "heard": arrivals.heard,
                "meaning": self._meaning,
                "query": self._how.query,
                "token": token,
                "timer": self._timer(core["timer"], now),
            }
        ).encode()
        self._core.update((own,))
        if self._how.keeps_operators:
            _kept[self._run, token] = arrivals
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
        return written + len(own)

    def _timer(self, before: int | None, now: float) -> int | None:
        """Have Spark call again when an input will have been silent for too long."""
        if self._how.idle_timeout is None or len(self._how.lateness) < 2:
            return None
        if before is not None:
            self._handle.deleteTimer(before)
        after = int((now + self._how.idle_timeout) * 1000) + 1
        self._handle.registerTimer(after)
        return after


# -- rows on their way out --------------------------------------------------------------------------------------------


def _late_type(inputs: Sequence[Input], operator: Operator) -> Any:
    """A struct with a field for each input."""
    from pyspark.sql.types import StructField, StructType

    kinds = [declared(shape.schema) for shape in operator.inputs]
    return StructType([StructField(each.name, kind) for each, kind in zip(inputs, kinds, strict=True)])


def _unpack(how: Continuing, names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import_all(how.imports)
    operator = how.make()
    shape = operator.output
    for batch in batches:
        kinds, ports, blobs = (batch.column(name) for name in ("kind", "port", "rows"))
        for kind, port, content in zip(kinds.to_pylist(), ports.to_pylist(), blobs, strict=True):
            if kind == _RESULT:
                found = outward([unpacked(content.as_buffer(), shape.schema)], shape.schema)
                yield from map(partial(_with_late, operator, names), found) if how.keeps_late else found
            elif kind == _LATE:
                rows = unpacked(content.as_buffer(), operator.inputs[port].schema)
                for each in given(operator.inputs[port].schema).convert(rows):
                    yield _only_late(operator, names, port, each)
    settle()


def _with_late(operator: Operator, names: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    kind = _arrow_late(operator, names)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.nulls(batch.num_rows, kind)], names=[*batch.schema.names, LATE]
    )


def _only_late(operator: Operator, names: Sequence[str], port: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Late rows of an input, beside columns of what comes out that are null."""
    kind = _arrow_late(operator, names)
    own = pa.StructArray.from_arrays(rows.columns, fields=list(kind.field(port).type))
    fields = [own if at == port else pa.nulls(rows.num_rows, kind.field(at).type) for at in range(len(names))]
    target = given(operator.output.schema).target
    columns = [pa.nulls(rows.num_rows, each.type) for each in target]
    late = pa.StructArray.from_arrays(fields, fields=list(kind))
    return pa.RecordBatch.from_arrays([*columns, late], names=[*target.names, LATE])


def _arrow_late(operator: Operator, names: Sequence[str]) -> pa.StructType:
    kinds = [pa.struct(list(given(shape.schema).target)) for shape in operator.inputs]
    return pa.struct([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])


__all__ = ["LATE", "METRICS", "SHARES", "Continuing", "run_rowwise", "run_shares", "run_streaming"]
