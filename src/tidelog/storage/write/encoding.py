"""Blocks on their way through the encoding threads: in order, and a few runs at a time."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from tidelog import threads
from tidelog.storage.codec import Ints
from tidelog.storage.format import block
from tidelog.storage.rows.ordered import AnyRows, OrderedRows, OrderedRuns

RUN_ROWS = 1 << 18
"""Rows encoded by one task, with one kernel call per column for all of them; fewer if they are long."""

RUNS_AHEAD = 3
"""Runs that wait for a thread, so that none is idle while the caller is busy with something else."""

_RUN_BYTES = 16 << 20
"""Raw bytes of a run: few enough for several in memory, enough for Python's share in its cost to be small."""


class EncodingLine:
    """Gives out ids, encodes on other threads, and delivers frames in the order of their ids.

    Frames are delivered in the thread that adds or drains, so that only a few runs are ever in memory. The caller sees
    to it that calls take turns.
    """

    def __init__(self, next_id: int, run_rows: int, deliver: Callable[[block.Frames], None]) -> None:
        self.next_id = next_id
        self._run_rows = run_rows
        self._deliver = deliver
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._held: list[tuple[OrderedRows, Ints]] = []
        """Rows, and where they are cut into leaves, that are behind those that are gathered."""
        self._held_rows = 0
        self._running: deque[threads.Task[block.Frames] | Callable[[], block.Frames]] = deque()
        """Runs in order: being encoded, or to be made when their turn comes."""
        self._spare_words: list[block.Words] = []

    @property
    def running(self) -> int:
        """How many runs are encoded, or being encoded, and not delivered."""
        return len(self._running)

    def add_leaf(self, batch: pa.RecordBatch) -> int:
        """One block of a few rows; such blocks are gathered and encoded together."""
        self._encode_held()
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        self.next_id += 1
        if self._gathered_rows >= self._run_rows or self._gathered_bytes >= _RUN_BYTES:
            self._encode_gathered()
        return self.next_id - 1

    def add_leaves(self, batch: AnyRows, leaf_rows: int, size: int, breaks: Ints | None = None) -> range:
        """A batch of ``size`` bytes cut into blocks as :func:`leaf_cuts` does it.

        Rows that have to be put in order are copied for that, so a few batches of them can be encoded together, at the
        price of one.
        """
        self._encode_gathered()
        first = self.next_id
        average = max(1, size // batch.num_rows)
        run = max(1, min(self._run_rows, _RUN_BYTES // average) // leaf_rows) * leaf_rows
        cuts = leaf_cuts(batch.num_rows, leaf_rows, breaks)
        if isinstance(batch, OrderedRows):
            if self._held_rows + batch.num_rows > run + run // 4:
                self._encode_held()
            if batch.num_rows < run:
                self._hold(batch, cuts)
                if self._held_rows >= run:
                    self._encode_held()
                return range(first, self.next_id)
        self._encode_held()
        leaf = 0
        while leaf < len(cuts) - 1:
            start, end = int(cuts[leaf]), len(cuts) - 1
            if batch.num_rows - start > run:  # whole leaves, one at least
                end = max(leaf + 1, int(np.searchsorted(cuts, start + run, "right")) - 1)
            part, own = batch, cuts
            if end - leaf < len(cuts) - 1:
                part, own = batch.slice(start, int(cuts[end]) - start), cuts[leaf : end + 1] - start
            self._submit(partial(self._encode_leaves, part, own, self.next_id))
            self.next_id += end - leaf
            leaf = end
        return range(first, self.next_id)

    def add_node(self, content: bytes) -> int:
        """One block of bytes."""
        self._encode_pending()
        self._submit(partial(block.encode_node, content, self.next_id))
        self.next_id += 1
        return self.next_id - 1

    def add_later(self, make: Callable[[], bytes]) -> int:
        """One block of bytes, which ``make`` is asked for when every block before it has been delivered."""
        self._encode_pending()
        id = self.next_id
        self.next_id += 1
        self._running.append(lambda: block.encode_node(make(), id))
        return id

    def hasten(self) -> None:
        """Give everything added so far to the threads, instead of waiting for more to encode together."""
        self._encode_pending()

    def drain(self) -> None:
        """Encode and deliver everything added so far."""
        self._encode_pending()
        while self._running:
            self._deliver_next()

    def cancel(self) -> None:
        """Give up what is not encoded yet."""
        for run in self._running:
            if isinstance(run, threads.Task):
                run.cancel()

    def _encode_pending(self) -> None:
        self._encode_gathered()
        self._encode_held()

    def _hold(self, rows: OrderedRows, cuts: Ints) -> None:
        self._held.append((rows, cuts))
        self._held_rows += rows.num_rows
        self.next_id += len(cuts) - 1

    def _encode_held(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, []
        self._held_rows = 0
        runs = OrderedRuns(tuple(rows for rows, _ in held))
        ends = accumulate((rows.num_rows for rows, _ in held), initial=0)
        cuts = [cuts[:-1] + before for before, (_, cuts) in zip(ends, held, strict=False)]
        self._submit(
            partial(
                self._encode_leaves,
                runs,
                np.append(np.concatenate(cuts), runs.num_rows),
                self.next_id - sum(map(len, cuts)),
            )
        )

    def _encode_gathered(self) -> None:
        if not self._gathered:
            return
        batches, self._gathered = self._gathered, []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        cuts = np.cumsum([0, *(batch.num_rows for batch in batches)], dtype=np.int64)
        whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        self._submit(partial(self._encode_leaves, whole, cuts, self.next_id - len(batches)))

    def _encode_leaves(self, rows: AnyRows | OrderedRuns, cuts: Ints, first_id: int) -> block.Frames:
        try:
            words = self._spare_words.pop()
        except IndexError:  # several threads may be after the last one
            words = None
        return block.encode_leaves(rows, cuts, first_id, words)

    def _submit(self, job: Callable[[], block.Frames]) -> None:
        self._running.append(threads.submit(job))
        while len(self._running) > threads.THREADS + RUNS_AHEAD:
            self._deliver_next()

    def _deliver_next(self) -> None:
        run = self._running.popleft()
        frames = run.result() if isinstance(run, threads.Task) else run()
        self._deliver(frames)
        if len(self._spare_words) <= threads.THREADS:
            self._spare_words.append(frames.words)


def leaf_cuts(rows: int, leaf_rows: int, breaks: Ints | None = None) -> Ints:
    """Where so many rows are cut into leaves of ``leaf_rows``, with the end behind.

    A leaf ends at each of the ``breaks``, rising places behind the first row and before the end, however short it is.
    """
    if breaks is None:
        return _even_cuts(rows, leaf_rows)
    places = [0, *breaks.tolist(), rows]
    return np.array([cut for start, stop in pairwise(places) for cut in range(start, stop, leaf_rows)] + [rows])


@functools.lru_cache(64)
def _even_cuts(rows: int, leaf_rows: int) -> Ints:
    """The same ones are asked for again and again."""
    cuts = np.append(np.arange(0, rows, leaf_rows, dtype=np.int64), rows)
    cuts.flags.writeable = False
    return cuts


def rows_of_leaves(rows: int, leaf_rows: int, most: int, breaks: Ints | None = None) -> int:
    """How many of so many rows the first ``most`` leaves have that :func:`leaf_cuts` makes of them."""
    if breaks is None:
        return min(rows, most * leaf_rows)
    cuts = leaf_cuts(rows, leaf_rows, breaks[breaks < rows])
    return int(cuts[min(most, len(cuts) - 1)])
