"""A merge at work: rows of sources through the operator, step by step, while inputs come and go."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa

from tidelog.engine.online.flow import Steps
from tidelog.engine.online.inputs import Input
from tidelog.engine.online.merging.sources import Source
from tidelog.model.errors import ClosedError, CorruptionError, NotFoundError, StorageError, TidelogError
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import FOREVER, Batches
from tidelog.operators.merge.errors import MergeError
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.state import State, together
from tidelog.threads import Task

_log = logging.getLogger("tidelog.subscriptions")

_MOST_TIMES = 1_000
"""At how many times a step merges what ended inputs have left."""


@dataclass
class Order:
    """Something to be done between two steps; who asked for it waits until it is kept."""

    call: Callable[[], Batches]
    refused: Callable[[], None]
    """Is called if it is never begun."""
    failure: BaseException | None = None
    reply: Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.reply = Task(self._answer)

    def _answer(self) -> None:
        if self.failure is not None:
            raise self.failure


class MergeFlow(Steps):
    """Takes rows of all inputs in turns: none waits for another one."""

    def __init__(self, operator: MergeOperator, options: dict[str, Any]) -> None:
        """``options`` tell what the merge is, as JSON values."""
        self.operator = operator
        self.options = options
        self.sources: dict[str, Source] = {}
        self.failures: dict[str, BaseException] = {}
        """Why inputs left that have failed."""
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._done: list[Order] = []
        self._turn = 0
        self._told: int | None = None
        """The output's stable when inputs were last told of it."""

    @property
    def inputs(self) -> list[Input]:  # type: ignore[override]  # changes as inputs come and go
        """The streams that are read."""
        return [each for source in list(self.sources.values()) for each in source.inputs]

    @property
    def text(self) -> str:
        """What is merged, and how."""
        named = ", ".join(f"{key}={json.dumps(value)}" for key, value in self.options.items() if value is not None)
        return f"MERGE {', '.join(self.sources)} ({named})"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out."""
        return self.operator.output.schema

    @property
    def rows(self) -> int:
        """How many rows have come by inputs that are there."""
        return sum(each.rows for each in self.operator.states)

    @property
    def late_rows(self) -> int:
        """How many of them were behind the delay."""
        return sum(each.late for each in self.operator.states)

    # Inputs

    def add(self, name: str, source: Source) -> None:
        """Read an input that is attached from a source."""
        self.sources[name] = source

    def detach(self, name: str) -> None:
        """Let an input go."""
        self.operator.detach(name)
        source = self.sources.pop(name, None)
        if source is not None:
            source.close()

    def order(self, call: Callable[[], Batches], refused: Callable[[], None]) -> Order:
        """Have something done between two steps, by the thread that makes them."""
        order = Order(call, refused)
        self._orders.put(order)
        return order

    # Steps

    def step(self) -> Batches | None:
        """Do what was ordered, or take rows of the next input that has some."""
        if (given := self._obeyed()) is not None:
            return given
        names = list(self.sources)
        for place in range(len(names)):
            name = names[(self._turn + place) % len(names)]
            rows = self._taken(name)
            if rows is None:
                continue
            self._turn = (self._turn + place + 1) % len(names)
            return self._pushed(name, rows)
        if self.sources and all(each.has_ended for each in self.sources.values()):
            return self._rests()
        return None

    def _obeyed(self) -> Batches | None:
        try:
            order = self._orders.get_nowait()
        except Empty:
            return None
        self._done.append(order)
        try:
            return order.call()
        except Exception as error:
            order.failure = error
            return []

    def _taken(self, name: str) -> pa.RecordBatch | None:
        source = self.sources[name]
        if source.has_ended:
            return None
        try:
            return source.take()
        except EOFError:
            self._end(name)
        except ClosedError:
            raise
        except Exception as error:
            if source.inputs and not _is_for_good(error):
                raise  # of the store, which may well do next time
            self._fail(name, error)
        return None

    def _end(self, name: str) -> None:
        """Have an ended input leave, if it has nothing waiting that others are not past."""
        source = self.sources[name]
        if self._told is not None:
            source.rest(self._told)
        if source.waits is None:
            _log.info("input %r of a merge has ended, and has left", name)
            self.detach(name)

    def _rests(self) -> Batches:
        """What ended inputs have left waiting, once nobody is there who may still have something before it.

        In the order of time, as what one of them lacks another one may have: one time of all inputs after the other,
        and not too many in one step.
        """
        found: Batches = []
        for _ in range(_MOST_TIMES):
            first = min((each.waits for each in self.sources.values() if each.waits is not None), default=None)
            if first is None:
                for name in list(self.sources):
                    self._end(name)
                break
            before = first + 1 if len(self.sources) > 1 else FOREVER
            for name, source in list(self.sources.items()):
                rows = source.rest(before) if name in self.sources else None  # it may have failed by rows of another
                if rows is not None:
                    found += self._pushed(name, rows)
        return found

    def _pushed(self, name: str, rows: pa.RecordBatch) -> Batches:
        found: Batches = []
        try:
            found += self.operator.push(self.operator.port(name), rows)
            self.operator.count_late(name, self.sources[name].take_late())
            stable = self.sources[name].stable
            if stable is not None:
                found += self.operator.stable(name, stable)
        except MergeError as error:
            self._fail(error.input, error)
        self._feed_back()
        return [batch for batch in found if batch.num_rows]

    def _fail(self, name: str, error: Exception) -> None:
        """Have an input leave that can give nothing right any more; raises the error if no other is to give rows.

        What others have left waiting waits on then: one that fails may go on next time, unlike one that breaks a
        promise.
        """
        self.failures[name] = error
        _log.warning("input %r of a merge has failed, and has left: %s: %s", name, type(error).__name__, error)
        is_for_good = isinstance(error, MergeError)
        others = [each for other, each in self.sources.items() if other != name]
        if all(each.has_ended and (each.waits is None or not is_for_good) for each in others):
            raise error
        self.detach(name)

    def check_inputs(self) -> None:
        """Let inputs go whose streams were dropped; raise :class:`NotFoundError` if no other is there."""
        for name, source in list(self.sources.items()):
            try:
                for each in source.inputs:
                    each.check_there()
            except NotFoundError as error:
                self._fail(name, error)

    def _feed_back(self) -> None:
        """Tell inputs that are behind what is of no use any more; that they were told is kept with what they do."""
        reached = self.operator.reached
        if reached == self._told:
            return
        self._told = reached
        for name, source in list(self.sources.items()):
            if source.has_ended:
                self._end(name)
        horizons = self.operator.unneeded()
        for each in self.operator.states:
            horizon = horizons[self.operator.port(each.name)]
            if each.name in self.sources and (INT64_MIN if each.stable is None else each.stable) < horizon:
                self.sources[each.name].skip(horizon)

    @property
    def has_obeyed(self) -> bool:
        """Whether somebody waits until what was ordered is kept."""
        return bool(self._done)

    def settle(self) -> None:
        """What was done is kept: tell who asked for it."""
        done, self._done = self._done, []
        for order in done:
            order.reply.run()

    def refuse_orders(self) -> None:
        """Nothing is done any more."""
        while True:
            try:
                order = self._orders.get_nowait()
            except Empty:
                return
            order.failure = ClosedError("the merge has ended")
            order.refused()
            order.reply.run()

    def tick(self) -> Batches:
        """Nothing comes out by waiting."""
        return []

    def finish(self) -> Batches:
        """What waits, when there will be no rows any more."""
        return self.operator.finish()

    @property
    def is_at_end(self) -> bool:
        """Whether no input has an end that has not come yet, and nobody's rest is due."""
        return not self.sources or (
            all(each.is_endless or each.has_ended for each in self.sources.values())
            and not all(each.has_ended for each in self.sources.values())
        )

    # Keeping

    def snapshot(self) -> tuple[dict[str, Any], State]:
        """How far sources are, and what the merge knows."""
        sources, parts = {}, {"operator": self.operator.snapshot()}
        for number, (name, source) in enumerate(self.sources.items()):
            position, state = source.snapshot()
            sources[name] = {**source.about, "position": position, "part": f"source {number}"}
            parts[f"source {number}"] = state
        inputs = self.inputs
        values = {
            "inputs": [each.position.to_json() for each in inputs],
            "streams": [each.name for each in inputs],
            "text": self.text,
            "sources": sources,
        }
        return values, together(parts, {"rows": [self.rows], "late": [self.late_rows]})

    def restore(self, values: dict[str, Any], state: State) -> None:
        """Go on from a snapshot, with the sources that are there."""
        self.operator.restore(state.part("operator"))
        for name, source in self.sources.items():
            kept = values["sources"][name]
            source.restore(kept["position"], state.part(kept["part"]))

    def close(self) -> None:
        """Keep no file open, and no thread."""
        for each in self.sources.values():
            each.close()
        for order in self._done:
            order.failure = order.failure or ClosedError(
                "the merge has failed before this was kept, so that it may come to nothing; wait() tells why, and when "
                "the merge is begun again its inputs tell whether it was kept"
            )
        self.settle()
        self.refuse_orders()


def _is_for_good(error: Exception) -> bool:
    """Whether a stream or a query that has failed would fail again: not where the system or its disk may recover."""
    if isinstance(error, StorageError):
        return isinstance(error, CorruptionError)
    return isinstance(error, TidelogError)
