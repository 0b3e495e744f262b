"""The checks of operators can fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from tidelog.operators.base import FOREVER, Batches, Operator
from tidelog.operators.conformance import Arriving, Cut, OperatorConformance
from tidelog.operators.ordering import Reorder
from tidelog.operators.rowwise import Filter
from tidelog.operators.state import State

OF = shape()


class Forgetful(Reorder):
    """Restores nothing."""

    def restore(self, state: State) -> None:
        pass


class Unordered(Reorder):
    """Rows as they come."""

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        return [batch]


class Rewriting(Reorder):
    """Another content under a name that was there."""

    def snapshot(self) -> State:
        state = super().snapshot()
        return State(state.core, {**state.chunks, "same": pa.py_buffer(np.random.default_rng().bytes(8))})


class Unpunctual(Reorder):
    """Rows come out before the deadline."""

    def next_deadline(self) -> int | None:
        return FOREVER - 1 if self._waiting.rows else None


class Careless(Filter):
    """The first row of each batch is lost."""

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        return super().push(port, batch.slice(1))


class Hasty(Reorder):
    """Says that more has passed than has."""

    def passed(self, watermark: int) -> int:
        return watermark + 1000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Forgetful(OF), "found .* rows, expected|rows wait"),
        (lambda: Unordered(OF), "row .* is|after .* had passed"),
        (lambda: Rewriting(OF), "has changed"),
        (lambda: Unpunctual(OF), "before the deadline"),
        (lambda: Careless(OF, "true"), "found .* rows, expected"),
        (lambda: Hasty(OF), "had passed"),
    ],
)
def test_a_wrong_operator_is_found(make: Callable[[], Operator], message: str) -> None:
    dice = np.random.default_rng(10)
    batch = rows(OF, dice, 60, jitter=5)
    with pytest.raises(AssertionError, match=message):
        OperatorConformance(make, [Cut(), Arriving()]).check([batch], dice, lateness=5, rounds=20)
