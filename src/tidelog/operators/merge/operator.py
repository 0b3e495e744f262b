"""Logical merge as an operator: several copies of a stream in, one out."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column
from tidelog.model.errors import InputError, NotFoundError, did_you_mean
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import FOREVER, Batches, Needs, Operator
from tidelog.operators.merge.agreement import agreed, is_nested, key_columns, plain_shape
from tidelog.operators.merge.algorithms import LAZY, algorithm_of
from tidelog.operators.merge.audit import Audit
from tidelog.operators.merge.batches.engine import Conflict, Policy, Rows, stable_rows
from tidelog.operators.merge.codes import (
    BEFORE,
    CAUSE,
    CHECK,
    END,
    FULLY_FROZEN,
    INSERT,
    KIND,
    NEVER,
    PAYLOAD,
    STABLE,
    START,
)
from tidelog.operators.merge.columns import chosen_rows, element_columns, element_shape
from tidelog.operators.merge.errors import MergeError, RepeatedKeyError
from tidelog.operators.merge.payloads.hashing import numbers_of
from tidelog.operators.merge.payloads.store import Payloads
from tidelog.operators.merge.ports import Input, InputState, Port, port_of
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State, packed, together, unpacked

Output: TypeAlias = Literal["events", "elements"]
Check: TypeAlias = Literal["inputs", "full"]
Stables: TypeAlias = Literal["each", "last"]
Bools: TypeAlias = npt.NDArray[np.bool_]

_log: Final = logging.getLogger("tidelog")


class MergeOperator(Operator):
    """One stream of the inputs, each of which is a copy of it.

    All inputs have the same columns, apart from ``_seq``, which is no part of what is merged. Each has progress of its
    own: the output is as far as the farthest input that has joined. A watermark that the operator is advanced to is a
    stable of every input of plain events; in inputs of elements stables stand among the rows, and watermarks, but for
    the last one, say nothing.

    Output: plain events where all inputs have them and the algorithm only inserts, else elements.
    """

    mixes = True
    patience: int | None = None
    """How far, in ticks, watermarks of inputs may lag behind the farthest one before it goes on without them; None for
    any distance. Only those who drive it by the watermarks of inputs go by it."""

    def __init__(
        self,
        inputs: Sequence[Input],
        algorithm: str,
        *,
        key: Sequence[str] | None = None,
        policy: Policy = LAZY,
        output: Output | None = None,
        check: Check = "inputs",
        stables: Stables = "each",
    ) -> None:
        """``key`` are the columns that tell events of one start apart, by default all: rows that agree in it are one.

        ``check="full"`` also compares inputs with each other, in all that they have settled. With ``stables="last"``
        those of a batch count as one, the last: fewer elements come out, which stand for the same events.

        Raises :class:`InputError` if algorithm, key, policy and output do not go together, :class:`SchemaError` if
        inputs do not.
        """
        if not inputs:
            raise InputError("found no inputs to merge; expected at least one, others may be attached later")
        self.algorithm = algorithm_of(algorithm, policy)
        self.policy = policy
        self._ports: list[Port] = []
        self._by_name: dict[str, int] = {}
        time, payload = agreed(inputs)
        self._payload = pa.schema(payload)
        self.key = key_columns(self.algorithm, self._payload, key)
        are_events = not any(each.is_elements for each in inputs)
        self.output_kind: Output = output or (
            "events" if are_events and not self.algorithm.takes_adjusts else "elements"
        )
        if self.output_kind == "events":
            if not are_events or self.algorithm.takes_adjusts:
                raise InputError(
                    f"found output='events' for {'events' if are_events else 'elements'} and {algorithm}; expected "
                    "plain events and an algorithm that only inserts, since events cannot be taken back"
                )
            shape = plain_shape(inputs[0].shape, payload)
        else:
            shape = element_shape(time, payload)
        is_free = are_events and not self.algorithm.is_ordered
        keys = (self.key,) * len(inputs) if is_free and self.key and not is_nested(self._payload, self.key) else None
        needs = Needs(self.algorithm.is_ordered, keys, *((0, 0) if are_events else (None, None)))
        super().__init__([each.shape for each in inputs], shape, needs)
        self._engine = self.algorithm.make(policy)
        self._payloads = Payloads(self._payload, self.key)
        if check not in ("inputs", "full"):
            raise InputError(f"found check={check!r}; expected 'inputs' or 'full'")
        self.check: Check = check
        if stables not in ("each", "last"):
            raise InputError(f"found stables={stables!r}; expected 'each' or 'last'")
        self._counts_last = stables == "last"
        own = self.algorithm
        self._audit = Audit(keyed=own.is_keyed, revised=own.takes_adjusts) if check == "full" else None
        self._snapshots = 0
        self._left_over: Batches = []
        """What came out by rows before one that was refused."""
        for each in inputs:
            self._attach(each)

    # Inputs

    def attach(self, name: str, *, like: str | None = None, join: int | None = None, delay: int | None = None) -> int:
        """Take another input in, whose columns are those of one that is or was there; gives its port.

        It has all events that end at ``join`` or later, by default all there are. Until the output is there it does not
        move the output on; then it has *joined*, and all others may leave. A name is used once: an input that comes
        back is a new one.
        """
        model = self._ports[0].spec if like is None else self._ports[self.port(like)].spec
        self._attach(replace(model, name=name, join=join, delay=delay))
        self.inputs = (*self.inputs, model.shape)
        if self.needs.keys is not None:
            self.needs = replace(self.needs, keys=(*self.needs.keys, self.key))
        return len(self._ports) - 1

    def _attach(self, spec: Input) -> None:
        self._engine.attach(spec.name, BEFORE if spec.join is None else spec.join)
        self._by_name[spec.name] = len(self._ports)
        self._ports.append(port_of(spec))
        if self._audit is not None:
            self._audit.attach(spec.name, BEFORE if spec.join is None else spec.join)

    def detach(self, name: str) -> None:
        """Let an input go: whatever it still sends is dropped."""
        port = self._ports[self.port(name)]
        if not port.is_detached:
            port.is_detached = True
            self._engine.detach(name)
            if self._audit is not None:
                self._audit.detach(name)

    def force_join(self, name: str) -> Batches:
        """Have an input join now, though events that end before its join time may be missing then."""
        port = self._attached(name)
        if port is None:
            return []
        _log.warning("input %r of a merge was made to join: events before its join time may be missing", name)
        return self._emitted(lambda: self._engine.force_join(name))

    def stable(self, name: str, time: int) -> Batches:
        """An input has no more inserts that start, and no adjusts with an end, before a time."""
        port = self._attached(name)
        if port is None or time <= self._engine.reached(name):
            return []
        rows = stable_rows(min(time, NEVER))
        if self._audit is not None:
            self._audit.take(name, rows, rows[PAYLOAD])
        return self._emitted(lambda: self._engine.push(name, rows))

    def count_late(self, name: str, rows: int) -> None:
        """Somebody has dropped rows of an input, since they were farther behind than its delay allows."""
        port = self._ports[self.port(name)]
        port.rows, port.late = port.rows + rows, port.late + rows

    def port(self, name: str) -> int:
        """The port of an input."""
        if name not in self._by_name:
            raise NotFoundError(f"there is no input {name!r}; {did_you_mean(name, self._by_name)}")
        return self._by_name[name]

    def _attached(self, name: str) -> Port | None:
        port = self._ports[self.port(name)]
        return None if port.is_detached else port

    @property
    def states(self) -> list[InputState]:
        """What is known of the inputs that have not left; for any thread."""
        found = []
        for port in list(self._ports):
            if not port.is_detached:
                try:
                    found.append(self._state(port))
                except InputError:
                    if not port.is_detached:  # else another thread has replaced it by a new one meanwhile
                        raise
        return found

    def _state(self, port: Port) -> InputState:
        reached, engine = self._engine.reached(port.name), self._engine
        stable = None if reached == BEFORE else FOREVER if reached == NEVER else reached
        counters = engine.counters(port.name)
        return InputState(port.name, engine.phase(port.name), stable, port.rows, port.late, counters)

    @property
    def reached(self) -> int | None:
        """The last stable of the output; None for none yet, :data:`~tidelog.operators.base.FOREVER` at the end."""
        stable = self._engine.stable if self.algorithm.takes_adjusts else self._engine.max_stable
        return None if stable == BEFORE else FOREVER if stable == NEVER else stable

    @property
    def check_seconds(self) -> float:
        """What comparing inputs has taken so far."""
        return 0.0 if self._audit is None else self._audit.seconds

    @property
    def memory(self) -> int:
        """The bytes of what is remembered."""
        return self._engine.memory + self._payloads.memory

    # Rows

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Take rows of an input, in the order in which they came.

        Raises :class:`~.errors.MergeError` for rows that break a promise of their input: nothing of them is taken, or,
        if a key is there twice, those before it.
        """
        own = self._ports[port]
        if own.is_detached or not batch.num_rows:
            return []
        engine, count = self._engine, batch.num_rows
        try:
            batch, rows = own.elements(batch, self.algorithm, engine.reached(own.name))
        except MergeError:
            raise
        except InputError as error:
            raise MergeError(str(error), input=own.name, row=error.row) from None
        own.rows += count
        if self._counts_last:
            _drop_stables(rows)
        keeps = self.algorithm.takes_adjusts
        waits = engine.ordered and engine.phase(own.name) == "pending"
        if self.algorithm.compares or waits:
            self._number(batch, rows, keeps or waits)
        if self._audit is not None:
            whole = rows[PAYLOAD].copy()
            whole[: batch.num_rows] = self._payloads.whole_numbers(batch)
            self._audit.take(own.name, rows, whole)
        found = self._emitted(lambda: engine.push(own.name, rows), batch, rows)
        if self._payloads.are_many:
            self._payloads.keep(engine.payloads())
        return found

    def _emitted(
        self, call: Callable[[], Rows], batch: pa.RecordBatch | None = None, rows: Rows | None = None
    ) -> Batches:
        """What comes out by a call; of one that is refused half-way, what came out before is given with the next."""
        found, self._left_over = self._left_over, []
        try:
            return found + self._given(call(), batch, rows)
        except Conflict as conflict:
            self._left_over = found + self._given(self._engine.take(), batch, rows)
            raise RepeatedKeyError(
                f"there is another event of a key ({', '.join(self.key)}) that starts at {conflict.start}; expected "
                "one for each key and start: give more columns as a key, or none",
                input=conflict.name,
            ) from None

    def _number(self, batch: pa.RecordBatch, rows: Rows, keeps: bool) -> None:
        count = batch.num_rows
        hashes = self._payloads.hashes(batch, rows[START, :count])
        numbers = numbers_of(hashes)
        rows[PAYLOAD, :count] = numbers
        if self.algorithm.is_keyed and not self.algorithm.takes_adjusts and self.algorithm.compares:
            whole = self._payloads.whole_numbers(batch) if self._payloads.has_part else numbers
            rows[CHECK, :count] = (whole ^ (rows[END, :count] * 0x9E3779B1)) | 1
        if keeps:
            is_wanted = (rows[KIND] != STABLE) & (rows[START] >= self._engine.max_stable)
            self._payloads.add(batch, hashes, numbers, np.flatnonzero(is_wanted))

    def advance(self, watermark: int) -> Batches:
        """A watermark is a stable of all inputs of plain events; the last one, of all inputs."""
        found: Batches = []
        for port in self._ports:
            if not port.is_detached and (watermark > INT64_MAX or not port.spec.is_elements):
                found += self.stable(port.name, watermark)
        return found

    def _given(self, out: Rows, batch: pa.RecordBatch | None, rows: Rows | None) -> Batches:
        """Elements that come out as a batch."""
        if self.output_kind == "events":
            out = out[:, out[KIND] == INSERT]
        else:
            out = out[:, (out[KIND] != STABLE) | (out[END] != NEVER)]
        count = out.shape[1]
        if not count:
            return []
        is_direct: Bools = (out[KIND] != STABLE) & (out[CAUSE] >= 0)
        if rows is None:
            is_direct[:] = False
        else:
            is_direct &= rows[KIND, np.maximum(out[CAUSE], 0)] != STABLE
        columns = self._taken(out, is_direct, batch)
        schema = self.output.schema
        if self.output_kind == "elements":
            columns = element_columns(out, self.output.time_type) + columns
        else:
            at = schema.get_field_index(self.output.time)
            columns.insert(at, integer_column(out[START]).view(self.output.time_type))
        return [pa.RecordBatch.from_arrays(columns, schema=schema)]

    def _taken(self, out: Rows, is_direct: Bools, batch: pa.RecordBatch | None) -> list[pa.Array]:
        """The payloads of elements: of rows that came just now, of the store, or none."""
        is_stored = ~is_direct & (out[KIND] != STABLE)
        if batch is not None and not is_stored.any() and not is_direct.all():
            rows = pa.array(np.maximum(out[CAUSE], 0), mask=~is_direct)
            return [pc.take(batch.column(name), rows, boundscheck=False) for name in self._payload.names]
        parts, places, first = [], np.empty(out.shape[1], np.int64), 0
        if batch is not None and is_direct.any():
            direct = chosen_rows(batch, out[CAUSE, is_direct], self._payload.names)
            if is_direct.all():
                return direct
            parts.append(direct)
            first = int(is_direct.sum())
            places[is_direct] = np.arange(first)
        if is_stored.any():
            wanted, where = np.unique(out[PAYLOAD, is_stored], return_inverse=True)
            parts.append(self._payloads.take(wanted).columns)
            places[is_stored] = first + where
            first += len(wanted)
        places[out[KIND] == STABLE] = first
        parts.append([pa.nulls(1, each.type) for each in self._payload])
        chosen = integer_column(places)
        return [
            pc.take(pa.concat_arrays([each.cast(field.type) for each in column]), chosen, boundscheck=False)
            for field, column in zip(self._payload, zip(*parts, strict=True), strict=True)
        ]

    # Time

    def next_deadline(self) -> int | None:
        """When pending inputs join; where elements come out, the next stable."""
        if self.output_kind == "elements":
            if any(not port.is_detached and not port.spec.is_elements for port in self._ports):
                reached = self._engine.max_stable
                return None if reached == NEVER else reached + 1
            return FOREVER if self._engine.size or self._engine.waits else None
        return self._engine.first_join if self._engine.waits else None

    @property
    def leaves_behind(self) -> bool:  # type: ignore[override]  # as it is told
        """Whether it goes on without inputs that lag."""
        return self.patience is not None

    def progress(self, marks: Sequence[int | None]) -> int | None:
        """The least, or the farthest less the patience."""
        least = super().progress(marks)
        known = [each for each in marks if each is not None and each < FOREVER]
        if self.patience is None or not known:
            return least
        farthest = max(max(known) - self.patience, INT64_MIN)
        return farthest if least is None else max(least, farthest)

    def passed(self, watermark: int) -> int:
        """The output's stable, or the first start of which something may still come out."""
        reached = self.reached
        if reached is None:
            return BEFORE
        if self.output_kind == "elements" and self.algorithm.takes_adjusts:
            return min(reached, self._engine.first_start)
        return reached

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Plain events come out at the times at which they come in; what revises others may be of use for long."""
        is_plain = self.output_kind == "events" and self._audit is None
        return (horizon if is_plain else INT64_MIN,) * len(self.inputs)

    def unneeded(self) -> tuple[int, ...]:
        """The horizons of inputs; of elements that may be revised, one that starts early may end late."""
        takes = self.algorithm.takes_adjusts
        return tuple(INT64_MIN if takes and port.spec.is_elements else self.horizon(port.name) for port in self._ports)

    def horizon(self, name: str) -> int:
        """The time before which elements of an input are of no use any more; the least time there is if all may be.

        An input may leave out plain events before it. Of elements it may leave out, for algorithms that only insert,
        those that start before it; else inserts that end, and adjusts with both ends, before it; and stables before it.
        """
        port = self._ports[self.port(name)]
        if port.is_detached:
            return INT64_MAX
        engine = self._engine
        if self._audit is not None:
            return INT64_MIN
        if not self.algorithm.takes_adjusts:
            return engine.progress()
        return max(engine.max_stable - (not port.spec.is_elements), INT64_MIN)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """What the algorithm makes of its inputs."""
        own = self.algorithm
        order = Order.STRICT if own.is_strict else Order.RISING if own.is_ordered else Order.NONE
        inserts_only = not own.takes_adjusts or self.policy.code == FULLY_FROZEN
        return Properties(order, inserts_only, own.is_ordered and not own.compares, self.key if own.is_keyed else None)

    def snapshot(self) -> State:
        """What the merge knows, the payloads of that, and the inputs."""
        ports = [port.snapshot() | {"like": self._like(port)} for port in self._ports]
        parts = {"engine": self._engine.snapshot(), "payloads": self._payloads.snapshot()}
        self._snapshots += 1
        state = together(parts, {"ports": ports, "snapshots": self._snapshots, "left over": len(self._left_over)})
        own = {f"left over {self._snapshots}/{place}": packed(each) for place, each in enumerate(self._left_over)}
        if self._audit is not None:
            own[f"audit {self._snapshots}"] = pa.py_buffer(json.dumps(self._audit.snapshot()).encode())
        return State(state.core, {**state.chunks, **own})

    def _like(self, port: Port) -> int:
        return next(place for place, each in enumerate(self._ports) if each.spec.shape == port.spec.shape)

    def restore(self, state: State) -> None:
        """Go on, with the inputs that were attached meanwhile."""
        for place, core in enumerate(state.core["ports"]):
            if place >= len(self._ports):
                like = self._ports[core["like"]].name
                self.attach(core["name"], like=like, join=core["join"], delay=core["delay"])
            self._ports[place].restore(core)
        number = self._snapshots = state.core["snapshots"]
        left = [state.chunks[f"left over {number}/{place}"] for place in range(state.core["left over"])]
        self._left_over = [unpacked(each, self.output.schema) for each in left]
        if self._audit is not None:
            self._audit.restore(json.loads(bytes(state.chunks[f"audit {number}"])))
        self._engine.restore(state.part("engine"))
        self._payloads.restore(state.part("payloads"))


def _drop_stables(rows: Rows) -> None:
    """Have stables before the farthest one of a batch say nothing: the output goes on by that one alone."""
    at = np.flatnonzero(rows[KIND] == STABLE)
    if len(at) > 1:
        rows[END, np.delete(at, np.argmax(rows[END, at]))] = BEFORE
