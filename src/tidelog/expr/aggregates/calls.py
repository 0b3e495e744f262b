"""Calls of aggregates, built in or user-defined: what they lift of rows, merge and lower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import Fold, Value
from tidelog.aggregates.runs import compressed, filled, sums
from tidelog.expr.aggregates.builtin import BuiltIn, running_counts
from tidelog.expr.conditions.predicate import Masker, masker
from tidelog.expr.evaluate import evaluated
from tidelog.expr.expression import Expression
from tidelog.expr.values.vectors import valid_rows
from tidelog.index.states import States as StateWords


class Call(Fold):
    """An aggregate of the rows that satisfy a condition, if there is one."""

    where: Expression | None

    @cached_property
    def _masker(self) -> Masker | None:
        return None if self.where is None else masker(self.where.node)

    def counted(self, rows: pa.RecordBatch, cuts: Cuts, names: Sequence[str]) -> tuple[pa.RecordBatch, Cuts]:
        """The rows that count, of which some columns are needed, and the runs of these."""
        if self._masker is None:
            return rows, cuts
        mask = self._masker(rows)
        needed = rows.select(names) if names else rows  # without columns a batch would not know its length
        return needed.filter(pa.array(mask)), compressed(cuts, mask)

    @property
    def shown_where(self) -> str:
        """The text of the condition."""
        return "" if self.where is None else f" FILTER (WHERE {self.where})"


@dataclass(frozen=True)
class AggregateCall(Call):
    """An aggregate function of SQL, what it is applied to, and which rows count.

    ``argument`` is None for ``count(*)``; ``where`` is the condition behind FILTER, or None. ``type`` is the type of
    the result, as in DuckDB: sums of integers are HUGEINT, held as ``decimal128(38, 0)``. Lifting raises
    :class:`EvaluationError` where evaluating the argument does, lowering when a sum is beyond 38 digits.
    """

    function: str
    argument: Expression | None
    where: Expression | None
    _aggregate: BuiltIn = field(repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, by the argument first; each once."""
        parts = [part for part in (self.argument, self.where) if part is not None]
        return tuple(dict.fromkeys(name for part in parts for name in part.columns))

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self._aggregate.result_type()

    @property
    def is_ordered(self) -> bool:
        """Whether it is ``first`` or ``last``."""
        return self._aggregate.is_ordered

    @cached_property
    def _states(self) -> np.dtype[Any]:
        """How many rows took part, and the state of these."""
        return np.dtype([("rows", "<i8"), ("state", self._aggregate.state)])

    def start(self) -> States:
        """The state of no rows."""
        return np.zeros(1, self._states)

    def told(self, rows: int, value: Any) -> States:
        """The state of so many rows that took part, whose aggregate, of means the sum, is known from elsewhere."""
        states = self.start()
        if rows:
            states["rows"], states["state"] = rows, self._aggregate.told(rows, value)
        return states

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The states of runs of rows."""
        rows, cuts = self.counted(rows, cuts, () if self.argument is None else self.argument.columns)
        if self.argument is None:
            return self._lifted(None, cuts)
        parts: list[States] = []
        first = 0
        for part, values in evaluated(self.argument.node, rows):
            if part.num_rows == rows.num_rows:
                return self._lifted(values, cuts)
            parts.append(self._lifted(values, np.clip(cuts - first, 0, part.num_rows)))
            first += part.num_rows
        # Those of each run beside one another.
        order = np.arange(len(parts) * (len(cuts) - 1)).reshape(len(parts), -1).T.ravel()
        return self.merge(np.concatenate(parts)[order], np.arange(len(cuts), dtype=np.int64) * len(parts))

    def _lifted(self, values: pa.Array | None, cuts: Cuts) -> States:
        aggregate = self._aggregate
        if values is not None and values.null_count and not aggregate.sees_nulls:
            cuts = compressed(cuts, valid_rows(values))
            values = values.drop_null()
        columns = [] if values is None else [values]
        states = np.zeros(len(cuts) - 1, self._states)
        if len(states) == 1:  # as in most calls, which have few other things to do
            if cuts[1]:
                states["rows"], states["state"] = cuts[1], aggregate.init(columns, cuts)
            return states
        known, starts = filled(cuts)
        if known.any():
            states["rows"] = np.diff(cuts)
            states["state"][known] = aggregate.init(columns, starts)
        return states

    def merge(self, states: States, cuts: Cuts) -> States:
        """The states of runs of states."""
        merged = np.zeros(len(cuts) - 1, self._states)
        usable = states["rows"] != 0
        known, starts = filled(compressed(cuts, usable))
        if known.any():
            used = states[usable]
            merged["rows"][known] = sums(used["rows"], starts)
            merged["state"][known] = self._aggregate.merge(used["state"], starts)
        return merged

    def lower(self, states: States) -> list[Value]:
        """The aggregates of all rows that took part; None, but for counts, if none did."""
        aggregate = self._aggregate
        return [aggregate.eval(each["state"]) if each["rows"] else aggregate.nothing for each in states]

    def plus(self, states: States, others: States) -> States:
        """Pairs of states merged; one of no rows leaves the other as it is."""
        merged = np.empty(len(states), self._states)
        merged["rows"] = states["rows"] + others["rows"]
        both = (states["rows"] != 0) & (others["rows"] != 0)
        if both.all():
            merged["state"] = self._aggregate.plus(states["state"], others["state"])
            return merged
        merged["state"] = np.where(states["rows"] != 0, states["state"], others["state"])
        if both.any():
            merged["state"][both] = self._aggregate.plus(states["state"][both], others["state"][both])
        return merged

    def scan(self, states: States, cuts: Cuts, *, backward: bool = False) -> States:
        """Running merges: by a kernel where there is one."""
        rows = np.ascontiguousarray(states["rows"])
        found = self._aggregate.scan(rows, states["state"], cuts, backward)
        if found is None:
            return super().scan(states, cuts, backward=backward)
        merged = np.empty(len(states), self._states)
        merged["rows"], merged["state"] = running_counts(rows, cuts, backward), found
        return merged

    def lower_column(self, states: States) -> pa.Array:
        """The aggregates of all rows that took part, as a column."""
        found = self._aggregate.column(states["state"], states["rows"] != 0)
        return super().lower_column(states) if found is None else found

    def pack(self, states: States) -> pa.Buffer:
        """States as bytes; those that are objects as a column of Arrow's."""
        if not self._states.hasobject:
            return super().pack(states)
        rows = pa.array(states["rows"], pa.int64())
        objects = self._aggregate.to_arrow(states["state"], states["rows"] != 0)
        return pa.RecordBatch.from_arrays(
            [rows, *objects], [str(place) for place in range(1 + len(objects))]
        ).serialize()

    def unpack(self, content: pa.Buffer) -> States:
        """The states that were packed."""
        if not self._states.hasobject:
            return super().unpack(content)
        schema = pa.schema([("0", pa.int64()), *((str(at + 1), each) for at, each in enumerate(self._aggregate.arrow))])
        rows, *objects = pa.ipc.read_record_batch(content, schema).columns
        states = np.zeros(len(rows), self._states)
        states["rows"] = np.asarray(rows)
        states["state"] = self._aggregate.from_arrow(objects)
        return states

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument}){self.shown_where}"


@dataclass(frozen=True)
class UserCall(Call):
    """A user-defined aggregate applied to columns, and which rows count; see :class:`AggregateCall`.

    Its states are rows of words (:mod:`tidelog.index.states`).
    """

    binding: Binding
    where: Expression | None
    states: StateWords = field(repr=False, compare=False)

    @property
    def function(self) -> str:
        """Its name."""
        return self.binding.id.rpartition(":")[2]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns used, by the aggregate first; each once."""
        tested = () if self.where is None else self.where.columns
        return tuple(dict.fromkeys((*self.states.columns, *tested)))

    @property
    def type(self) -> pa.DataType | None:
        """The type of the result, if the code says it."""
        return self.states.result_type(self.binding)

    def start(self) -> States:
        """The state of no rows."""
        return np.zeros((1, self.states.words), np.uint64)

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The states of runs of rows."""
        return self.states.of_rows(*self.counted(rows, cuts, self.states.columns))

    def merge(self, states: States, cuts: Cuts) -> States:
        """The states of runs of states."""
        return self.states.merge(states, cuts)

    def lower(self, states: States) -> list[Value]:
        """The results; None if no rows took part."""
        return self.states.results(self.binding, states)

    def __str__(self) -> str:
        return f"{self.binding.name}{self.shown_where}"
