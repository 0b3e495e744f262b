"""What a merge reads by an input: a stream, a continuous query, or batches that somebody gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from queue import Empty
from typing import Any, Final

import pyarrow as pa

from tidelog.engine.online.flow import MOST_ROWS, Flow
from tidelog.engine.online.handover import Outbox
from tidelog.engine.online.inputs import Input, Position
from tidelog.model.conversion.convert import to_batches
from tidelog.model.errors import InputError, SchemaError
from tidelog.model.schema import Schema
from tidelog.operators.base import FOREVER, Shape
from tidelog.operators.state import State
from tidelog.threads import start

STREAM, QUERY, BATCHES = "stream", "query", "batches"
_MOST_WAITING: Final = 8


class Source(ABC):
    """Rows of one shape, in their order, each once. For one thread."""

    inputs: list[Input]
    """The streams that are read."""

    @abstractmethod
    def take(self) -> pa.RecordBatch | None:
        """The next rows; None if there are none now. Raises :class:`EOFError` if there never will be any."""

    @property
    def stable(self) -> int | None:
        """The time before which no rows come any more, if that is known."""
        return None

    @property
    def is_endless(self) -> bool:
        """Whether there is no end to wait for: what is there is all, until there is more."""
        return True

    def skip(self, horizon: int) -> None:  # noqa: B027  # most cannot
        """Rows before a time are of no use any more."""

    @property
    def waits(self) -> int | None:
        """The time of the first row that has been read and waits for others; None if none does."""
        return None

    @property
    def has_ended(self) -> bool:
        """Whether it has nothing any more but what waits."""
        return False

    def rest(self, before: int) -> pa.RecordBatch | None:
        """Rows before a time that wait for others, which do not come."""
        return None

    def take_late(self) -> int:
        """How many rows were dropped since the last call because they came too late."""
        return 0

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What it is, so that it can be made again, as JSON values."""

    @abstractmethod
    def snapshot(self) -> tuple[Any, State]:
        """How far it is."""

    @abstractmethod
    def restore(self, position: Any, state: State) -> None:
        """Go on from there."""

    def close(self) -> None:
        """Keep no file open."""
        for each in self.inputs:
            each.close()


class StreamSource(Source):
    """The rows of a stream, in the order of arrival."""

    def __init__(self, input: Input) -> None:
        self.inputs = [input]

    def take(self) -> pa.RecordBatch | None:
        """Rows that are durable."""
        return self.inputs[0].take(MOST_ROWS)

    def skip(self, horizon: int) -> None:
        """Rows before it that are there are not read."""
        self.inputs[0].skip(horizon)

    @property
    def about(self) -> dict[str, Any]:
        """Its name."""
        return {"kind": STREAM, "text": self.inputs[0].name}

    def snapshot(self) -> tuple[Any, State]:
        """A position in the stream."""
        return self.inputs[0].position.to_json(), State()

    def restore(self, position: Any, state: State) -> None:
        """Go on from there."""
        self.inputs[0].resume(Position.of(position))


class QuerySource(Source):
    """What comes out of a continuous query; its watermark tells how far it is."""

    def __init__(self, flow: Flow, shape: Shape) -> None:
        self._flow = flow
        self._shape = shape
        self._late = 0
        """How many late rows were told of."""
        self.inputs = flow.inputs

    def take(self) -> pa.RecordBatch | None:
        """The rows of a step, which may be none."""
        batches = self._flow.step()
        if batches is None:
            batches = self._flow.tick()
            if not batches:
                return None
        rows = [each.select(self._shape.schema.names).cast(self._shape.schema) for each in batches]
        return pa.concat_batches(rows) if rows else self._shape.empty()

    @property
    def is_ordered(self) -> bool:
        """Whether rows come in the order of time."""
        operator = self._flow.arrivals.operator
        return (operator.needs.order or operator.gives_order) and not operator.mixes

    @property
    def stable(self) -> int | None:
        """Where the query will give nothing before."""
        arrivals = self._flow.arrivals
        if arrivals.watermark is None:
            return None
        return min(arrivals.operator.passed(arrivals.watermark), FOREVER - 1)

    def take_late(self) -> int:
        """How many rows of its streams have come too late for it since the last call."""
        before, self._late = self._late, self._flow.late_rows
        return self._late - before

    def skip(self, horizon: int) -> None:
        """Its plan computes, and its streams are read for, what comes later."""
        self._flow.skip(horizon)

    @property
    def about(self) -> dict[str, Any]:
        """The text of the query."""
        return {"kind": QUERY, "text": self._flow.text}

    def snapshot(self) -> tuple[Any, State]:
        """How far its inputs are, and what its plan knows; late rows are taken before."""
        return self._flow.snapshot()

    def restore(self, position: Any, state: State) -> None:
        """Go on from there."""
        self._flow.restore(position, state)
        self._late = self._flow.late_rows


class BatchSource(Source):
    """Batches that somebody gives, taken by a thread of their own, so that one who is slow holds nobody up.

    How far it is, is a number of rows: after a restart the same rows are given again, and passed over.
    """

    def __init__(self, batches: Iterable[Any], shape: Shape, on_news: Callable[[], None]) -> None:
        self.inputs = []
        self._schema = Schema(shape.schema, shape.time)
        self._shape = shape
        self._given = batches
        self._on_news = on_news
        self._rows = 0
        self._to_pass = 0
        self._outbox: Outbox[pa.RecordBatch] = Outbox(_MOST_WAITING)
        self._failure: BaseException | None = None
        self._is_begun = False

    def _run(self) -> None:
        try:
            for each in self._given:
                for batch in to_batches(each, self._schema):
                    if not self._outbox.put(batch):
                        return
                    self._on_news()
        except BaseException as error:
            self._failure = error
        finally:
            self._outbox.end()
            self._on_news()

    def take(self) -> pa.RecordBatch | None:
        """A batch, if there is one already. Raises what the one who gives them raised."""
        if not self._is_begun:
            self._is_begun = True
            start(self._run)
        while True:
            try:
                batch = self._outbox.get(0)
            except Empty:
                return None
            if batch is None:
                if self._failure is not None:
                    raise self._failure
                raise EOFError
            self._outbox.release(self._outbox.released + 1)
            passed = min(self._to_pass, batch.num_rows)
            self._to_pass -= passed
            if passed < batch.num_rows:
                self._rows += batch.num_rows - passed
                return batch.slice(passed).cast(self._shape.schema)

    @property
    def is_endless(self) -> bool:
        """It has an end."""
        return False

    @property
    def about(self) -> dict[str, Any]:
        """Nobody but the caller can make it again."""
        return {"kind": BATCHES, "text": None}

    def snapshot(self) -> tuple[Any, State]:
        """The number of rows that were taken."""
        return self._rows, State()

    def restore(self, position: Any, state: State) -> None:
        """Pass the rows over that were taken."""
        self._rows = self._to_pass = int(position)

    def close(self) -> None:
        """Have the thread end."""
        self._outbox.close()


def check_name(name: Any) -> None:
    """Raise :class:`InputError` for what is no name of an input."""
    if not isinstance(name, str) or not name:
        raise InputError(f"found the name {name!r} of an input; expected a text")


def check_columns(name: str, have: Shape, shape: Shape, whose: str) -> None:
    """Raise :class:`SchemaError` unless rows have the columns that all inputs have, as ``whose`` rows have them."""
    if have.time != shape.time:
        raise SchemaError(f"input {name!r} has its time in {have.time!r}; expected {shape.time!r}, as of {whose}")
    for field in shape.schema:
        if field.name not in have.schema.names:
            raise SchemaError(
                f"input {name!r} has no column {field.name!r}; expected those of {whose}: select it by a query"
            )
        if have.schema.field(field.name).type != field.type:
            raise SchemaError(
                f"column {field.name!r} of input {name!r} has the type {have.schema.field(field.name).type}; expected "
                f"{field.type}, as of {whose}: cast it by a query"
            )
    more = [name for name in have.schema.names if name not in shape.schema.names]
    if more:
        raise SchemaError(
            f"input {name!r} has a column {more[0]!r}, which is not among those of {whose}: leave it out by a query"
        )
