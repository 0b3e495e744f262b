"""A continuous query at work: rows of its inputs through its plan, step by step."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidelog.engine.online.inputs import Input, Position
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Batches
from tidelog.operators.state import State
from tidelog.sql.continuous import Continuous

MOST_ROWS: Final = 1 << 16
"""Rows of a step: enough that what a step costs by itself does not matter."""

OnLate: TypeAlias = Callable[[str, pa.RecordBatch], None]
"""Is told the stream of late rows, and the rows."""


class Steps(ABC):
    """What a subscription does step by step: rows of inputs in, rows out. For one thread."""

    inputs: list[Input]
    """The streams that are read."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What is done, in words of SQL or the like."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows have come."""

    @property
    @abstractmethod
    def late_rows(self) -> int:
        """How many of them were late."""

    @abstractmethod
    def step(self) -> Batches | None:
        """Take some rows and give what comes out; None if there are none to be taken."""

    @abstractmethod
    def tick(self) -> Batches:
        """What comes out because inputs have been silent for too long."""

    @abstractmethod
    def finish(self) -> Batches:
        """What waits, when there will be no rows any more."""

    def check_inputs(self) -> None:  # noqa: B027  # what may come and go need not be there
        """Raise if an input will have no rows any more."""

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing to be waited for, if nothing new is to be followed."""
        return True

    @abstractmethod
    def snapshot(self) -> tuple[dict[str, Any], State]:
        """How far the inputs are, and what is known."""

    @abstractmethod
    def restore(self, values: dict[str, Any], state: State) -> None:
        """Go on from a snapshot."""

    @abstractmethod
    def close(self) -> None:
        """Keep no file open."""


class Flow(Steps):
    """Takes rows from inputs and gives what comes out of a continuous query."""

    def __init__(
        self,
        query: Continuous,
        inputs: Sequence[Input],
        lateness: Sequence[int],
        idle_timeout: float | None = None,
        most_behind: int | None = None,
        on_late: OnLate | None = None,
        workers: int | None = None,
    ) -> None:
        """With ``most_behind``, inputs that are behind by more rows pass the oldest of them over.

        ``workers`` are threads that divide the work of a step where it can be; as many as are shared by default.
        """
        self.query = query
        self.inputs = list(inputs)
        self._most_behind = most_behind
        self._on_late = on_late
        operator = query.make()
        self._most_rows = min(MOST_ROWS, operator.most_rows or MOST_ROWS)
        if workers is not None:
            operator.use_threads(workers)
        self.arrivals = Arrivals(operator, lateness, idle_timeout=idle_timeout, now=time.monotonic())
        self._newest: list[int | None] = [None] * len(self.inputs)

    @property
    def text(self) -> str:
        """The query."""
        return self.query.text

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out."""
        output = self.arrivals.operator.output.schema
        return pa.schema([output.field(name) for name in self.query.columns])

    @property
    def rows(self) -> int:
        """How many rows have come."""
        return sum(self.arrivals.rows)

    @property
    def late_rows(self) -> int:
        """How many of them were late."""
        return sum(self.arrivals.late_rows)

    def step(self) -> Batches | None:
        """Take rows of the input that is furthest behind in time and has some; None if none has any."""
        order = sorted(range(len(self.inputs)), key=lambda port: (self._newest[port] is not None, self._newest[port]))
        for port in order:
            rows = self.inputs[port].take(self._most_rows, self._most_behind)
            if rows is None:
                continue
            newest, top = self._newest[port], int(self.arrivals.operator.inputs[port].times(rows).max())
            self._newest[port] = top if newest is None else max(top, newest)
            now = time.monotonic()
            return self._given(self.arrivals.push(port, rows, now) + self._settled(now))
        return self._given(self._settled(time.monotonic())) or None

    def _settled(self, now: float) -> Batches:
        """What comes out because the plan goes on without inputs that lag, though not past rows that are there."""
        if not self.arrivals.operator.leaves_behind:
            return []
        return self.arrivals.settle(now, [port for port, each in enumerate(self.inputs) if each.has_more])

    def skip(self, horizon: int) -> None:
        """Rows that would come out before it are of no use: those of inputs that only they need are not read."""
        operator = self.arrivals.operator
        for own, told, back in zip(self.inputs, operator.skip(horizon), operator.looks_back, strict=True):
            if back is None:  # rows come as they arrive: which are the last ones before a time nobody knows
                own.skip(told)

    def tick(self) -> Batches:
        """What comes out because inputs have been silent for too long."""
        return self._given(self.arrivals.tick(time.monotonic()))

    def check_inputs(self) -> None:
        """Raise :class:`NotFoundError` if a stream was dropped."""
        for each in self.inputs:
            each.check_there()

    def finish(self) -> Batches:
        """What waits, when there will be no rows any more."""
        return self._given(self.arrivals.finish())

    def _given(self, batches: Batches) -> Batches:
        for port, rows in self.arrivals.take_late():
            if self._on_late is not None:
                self._on_late(self.inputs[port].name, rows)
        return [self.query.presented(batch) for batch in batches if batch.num_rows]

    def snapshot(self) -> tuple[dict[str, Any], State]:
        """How far the inputs are, and what the plan knows."""
        return {"inputs": [each.position.to_json() for each in self.inputs], "newest": self._newest}, (
            self.arrivals.snapshot()
        )

    def restore(self, values: dict[str, Any], state: State) -> None:
        """Go on from a snapshot."""
        for each, position in zip(self.inputs, values["inputs"], strict=True):
            each.resume(Position.of(position))
        self._newest = list(values["newest"])
        self.arrivals.restore(state)

    def close(self) -> None:
        """Keep no file open."""
        for each in self.inputs:
            each.close()
