"""What a continuous operator is: a state machine over batches of rows.

Rows come in by one or several inputs and go out by one output; each of these has a :class:`Shape`. Who drives an
operator (a *runtime*) pushes rows and tells how far time has come:

* ``push(port, batch)`` gives rows of one input.
* ``advance(watermark)`` says that no input will have rows before the watermark any more. It never goes back.
* ``finish()`` says that there will be no rows at all any more.

Each of them gives the rows that come out by it. Which call gives a row depends on how rows were cut into batches; the
rows themselves, and their order, never do.

**Order.** The order of rows is (time, ``_seq``); without a column ``_seq`` rows of one time are in the order in which
they come. Operators that need order (:attr:`Needs.order`) get the rows of each input in it; inputs may be ahead of one
another. Other operators get them in any order, but none before the watermark. Rows that come out are in the order of
their time; those that come out later are not before :meth:`Operator.passed`.

**Time.** All inputs of an operator count time in the same unit. A watermark is an integer in that unit, or
:data:`FOREVER`, which is after all times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import integers
from tidelog.model.errors import SchemaError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN, Clock
from tidelog.operators.properties import EVENTS, Order, Properties
from tidelog.operators.state import State

Ints: TypeAlias = npt.NDArray[np.int64]
Batches: TypeAlias = list[pa.RecordBatch]

FOREVER: Final = INT64_MAX + 1
"""The watermark after all rows."""


@dataclass(frozen=True)
class Shape:
    """What rows look like: their columns, and which of them is their time (64-bit integers or timestamps, no nulls)."""

    schema: pa.Schema
    time: str

    def __post_init__(self) -> None:
        if self.time not in self.schema.names:
            raise SchemaError(
                f"there is no column {self.time!r} for time; {did_you_mean(self.time, self.schema.names)}"
            )
        type_ = self.schema.field(self.time).type
        if not (pa.types.is_timestamp(type_) or type_ == pa.int64()):
            raise SchemaError(f"the time column {self.time!r} has type {type_}; expected int64 or a timestamp")

    @property
    def has_numbers(self) -> bool:
        """Whether rows carry their numbers of arrival, ``_seq``."""
        return SEQUENCE_COLUMN in self.schema.names

    @property
    def time_type(self) -> pa.DataType:
        """The type of the time column."""
        return self.schema.field(self.time).type

    @property
    def clock(self) -> Clock:
        """What instants and durations mean for these rows."""
        return Clock(self.time_type)

    def times(self, batch: pa.RecordBatch) -> Ints:
        """The times of rows."""
        return integers(batch.column(self.time))

    def numbers(self, batch: pa.RecordBatch) -> Ints | None:
        """The numbers of rows, if they have any."""
        return integers(batch.column(SEQUENCE_COLUMN)) if self.has_numbers else None

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in self.schema], schema=self.schema)


@dataclass(frozen=True)
class LookBack:
    """Rows that are needed though they are before a time: the last ones of each key, in order."""

    rows: int
    keys: tuple[str, ...] = ()
    """The columns of the key; none if all rows are of one."""


@dataclass(frozen=True)
class Needs:
    """What an operator needs of those who drive it, by which they can divide its work."""

    order: bool = True
    """Whether the rows of each input have to come in order."""
    keys: tuple[tuple[str, ...], ...] | None = ()
    """For each input the columns of the key: rows of different keys know nothing of each other. None: there is no
    key, and all rows may belong together. Empty: each row is by itself."""
    behind: int | None = 0
    """How far before a row, in ticks, rows lie that what comes out at its time depends on; None for any distance."""
    ahead: int | None = 0
    """The same behind it."""
    last_before: bool = False
    """Whether the last row before those, if there is one, is needed as well."""


class Operator(ABC):
    """The contract that the head of this module describes. Not safe for use by several threads at once."""

    gives_order: bool = False
    """Whether rows come out in order even where they came in any order."""
    mixes: bool = False
    """Whether rows come out in another order than that of time even where they came in in it."""
    keeps_rows: bool = False
    """Whether a row comes out at once for each that comes in, so that nothing is known otherwise of how late it is."""
    skipped: int = 0
    """How many rows were pushed that, as :meth:`skip` has told, nobody needs, and that were not looked at."""
    leaves_behind: bool = False
    """Whether it may go on without inputs that lag: :meth:`progress` is not always the least of its inputs'."""
    most_rows: int | None = None
    """How many rows are best pushed at once at the most, where many more may come out; None for any number."""

    def __init__(self, inputs: Sequence[Shape], output: Shape, needs: Needs) -> None:
        self.inputs = tuple(inputs)
        self.output = output
        self.needs = needs
        self.looks_back: tuple[LookBack | None, ...] = (None,) * len(self.inputs)
        """For each input which rows before the time that :meth:`skip` gives are needed all the same; None for none."""
        units = {each.clock.unit for each in self.inputs}
        if len(units) > 1:
            told = ", ".join(sorted(unit or "plain integers" for unit in units))
            raise SchemaError(
                f"inputs with clocks of different units cannot be merged by time; found {told}: store both with one "
                "unit; a statement of store.sql may also cast the times of one, in a query in parentheses"
            )

    def use_threads(self, most: int) -> None:  # noqa: B027  # most have no work to divide
        """Let at most so many threads work for it at once; by default as many as the process shares."""

    def split(self) -> tuple[Operator, Operator] | None:
        """Two new operators that do the same behind one another, the first of which makes a row of each by itself.

        None if there is nothing in it that can be done to rows by others before.
        """
        return None

    def keyed(self) -> tuple[Operator, Operator] | None:
        """Two operators that do the same behind one another: the second has keys, which the first computes.

        The first one takes the rows of its only input by themselves. None if there are no such keys. They are parts of
        this operator, which is of no use any more.
        """
        return None

    def thinned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Of rows of the only input, in order and with none between them, those on which what comes out depends."""
        return batch

    @property
    def waits(self) -> bool:
        """Whether rows wait inside of it, or in front of it, for those that may still come before them."""
        return self.needs.order or self.gives_order

    @abstractmethod
    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Take rows of one input, and give those that come out. The schema is that of the input."""

    @abstractmethod
    def advance(self, watermark: int) -> Batches:
        """No input will have rows before the watermark any more."""

    def finish(self) -> Batches:
        """There will be no rows any more."""
        return self.advance(FOREVER)

    def stages(self, watermark: int) -> Iterable[int]:
        """Watermarks that rise up to one: to be advanced to before, one by one, so that no step gives too much.

        A hint; what comes out is the same without them.
        """
        return ()

    def next_deadline(self) -> int | None:
        """The least watermark by which something would come out even if no further row came; None if nothing waits."""
        return None

    def progress(self, marks: Sequence[int | None]) -> int | None:
        """The watermark to advance to if those of the inputs are these.

        None stands for none yet, :data:`FOREVER` for an input that does not count, as it has ended or is silent.
        """
        known = [each for each in marks if each is not None]
        return min(known) if len(known) == len(marks) else None

    def passed(self, watermark: int) -> int:
        """The time before which nothing will come out any more, once inputs have been advanced to a watermark."""
        return watermark

    def origin(self, column: str) -> str | None:
        """The column of the only input that a column of the output is, unchanged and row by row; None if it is none."""
        return None

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Nobody wants rows any more that would come out before a time: forget what only they need.

        Gives for each input the time before which its rows are of no use any more, whatever comes, but for those that
        :attr:`looks_back` names; the least time there is where all may be. It never falls. A hint: such rows may still
        come out, and may still be pushed. Rows that come out at the time or later are what they would have been.
        """
        return (INT64_MIN,) * len(self.inputs)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """What is known of the output, of which there may be copies, by what is known of the inputs.

        Rows that come out are a function of those that come in, in their order: where every copy of the inputs is the
        same sequence of rows, so is every copy of the output.
        """
        if not (self.needs.order or self.gives_order):
            return EVENTS
        return Properties(Order.RISING, inserts_only=True, same_ties=all(each.is_determined for each in inputs))

    @abstractmethod
    def snapshot(self) -> State:
        """All that the operator knows, for :meth:`restore`."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go on from a snapshot of an equal operator; only ever called for one that has seen nothing yet."""


def advanced(operator: Operator, watermark: int) -> Iterator[pa.RecordBatch]:
    """What comes out on the way to a watermark, stage by stage; :data:`FOREVER` is the end of all inputs."""
    for stage in operator.stages(watermark):
        yield from operator.advance(stage)
    yield from operator.finish() if watermark == FOREVER else operator.advance(watermark)


def count_before(times: Ints, watermark: int) -> int:
    """How many of some ascending times are before a watermark."""
    return len(times) if watermark > INT64_MAX else int(np.searchsorted(times, watermark))
