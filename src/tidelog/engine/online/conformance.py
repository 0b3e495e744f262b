"""The runtimes of this package's own that hold operators to the same rows while rows arrive in streams.

For :class:`~tidelog.operators.conformance.OperatorConformance`::

    OperatorConformance(make, (*EMBEDDED, *ONLINE)).check([rows], np.random.default_rng(1))
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Final, final

import pyarrow as pa

from tidelog.engine.online.flow import Flow
from tidelog.engine.online.inputs import Input
from tidelog.engine.online.keeping import kept_state
from tidelog.engine.online.subscribing import Subscriptions
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Batches, Shape
from tidelog.operators.conformance import Dice, Make, Runtime
from tidelog.sql.continuous import Continuous
from tidelog.storage import FileMedium
from tidelog.store.subscriptions import Kept, SubscriptionLog
from tidelog.threads import start

_RESTART: Final = 0.3
"""How often a plan is replaced by what was kept of it, of the times when it could be."""
_MOST_ROWS: Final = 40
"""Rows that are appended at once."""


@final
class Kepts(Runtime):
    """Durable rows of streams, taken step by step, everything replaced by what is kept of it now and then."""

    name = "kept subscriptions"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Append rows to streams, inputs in turns, and take them."""
        query = _query(make, len(rows))
        found: Batches = []
        with tempfile.TemporaryDirectory() as directory:
            medium = FileMedium(directory, synced=False)
            with Store(medium) as store:
                streams = [_stream(store, port, shape) for port, shape in enumerate(make().inputs)]
                flow = _flow(query, streams, lateness)
                for port, batch in _pieces(rows, dice):
                    streams[port].append(_without_numbers(batch))
                    streams[port].flush()
                    if dice.random() < 0.5:
                        continue
                    found += flow.step() or []
                    if dice.random() < _RESTART:
                        with SubscriptionLog.open(medium, "s") as log:
                            values, state = flow.snapshot()
                            log.commit(Kept({**values, "core": state.core}, state.chunks))
                        flow.close()
                        with SubscriptionLog.open(medium, "s") as log:
                            assert log.kept is not None
                            flow = _flow(query, streams, lateness)
                            flow.restore(log.kept.values, kept_state(log.kept))
                while (given := flow.step()) is not None:
                    found += given
                found += flow.finish()
                flow.close()
        return found


@final
class Threaded(Runtime):
    """Rows that a thread appends, taken by a subscription in another one."""

    name = "subscriptions"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Append rows to streams, inputs in turns, while they are taken."""
        with tempfile.TemporaryDirectory() as directory, Store(FileMedium(directory, synced=False)) as store:
            streams = [_stream(store, port, shape) for port, shape in enumerate(make().inputs)]
            pieces = _pieces(rows, dice)
            running = Subscriptions(store, FileMedium(directory))
            subscription = running.run(_flow(_query(make, len(rows)), streams, lateness, durable=False))
            appending = start(partial(_append_all, streams, pieces))
            try:
                appending.result()
            finally:
                subscription.finish()
            return list(subscription)


ONLINE: Final[tuple[Runtime, ...]] = (Kepts(), Threaded())
"""All of them."""


def _query(make: Make, inputs: int) -> Continuous:
    names = tuple(make().output.schema.names)
    return Continuous("", "", tuple(map(_name, range(inputs))), names, make)


def _name(port: int) -> str:
    return f"input {port}"


def _stream(store: Store, port: int, shape: Shape) -> Stream:
    columns = pa.schema([field for field in shape.schema if field.name != SEQUENCE_COLUMN])
    return store.create_stream(_name(port), columns, shape.time)


def _flow(query: Continuous, streams: Sequence[Stream], lateness: Sequence[int], *, durable: bool = True) -> Flow:
    shapes = query.make().inputs
    inputs = [Input(stream, shape, durable=durable) for stream, shape in zip(streams, shapes, strict=True)]
    for each in inputs:
        each.begin("earliest")
    return Flow(query, inputs, lateness)


def _without_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != SEQUENCE_COLUMN])


def _pieces(rows: Sequence[pa.RecordBatch], dice: Dice) -> list[tuple[int, pa.RecordBatch]]:
    """Rows of all inputs, cut into batches, inputs in turns; the rows of each in their order."""
    waiting = [batch.slice(0) for batch in rows]
    found = []
    while any(batch.num_rows for batch in waiting):
        port = int(dice.choice([port for port, batch in enumerate(waiting) if batch.num_rows]))
        count = int(dice.integers(1, _MOST_ROWS))
        found.append((port, waiting[port].slice(0, count)))
        waiting[port] = waiting[port].slice(count)
    return found


def _append_all(streams: Sequence[Stream], pieces: Sequence[tuple[int, pa.RecordBatch]]) -> None:
    for port, batch in pieces:
        streams[port].append(_without_numbers(batch))
