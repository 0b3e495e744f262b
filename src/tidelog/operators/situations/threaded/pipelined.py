"""Matches as threads find them: batches are derived at once, settled in order, and searched at once.

No search waits for that of another batch, so that matches may come out of order; slack puts them into it. What waits
for order to be certain is the operator itself, see :meth:`~tidelog.operators.situations.matching.Matcher.found`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tidelog.operators.base import FOREVER
from tidelog.operators.situations.deriving import Pieces
from tidelog.operators.situations.matching import Part, Searched
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.rows import Coded, Rows
from tidelog.operators.situations.threaded.slack import Late, Slack
from tidelog.threads import Task, Threads


@dataclass(frozen=True)
class _Running:
    """A batch that a thread searches."""

    first_time: int
    task: Task[tuple[Searched, pa.RecordBatch]]


class Pipelined:
    """One run of an operator that has seen nothing yet, over rows that come in order."""

    def __init__(
        self, operator: SituationsOperator, threads: int, slack: int | None = None, late: Late = Late.FORWARD
    ) -> None:
        """``slack`` is how many matches are held back: by default twice what threads find in a batch each."""
        self._operator = operator
        self._matcher = operator.matcher
        self._threads = threads
        self._pool = Threads(threads)
        self._is_free = slack is None
        self.slack = Slack(operator.output, slack or 0, late)
        self._deriving: deque[tuple[int, Task[tuple[Rows, list[Pieces]]]]] = deque()
        self._searching: list[_Running] = []
        self._batches = self._matches = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What comes out. Lazy; to be asked once."""
        try:
            for rows in self._ordered(batches):
                self._deriving.append((rows.first_time, self._pool.submit(partial(self._derived, rows))))
                if len(self._deriving) > self._threads:
                    self._settle()
                yield from self._found(2 * self._threads)
                if self._operator.has_many_keys:
                    yield from self._drained()
                    self._operator.forget(rows)
            yield from self._drained()
            yield from self.slack.finish()
        finally:
            for _, task in self._deriving:
                task.cancel()
            for each in self._searching:
                each.task.cancel()
            self._pool.end()

    def _ordered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Coded]:
        """Rows by whole instants."""
        (shape,) = self._operator.inputs
        for batch in batches:
            if not batch.num_rows:
                continue
            self._operator.push(0, batch)
            rows = self._operator.rows_before(int(shape.times(batch)[-1]))
            if rows is not None:
                yield rows
        rows = self._operator.rows_before(FOREVER)
        if rows is not None:
            yield rows

    def _derived(self, coded: Coded) -> tuple[Rows, list[Pieces]]:
        rows = coded.whole()
        return rows, self._matcher.pieces(rows)

    def _searched(self, part: Part) -> tuple[Searched, pa.RecordBatch]:
        found = self._matcher.search(part)
        return found, self._operator.rendered(found)

    def _settle(self) -> None:
        """Have the first batch that is derived searched."""
        first_time, task = self._deriving.popleft()
        oldest = self._searching[0].first_time if self._searching else first_time
        part = self._matcher.settle(*task.result(), oldest)
        self._searching.append(_Running(first_time, self._pool.submit(partial(self._searched, part))))

    def _drained(self) -> Iterator[pa.RecordBatch]:
        while self._deriving:
            self._settle()
            yield from self._found(2 * self._threads)
        yield from self._found(0)

    def _found(self, most: int) -> Iterator[pa.RecordBatch]:
        """What searches that are over have found; so many may go on."""
        while True:
            done = [each for each in self._searching if each.task.is_done]
            for each in done:
                self._searching.remove(each)
                yield from self._out(*each.task.result())
            if len(self._searching) <= most:
                return
            self._searching[0].task.wait()

    def _out(self, searched: Searched, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._matcher.learn([searched])
        self._batches += 1
        self._matches += len(searched.matches)
        if self._is_free:
            self.slack.size = -(-2 * self._threads * self._matches // self._batches)
        return iter(self.slack.push(rows))
