"""Subscriptions of a store: begun, gone on with, told of and dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from tidelog.engine.online.flow import Flow, OnLate, Steps
from tidelog.engine.online.inputs import Input, Position, identity
from tidelog.engine.online.keeping import Keeping, check_target, kept_state
from tidelog.engine.online.subscription import WHEN_BEHIND, Callback, Subscription, WhenBehind
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.arguments import found, integer, one_of
from tidelog.model.errors import InputError, NotFoundError, SchemaError
from tidelog.model.schema import Schema
from tidelog.operators.base import Operator
from tidelog.sql.continuous import Continuous
from tidelog.storage.media.medium import Medium
from tidelog.store.log.stream_names import check_stream_name
from tidelog.store.read.rows_by_number import about_rows
from tidelog.store.subscriptions import (
    SubscriptionLog,
    check_subscription_name,
    is_running,
    read_subscription,
    subscription_names,
)

if TYPE_CHECKING:
    from tidelog.engine.online.merging.merging import Merging
    from tidelog.engine.store import Store

_S = TypeVar("_S", bound=Subscription)

NEVER_LATE: Final = (1 << 64) - 1
"""Ticks that no two times are apart."""
_MOST_BEHIND: Final = 1 << 20


@dataclass(frozen=True)
class SubscriptionInfo:
    """What is known of a subscription with a name."""

    name: str
    query: str
    streams: tuple[str, ...]
    """The streams that it reads, by the names that they have; those that are gone by the names that they had."""
    into: str | None
    """The stream that its rows go to."""
    is_running: bool
    """Whether somebody runs it, here or elsewhere."""
    behind: int | None
    """About how many rows it has not read yet; None if a stream is gone."""
    rows: int
    """How many rows it has read."""
    late: int
    """How many of these came too late, and were dropped."""
    dropped: int
    """How many it has passed over because there were too many."""


class Subscriptions:
    """Those of a store that run here."""

    def __init__(self, store: Store, medium: Medium) -> None:
        self._store = store
        self._medium = medium
        self._running: list[Subscription] = []
        self._mutex = threading.Lock()

    def subscribe(
        self,
        query: Continuous,
        *,
        start: Any,
        name: str | None,
        into: str | None,
        lateness: Any,
        idle_timeout: float | None,
        callback: Callback | None,
        on_late: OnLate | None,
        when_behind: WhenBehind,
        most_behind: int | None,
        follow: bool,
        workers: int | None,
    ) -> Subscription:
        """Begin a subscription, or go on with one."""
        one_of("when_behind", when_behind, WHEN_BEHIND)
        most = _MOST_BEHIND if most_behind is None else integer("most_behind", most_behind, 0)
        if workers is not None:
            integer("workers", workers, 1)
        _check_functions(callback, on_late)
        if idle_timeout is not None and not (isinstance(idle_timeout, int | float) and idle_timeout >= 0):
            raise found("idle_timeout", idle_timeout, "seconds, or None to wait for all inputs")
        if into is not None and callback is not None:
            raise InputError("found into and a callback; the rows go to one of them")
        if into is not None:
            check_stream_name(into)
        name = into if name is None else name
        streams = [self._store.stream(each) for each in query.streams]
        operator = query.make()
        keeping = None if name is None else self._keeping(query, operator, streams, check_subscription_name(name), into)
        inputs: list[Input] = []
        try:
            for stream, shape in zip(streams, operator.inputs, strict=True):
                inputs.append(Input(stream, shape, durable=keeping is not None))
            late = [self._lateness(operator, stream, lateness) for stream in streams]
            most_kept = most if when_behind == "drop" else None
            flow = Flow(query, inputs, late, idle_timeout, most_kept, on_late, workers)
            if keeping is not None and keeping.log.kept is not None:
                flow.restore(keeping.log.kept.values, kept_state(keeping.log.kept))
            else:
                for each in inputs:
                    each.begin(start)
            return self.run(flow, keeping, callback, follow=follow, block_at=most if when_behind == "block" else None)
        except BaseException:
            for each in inputs:
                each.close()
            if keeping is not None:
                keeping.log.close()
            raise

    def merge(
        self,
        into: str,
        inputs: Any,
        *,
        asked: dict[str, Any],
        read: Callable[[str], Continuous],
        name: str | None,
        delay: Any,
        start: Any,
        schema: Schema | None,
        follow: bool,
    ) -> Merging:
        """Begin a merge into a stream, or go on with one; ``asked`` are the values of its options."""
        from tidelog.engine.online.merging.beginning import begin_merge  # with the kernels of merges
        from tidelog.operators.merge.options import MergeOptions

        check_stream_name(into)
        name = check_subscription_name(into if name is None else name)
        merging = begin_merge(
            self._store, self._medium, read, into, inputs, MergeOptions.of(**asked),
            name=name, delay=delay, start=start, schema=schema, follow=follow, on_end=self._ended,
        )  # fmt: skip
        return self._begun(merging)

    def run(
        self,
        flow: Steps,
        keeping: Keeping | None = None,
        callback: Callback | None = None,
        *,
        follow: bool = True,
        block_at: int | None = None,
    ) -> Subscription:
        """Have a subscription work."""
        return self._begun(Subscription(flow, keeping, callback, follow=follow, block_at=block_at, on_end=self._ended))

    def _begun(self, subscription: _S) -> _S:
        with self._mutex:
            self._running.append(subscription)
        try:
            subscription.begin()
        except BaseException:
            self._ended(subscription)
            raise
        return subscription

    def _lateness(self, operator: Operator, stream: Stream, lateness: Any) -> int:
        """Ticks by which rows of a stream may be late; those of a plan that nothing waits in never are."""
        clock = stream.schema.clock
        if lateness is not None:
            return clock.duration(lateness)
        own = stream.options.lateness_ticks(clock)
        if own is not None:
            return own
        return 0 if operator.waits else NEVER_LATE

    def _keeping(
        self, query: Continuous, operator: Operator, streams: Sequence[Stream], name: str, into: str | None
    ) -> Keeping:
        log = SubscriptionLog.open(self._medium, name)
        try:
            about = {
                "name": name,
                "query": query.meaning,
                "text": query.text,
                "streams": list(query.streams),
                "into": into,
            }
            if log.kept is not None:
                _refuse_other(name, log.kept.values, about)
            check_target(self._store, name, into, log.kept)
            return Keeping.of(log, about, None if into is None else self._target(query, operator, streams, into))
        except BaseException:
            log.close()
            raise

    def _target(self, query: Continuous, operator: Operator, streams: Sequence[Stream], into: str) -> Stream:
        """The stream that rows go to, made if there is none."""
        output = operator.output
        columns = pa.schema([output.schema.field(each) for each in query.columns])
        if into not in self._store:
            return self._store.create_stream(into, columns, output.time)
        stream = self._store.stream(into)
        if any(identity(writer_of(each)) == identity(writer_of(stream)) for each in streams):
            raise InputError(f"the rows of a subscription to {into!r} cannot go into {into!r} itself; name another one")
        have = [(each.name, each.type) for each in stream.schema.arrow]
        if have != [(each.name, each.type) for each in columns] or stream.schema.time != output.time:
            raise SchemaError(
                f"stream {into!r} has the columns {stream.schema.arrow}, in time by {stream.schema.time!r}; the query "
                f"gives {columns}, in time by {output.time!r}: name them alike, or choose another stream"
            )
        return stream

    def _ended(self, subscription: Subscription) -> None:
        with self._mutex, suppress(ValueError):
            self._running.remove(subscription)

    def infos(self) -> list[SubscriptionInfo]:
        """All with a name, whoever runs them."""
        found = []
        for name in subscription_names(self._medium):
            with suppress(NotFoundError):  # dropped meanwhile
                found.append(self._info(name))
        return found

    def _info(self, name: str) -> SubscriptionInfo:
        values = read_subscription(self._medium, name).values
        positions = [Position.of(each) for each in values["inputs"]]
        streams = [self._read(*each) for each in zip(values["streams"], positions, strict=True)]
        rows = [None if each is None else _behind(each, at) for each, at in zip(streams, positions, strict=True)]
        behind = None if None in rows else sum(each for each in rows if each is not None)
        return SubscriptionInfo(
            name,
            values["text"],
            tuple(said if each is None else each.name for said, each in zip(values["streams"], streams, strict=True)),
            values["into"],
            is_running(self._medium, name),
            behind,
            sum(values["core"]["rows"]),
            sum(values["core"]["late"]),
            sum(each.dropped for each in positions),
        )

    def _read(self, name: str, position: Position) -> Stream | None:
        """The stream that has been read, which may have got another name; None if it is gone."""
        for each in (name, *self._store.streams()):
            with suppress(NotFoundError):
                stream = self._store.stream(each)
                if identity(writer_of(stream)) == position.stream:
                    return stream
        return None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, none of those that run here keeps or appends anything."""
        with self._mutex, ExitStack() as held:
            for each in self._running:
                held.enter_context(each.keeping_mutex)
            yield

    def close(self) -> None:
        """End all of them."""
        with self._mutex:
            running = list(self._running)
        for each in running:
            each.stop()


def _behind(stream: Stream, position: Position) -> int:
    snapshot = writer_of(stream).published()
    return about_rows(snapshot, snapshot.visible - position.seen)


def _refuse_other(name: str, known: dict[str, Any], about: dict[str, Any]) -> None:
    for what, said in (("query", "text"), ("into", "into")):
        if known[what] != about[what]:
            raise InputError(
                f"subscription {name!r} has the {what} {known[said]!r}; found {about[said]!r}: drop it first "
                f"(store.drop_subscription({name!r})), or choose another name"
            )


def _check_functions(callback: object, on_late: object) -> None:
    if callback is not None and not callable(callback):
        raise found("callback", callback, "a function that is given batches of rows")
    if on_late is not None and not callable(on_late):
        raise found("on_late", on_late, "a function that is given a stream and its late rows")
    for what, function in (("callback", callback), ("on_late", on_late)):
        if iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
            raise found(what, function, "a plain function, which a thread calls; in an event loop use async for")
