"""``tidelog.merge``: copies of a stream as iterables of batches in, one stream of batches out."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.merging.reading import AtOnce, InTurns, Reading
from tidelog.merging.sources import ORDERS, Ordering, Promises, Source, check_apart, in_order_of, key_of
from tidelog.model.arguments import flag, one_of, several, text
from tidelog.model.errors import ClosedError, InputError, SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import FOREVER
from tidelog.operators.merge.agreement import agreed
from tidelog.operators.merge.batches.engine import Policy
from tidelog.operators.merge.choice import Choice, choose
from tidelog.operators.merge.columns import COLUMNS, KIND_COLUMN, is_elements
from tidelog.operators.merge.errors import MergeError
from tidelog.operators.merge.operator import Check, MergeOperator, Output, Stables
from tidelog.operators.merge.options import MergeOptions
from tidelog.operators.merge.policies import policy_of
from tidelog.operators.merge.ports import Input, InputState
from tidelog.operators.properties import Order, Properties, weakest

_log: Final = logging.getLogger("tidelog")


class RepeatsWarning(UserWarning):
    """No key is declared, so events that an input sends twice count as two."""


@dataclass(frozen=True)
class MergeStats:
    """What a merge has done so far."""

    algorithm: str
    rows: int
    """Rows that came in."""
    inserts: int
    """Events, or inserts, that came out."""
    adjusts: int
    stables: int
    memory: int
    """Bytes of what is remembered now."""
    reached: int | None
    """The output's stable in ticks: everything before it is told. None for none yet."""
    check_seconds: float
    """What ``check="full"`` has taken so far."""
    inputs: tuple[InputState, ...]
    """The inputs that have not left."""
    failures: Mapping[str, Exception]
    """What inputs that left have raised."""


class Merged:
    """The stream that comes out, as an iterator of batches, once; also ``read_all()``, and Arrow's C interface.

    Inputs may be attached and detached while it is read. Close it, or use it as a context manager, to stop early.
    """

    def __init__(
        self,
        operator: MergeOperator,
        promises: Promises,
        properties: Mapping[str, Properties],
        choice: Choice | None,
        policy: str,
        reading: Reading,
        *,
        feedback: bool,
    ) -> None:
        """Made by :func:`merge`."""
        self._operator, self._promises, self._properties = operator, promises, dict(properties)
        self._choice, self._policy, self._reading, self._feedback = choice, policy, reading, feedback
        self._sources: dict[str, Source] = {}
        self._horizons: dict[str, int] = {}
        """What inputs were last told to be of no use any more."""
        self._waiting: deque[pa.RecordBatch] = deque()
        self._counts = {"insert": 0, "adjust": 0, "stable": 0}
        self._rows = 0
        self._failures: dict[str, Exception] = {}
        self._is_done = False
        self._is_closed = False
        self._told: int | None = None
        """The output's stable when inputs were last told of it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of what comes out."""
        return self._operator.output.schema

    @property
    def properties(self) -> Properties:
        """What is known of what comes out, for a merge behind this one."""
        return self._operator.derive(list(self._properties.values()))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while not self._waiting:
            if self._is_done or not self._step():
                self._is_done = True
                raise StopIteration
        return self._waiting.popleft()

    def read_all(self) -> pa.Table:
        """All that comes out as a table."""
        return pa.Table.from_batches(list(self), self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What comes out, by Arrow's C interface, for DuckDB, Polars and others."""
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def attach(self, data: Any, name: str | None = None, *, join: Any = None) -> str:
        """Take one more input in while reading; gives its name, which no other input ever had.

        It has all events that end at ``join`` or later, by default all there are. Until the output is there it is
        *pending*; once it has joined, all others may leave. ``data`` may be a :class:`Source`.
        """
        if self._is_closed:
            raise ClosedError("the merge is closed; attach inputs before that, or begin another merge")
        source = data if isinstance(data, Source) else Source(data)
        check_apart(source, self._sources)
        own = source.name if name is None else text("the name of an input", name)
        own = own or f"input {len(self._properties)}"
        if own in self._properties:
            raise InputError(f"there was an input {own!r} before; one that comes back needs another name")
        clock = self._operator.output.clock
        join = source.join if join is None else join
        first = None if join is None else clock.instant(join)
        model = self._like(own, source.open())
        shape = self._operator.inputs[self._operator.port(model)]
        properties = self._promises.properties(source, shape, self._promises.key)
        ticks = self._promises.ticks(own, source, shape, properties)
        self._operator.attach(own, like=model, join=first, delay=ticks)
        self._properties[own] = properties
        self._begin(own, source)
        return own

    def _like(self, name: str, schema: pa.Schema | None) -> str:
        """An input that has the columns of another one."""
        for known in self._properties:
            shape = self._operator.inputs[self._operator.port(known)]
            if schema is None:
                return known
            if is_elements(schema) == is_elements(shape.schema):
                own = self._promises.shape(in_order_of(shape.schema, schema), name)
                agreed([Input(known, shape), Input(name, own)])
                if set(shape.schema.names) <= set(schema.names):
                    return known
        told = ", ".join(schema.names) if schema is not None else "none"
        raise SchemaError(f"input {name!r} has the columns {told}; expected those of one that is, or was, there")

    def _begin(self, name: str, source: Source) -> None:
        self._sources[name] = source
        self._reading.add(name, source.batches)
        self._is_done = False

    def detach(self, name: str) -> None:
        """Let an input go: nothing of it is read, or taken, any more."""
        self._operator.detach(name)
        self._reading.remove(name)

    def force_join(self, name: str) -> None:
        """Have a pending input join now, though events that end before its join time may be missing then."""
        self._give(self._operator.force_join(name))

    def phase(self, name: str) -> str:
        """``"pending"``, ``"joined"`` or ``"left"``."""
        self._operator.port(name)
        return next((each.phase for each in self._operator.states if each.name == name), "left")

    def stats(self) -> MergeStats:
        """What has been done so far."""
        own = self._operator
        return MergeStats(
            own.algorithm.name,
            self._rows,
            self._counts["insert"],
            self._counts["adjust"],
            self._counts["stable"],
            own.memory,
            own.reached,
            own.check_seconds,
            tuple(own.states),
            dict(self._failures),
        )

    def explain(self) -> str:
        """Which algorithm merges the inputs, and why it is that one."""
        own = self._operator
        lines = [f"merge of {len(self._properties)} inputs by {own.algorithm.name}, for {own.algorithm.text}"]
        for name, properties in self._properties.items():
            lines.append(f"  {name}: {_told(properties)}")
        if self._choice is None:
            lines.append(f"  {own.algorithm.name} was asked for")
        else:
            lines += [f"  {each}" for each in self._choice.reasons]
        lines.append(f"  policy {self._policy}, output {own.output_kind}, check {own.check}")
        return "\n".join(lines)

    def close(self) -> None:
        """Read no more."""
        self._reading.close()
        self._is_done = self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self) -> bool:
        """Take what comes next; False if nothing will any more."""
        if self._operator.reached == FOREVER and self._operator.check == "inputs":
            self._reading.close()  # one input is complete: there is nothing that others could add
            return False
        event = self._reading.next()
        if event is None:
            self._end()
            return False
        name = event.name
        if event.error is not None:
            self._fail(name, event.error)
        elif event.rows is not None:
            self._rows += event.rows.num_rows
            self._give(self._operator.push(self._operator.port(name), self._placed(name, event.rows)))
        elif self._is_complete(name):
            self._give(self._operator.stable(name, FOREVER))
        else:
            self._operator.detach(name)
        if self._feedback:
            self._feed_back()
        return True

    def _is_complete(self, name: str) -> bool:
        """Whether the end of an input says that there are no events any more."""
        own = next((each for each in self._operator.states if each.name == name), None)
        if own is None or self._sources[name].ends == "leaves":
            return False
        if own.rows or len(self._operator.states) == 1:
            return True
        _log.warning("input %r of a merge has ended without a row, and has left", name)
        return False

    def _feed_back(self) -> None:
        """Tell inputs that are behind what is of no use any more."""
        reached = self._operator.reached
        horizons = self._operator.unneeded() if reached != self._told else ()
        for each in self._operator.states if horizons else ():
            horizon = horizons[self._operator.port(each.name)]
            if horizon > self._horizons.get(each.name, INT64_MIN) and (each.stable or INT64_MIN) < horizon:
                self._horizons[each.name] = horizon
                self._sources[each.name].skip(horizon)
        self._told = reached

    def _placed(self, name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the columns of their input in its order."""
        schema = self._operator.inputs[self._operator.port(name)].schema
        if rows.schema.names != schema.names:
            missing = [each for each in schema.names if each not in rows.schema.names]
            if missing:
                raise MergeError(f"a batch lacks the column {missing[0]!r}", input=name)
            rows = rows.select(schema.names)
        time = self._operator.inputs[self._operator.port(name)].time
        if rows.column(time).null_count:
            raise MergeError(f"there are nulls in {time!r}, which is the time; leave such rows out", input=name)
        if not rows.schema.equals(schema):
            for field, own in zip(rows.schema, schema, strict=True):
                if field.type != own.type:
                    raise MergeError(f"column {own.name!r} has type {field.type}; expected {own.type}", input=name)
            rows = pa.RecordBatch.from_arrays(rows.columns, schema=schema)
        return rows

    def _fail(self, name: str, error: BaseException) -> None:
        self._operator.detach(name)
        if not isinstance(error, Exception):
            raise error  # such as SystemExit, which is for all
        self._failures[name] = error
        if not self._operator.states:
            raise error
        _log.warning("input %r of a merge has left: %r; %d are there", name, error, len(self._operator.states))

    def _end(self) -> None:
        pending = [each.name for each in self._operator.states if each.phase == "pending"]
        if pending and self._operator.reached != FOREVER:
            _log.warning("inputs of a merge ended before they had joined, and are not part of it: %s", pending)

    def _give(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._waiting.extend(batches)
        for batch in batches:
            if self._operator.output_kind == "events":
                self._counts["insert"] += batch.num_rows
            else:
                for each in pc.value_counts(batch.column(KIND_COLUMN)).to_pylist():
                    self._counts[each["values"]] += each["counts"]


def merge(
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    time: str | None = None,
    key: str | Sequence[str] | bool | None = None,
    algorithm: str = "auto",
    policy: str = "lazy",
    check: Check = "inputs",
    delay: Any = None,
    order: Ordering = "none",
    same_ties: bool = False,
    inserts_only: bool = False,
    output: Output | None = None,
    stables: Stables = "each",
    concurrent: bool = False,
    feedback: bool = True,
) -> Merged:
    """One stream of inputs that are copies of it: each tells the same events, in its own order and at its own pace.

    Inputs are Arrow data, iterables of batches, or :class:`Source`, by names if they are a mapping. Their rows are
    plain events with a column ``time``, or elements (columns ``kind``, ``valid_from``, ``valid_to``, ``old_valid_to``).
    Plain events come out as such; else elements do.

    ``key`` are the columns that tell events of one time apart, True for all of them: an event that an input sends again
    is the same one then. Without a key events count as often as they come. ``order`` ("none", "rising", "strict"),
    ``same_ties`` and ``inserts_only`` are promises of all inputs, by which ``algorithm="auto"`` picks the cheapest that
    is right: ``explain()`` tells why. ``delay`` is how far behind the newest one an event of plain inputs may be.

    ``policy`` says what is told before it is certain (docs/merging.md). ``check="full"`` also compares what inputs have
    told for good. ``stables="last"`` takes those of a batch of elements for one, so that fewer elements come out. With
    ``concurrent`` each input is read by a thread of its own, so that none waits for another.
    ``feedback`` tells inputs that are behind, and have a method ``skip``, what is of no use any more. Once an input is
    complete, others are not read any more, unless they are compared.

    An input that raises leaves, with a warning in the log; the last one's error is raised. Raises
    :class:`~tidelog.operators.merge.errors.MergeError` for inputs that break their promises.
    """
    asked = MergeOptions.of(algorithm, key, policy, output)
    if time is not None:
        text("time", time, "the name of a column")
    one_of("check", check, ("inputs", "full"))
    one_of("stables", stables, ("each", "last"))
    one_of("order", order, tuple(ORDERS))
    for what, value in {
        "same_ties": same_ties,
        "inserts_only": inserts_only,
        "concurrent": concurrent,
        "feedback": feedback,
    }.items():
        flag(what, value)
    expected = "a list of inputs, or a dict of them by name"
    named: Iterable[tuple[str | None, Any]] = (
        [(text("the name of an input", name), data) for name, data in inputs.items()]
        if isinstance(inputs, Mapping)
        else [(None, each) for each in several("inputs", inputs, expected)]
    )
    sources: dict[str, Source] = {}
    for name, data in named:
        source = data if isinstance(data, Source) else Source(data)
        own = name or source.name or f"input {len(sources)}"
        if own in sources:
            raise InputError(f"there are two inputs {own!r}; give each a name of its own")
        check_apart(source, sources)
        sources[own] = source
    if not sources:
        raise InputError("found no inputs to merge; expected at least one")
    promises = Promises(time, None, delay, order, same_ties, inserts_only)
    schemas = {name: source.open() for name, source in sources.items()}
    known = next((schema for schema in schemas.values() if schema is not None), None)
    if known is None:
        for source in sources.values():
            if source.failure is not None:
                raise source.failure
        raise InputError("no input has a batch that tells its columns; give a schema with one, by Source(…, schema=…)")
    shapes = {name: promises.shape(in_order_of(known, schema), name) for name, schema in schemas.items()}
    clock = next(iter(shapes.values())).clock
    payload = [each for each in known.names if each not in (*COLUMNS, SEQUENCE_COLUMN, time)]
    columns = key_of(asked.key, payload)
    promises = Promises(time, columns, delay, order, same_ties, inserts_only)
    properties = {name: promises.properties(source, shapes[name], columns) for name, source in sources.items()}
    common, told = weakest(list(properties.values())), policy_of(policy, clock)
    choice = None
    if algorithm == "auto":
        choice = _chosen(common, told)
        algorithm = choice.algorithm
    specs = []
    for name, source in sources.items():
        ticks = promises.ticks(name, source, shapes[name], properties[name])
        specs.append(Input(name, shapes[name], ticks, None if source.join is None else clock.instant(source.join)))
    if delay is not None and all(spec.is_elements for spec in specs):
        raise InputError("found a delay for inputs of elements; the stables among them say how far each is")
    operator = MergeOperator(
        specs,
        algorithm,
        key=common.key if common.key and choice else columns,
        policy=told,
        output=output,
        check=check,
        stables=stables,
    )
    merged = Merged(
        operator, promises, properties, choice, policy, AtOnce() if concurrent else InTurns(), feedback=feedback
    )
    for name, source in sources.items():
        merged._begin(name, source)
    return merged


def _chosen(common: Properties, policy: Policy) -> Choice:
    choice = choose(common, policy)
    if choice.keeps_repeats:
        warnings.warn(
            f"no key is declared for a merge by {choice.algorithm}, so an event that an input sends twice counts as "
            "two; give the columns that tell events of one time apart as key=, or choose an algorithm by name",
            RepeatsWarning,
            stacklevel=3,
        )
    return choice


def _told(properties: Properties) -> str:
    """Promises in words."""
    words = [
        {Order.NONE: "in any order", Order.RISING: "in order", Order.STRICT: "in strict order"}[properties.order],
        "inserts only" if properties.inserts_only else "with revisions",
    ]
    if properties.same_ties:
        words.append("the same order of ties on every copy")
    words.append("no key" if properties.key is None else f"key ({', '.join(properties.key)})")
    return ", ".join(words)
