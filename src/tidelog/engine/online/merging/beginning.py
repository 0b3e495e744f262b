"""Merges into streams: begun, or gone on with."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.engine.online.flow import Flow
from tidelog.engine.online.inputs import Input, identity, stream_shape
from tidelog.engine.online.keeping import Keeping, check_target, kept_state
from tidelog.engine.online.merging.flow import MergeFlow
from tidelog.engine.online.merging.merging import Merging
from tidelog.engine.online.merging.ordering import in_order
from tidelog.engine.online.merging.sources import (
    STREAM,
    BatchSource,
    QuerySource,
    Source,
    StreamSource,
    check_columns,
    check_name,
)
from tidelog.engine.online.subscription import Subscription
from tidelog.engine.stream import Stream, writer_of
from tidelog.merging import RepeatsWarning
from tidelog.model.errors import InputError, NotFoundError, SchemaError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Shape
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.options import AUTO, MergeOptions
from tidelog.operators.merge.ports import Input as Spec
from tidelog.sql.continuous import Continuous
from tidelog.storage.media.medium import Medium
from tidelog.store.subscriptions import SubscriptionLog

if TYPE_CHECKING:
    from tidelog.engine.store import Store

_log = logging.getLogger("tidelog.subscriptions")

_QUERY = re.compile(r"\W*(select|with|from)\b", re.IGNORECASE)

Read = Callable[[str], Continuous]


class Sources:
    """Makes sources of what is given for inputs, all with the columns of the first."""

    def __init__(self, store: Store, read: Read, into: str, shape: Shape | None, delay: Any) -> None:
        """``delay`` is that of all inputs that have none of their own, or a mapping of those that have one."""
        self._store = store
        self._read = read
        self._into = into
        self._shape = shape
        self._delay = None if isinstance(delay, Mapping) else delay
        self._whose = "the others" if shape is None else f"stream {into!r}, into which they go"
        self.on_news: Callable[[], None] = _nothing
        """Is called when batches have come."""

    @property
    def shape(self) -> Shape:
        """The columns that all inputs have."""
        if self._shape is None:
            raise SchemaError(
                "the columns of the inputs are not known: give schema= and time=, or a stream among the inputs"
            )
        return self._shape

    @property
    def clock(self) -> Clock:
        """What instants and durations mean."""
        return self.shape.clock

    def learn(self, source: Any) -> None:
        """Take the columns of a stream or a query, if none are known."""
        if self._shape is None and isinstance(source, str):
            self._shape = self._shape_of(source)

    def _shape_of(self, source: str) -> Shape:
        if source in self._store:
            return _plain(stream_shape(self._store.stream(source)))
        if not _QUERY.match(source):
            told = did_you_mean(source, self._store.streams())
            raise NotFoundError(f"there is no stream {source!r}; {told} (queries begin with SELECT, WITH or FROM)")
        query = self._read(source)
        output = query.make().output
        return _plain(Shape(pa.schema([output.schema.field(each) for each in query.columns]), output.time))

    def made(self, name: str, source: Any, start: Any) -> Source:
        """The source for an input, at its beginning."""
        if not isinstance(source, str):
            return self._batches(name, source)
        check_columns(name, self._shape_of(source), self.shape, self._whose)
        if source in self._store:
            stream = self._store.stream(source)
            self._refuse_itself(stream)
            read = Input(stream, self.shape, durable=True)
            read.begin(start)
            return StreamSource(read)
        return self._queried(source, start)

    def _batches(self, name: str, source: Any) -> Source:
        if isinstance(source, Subscription) and source.name is not None:
            raise InputError(
                f"input {name!r} is the subscription {source.name!r}, which keeps by itself how far it is; expected "
                "its query, of which the merge keeps that together with its own state"
            )
        if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.RecordBatchReader):
            source = [source]
        if isinstance(source, bytes | Mapping) or not isinstance(source, Iterable):
            raise InputError(
                f"input {name!r} is {source!r:.40} ({type(source).__name__}); expected the name of a stream, a "
                "query, or an iterable of batches"
            )
        return BatchSource(source, self.shape, lambda: self.on_news())

    def _queried(self, text: str, start: Any) -> Source:
        query = self._read(text)
        streams = [self._store.stream(each) for each in query.streams]
        for each in streams:
            self._refuse_itself(each)
        operator = query.make()
        inputs = [Input(stream, shape, durable=True) for stream, shape in zip(streams, operator.inputs, strict=True)]
        for read in inputs:
            read.begin(start)
        lateness = [stream.options.lateness_ticks(stream.schema.clock) or 0 for stream in streams]
        return QuerySource(Flow(query, inputs, lateness), self.shape)

    def _refuse_itself(self, stream: Stream) -> None:
        if self._into in self._store and identity(writer_of(stream)) == identity(
            writer_of(self._store.stream(self._into))
        ):
            raise InputError(f"a merge into {self._into!r} cannot read {self._into!r} itself; name another stream")

    def delay_of(self, source: Any, delay: Any) -> int | None:
        """How far rows may be behind, in ticks; None for any distance, and where rows tell."""
        delay = self._delay if delay is None else delay
        if delay is not None:
            return self.clock.duration(delay)
        if isinstance(source, str) and source in self._store and not Spec("", self.shape).is_elements:
            return self._store.stream(source).options.lateness_ticks(self.clock)
        return None


def begin_merge(
    store: Store,
    medium: Medium,
    read: Read,
    into: str,
    given: Any,
    options: MergeOptions,
    *,
    name: str,
    delay: Any,
    start: Any,
    schema: Schema | None,
    follow: bool,
    on_end: Callable[[Subscription], None],
) -> Merging:
    """Begin a merge, or go on with the one of that name."""
    inputs = _named(given)
    log = SubscriptionLog.open(medium, name)
    made: dict[str, Source] = {}
    try:
        sources = Sources(store, read, into, _known_shape(store, into, options, schema), delay)
        kept = None if log.kept is None else log.kept.values
        ports: list[dict[str, Any]] = []
        if kept is not None:
            _check_same(name, into, options, kept)
            check_target(store, name, into, log.kept)
            log_kept = log.kept
            assert log_kept is not None
            state = kept_state(log_kept)
            ports = state.core["operator"]["ports"]
            inputs = {**{each: _kept_text(store, value) for each, value in kept["sources"].items()}, **inputs}
        for source in inputs.values():
            sources.learn(source)
        for each, source in inputs.items():
            if source is None:
                _log.warning("input %r of merge %r is not there any more, and has left", each, name)
            else:
                made[each] = sources.made(each, source, start)
        for each in delay if isinstance(delay, Mapping) else ():
            if each not in inputs:
                raise InputError(
                    f"found the delay of {each!r}, which is no input; {did_you_mean(str(each), list(inputs))}"
                )
        delays = {each: sources.delay_of(source, _own(delay, each)) for each, source in inputs.items()}
        delays.update((each["name"], each["delay"]) for each in ports)  # those it had, by which rows wait already
        if kept is None:
            if options.algorithm == AUTO and options.key is None:
                warnings.warn(
                    f"the merge into {into!r} has no key: events that an input sends twice are two events; give key=, "
                    "True for all columns, to have them once",
                    RepeatsWarning,
                    stacklevel=4,
                )
            specs = [Spec(each, sources.shape, delays[each]) for each in made]
            operator = options.make(specs)
        else:
            operator = options.make([Spec(p["name"], sources.shape, p["delay"], p["join"]) for p in ports])
        made = {each: in_order(own, operator, sources.shape, delays[each]) for each, own in made.items()}
        about: dict[str, Any] = {"name": name, "query": options.to_json(), "into": into}
        flow = MergeFlow(operator, {key: value for key, value in options.to_json().items() if value is not None})
        target = _target(store, into, operator)
        if kept is None:
            flow.sources = made
        else:
            old = {each: made[each] for each in kept["sources"] if each in made}
            flow.sources = old
            flow.restore(kept, state)
            known = {each["name"] for each in ports}
            for each in kept["sources"].keys() - old.keys():
                operator.detach(each)
            for each in made.keys() - old.keys():
                if each in known:
                    _log.info("input %r of merge %r has left before, and stays away", each, name)
                    made[each].close()
                else:
                    operator.attach(each, delay=delays[each])
                    flow.add(each, made[each])
        return Merging(flow, Keeping.of(log, about, target), sources, follow=follow, on_end=on_end)
    except BaseException:
        for each_source in made.values():
            each_source.close()
        log.close()
        raise


def _kept_text(store: Store, source: dict[str, Any]) -> str | None:
    """What an input is made of again; None for a stream that was dropped, even if it was created again, and batches."""
    text: str | None = source["text"]
    if text is None or source["kind"] != STREAM:
        return text
    is_there = text in store and identity(writer_of(store.stream(text))) == source["position"]["stream"]
    return text if is_there else None


def _own(delay: Any, name: str) -> Any:
    return delay.get(name) if isinstance(delay, Mapping) else delay


def _named(inputs: Any) -> dict[str, Any]:
    """Inputs by name: streams have their own, others the number at which they stand."""
    if isinstance(inputs, Mapping):
        found = dict(inputs)
    elif isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
        found = {}
        for number, each in enumerate(inputs, 1):
            name = each if isinstance(each, str) and " " not in each else str(number)
            if name in found:
                raise InputError(f"there are two inputs {name!r}; give each a name of its own, in a mapping")
            found[name] = each
    else:
        raise InputError(f"found {type(inputs).__name__} for inputs; expected a list, or a mapping by name")
    for name in found:
        check_name(name)
    return found


def _known_shape(store: Store, into: str, options: MergeOptions, schema: Schema | None) -> Shape | None:
    if schema is not None:
        return Shape(schema.arrow, schema.time)
    if into not in store or options.output == "elements":
        return None
    shape = _plain(stream_shape(store.stream(into)))
    return None if Spec("", shape).is_elements else shape


def _plain(shape: Shape) -> Shape:
    return Shape(pa.schema([each for each in shape.schema if each.name != SEQUENCE_COLUMN]), shape.time)


def _check_same(name: str, into: str, options: MergeOptions, kept: dict[str, Any]) -> None:
    if "sources" not in kept:
        raise InputError(f"{name!r} is a subscription to a query, and no merge; choose another name")
    if kept["into"] != into or kept["query"] != options.to_json():
        raise InputError(
            f"merge {name!r} goes into {kept['into']!r} with {kept['query']}; found {into!r} with {options.to_json()}: "
            f"drop it first (store.drop_subscription({name!r})), or choose another name"
        )


def _target(store: Store, into: str, operator: MergeOperator) -> Stream:
    """The stream that rows go to, made if there is none."""
    output = operator.output
    if into not in store:
        return store.create_stream(into, output.schema, output.time)
    stream = store.stream(into)
    have = [(each.name, each.type) for each in stream.schema.arrow]
    if have != [(each.name, each.type) for each in output.schema] or stream.schema.time != output.time:
        raise SchemaError(
            f"stream {into!r} has the columns {stream.schema.arrow}, in time by {stream.schema.time!r}; the merge "
            f"gives {output.schema}, in time by {output.time!r}: choose another stream"
        )
    return stream


def _nothing() -> None:
    """Nobody waits for news yet."""
