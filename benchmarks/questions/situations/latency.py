"""How much sooner is a relation known than by both ends? In the time of events, and so the same on every machine."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness import Bench, Bound, Comparison, Figures, Question
from questions.situations import queries, rows
from tidelog.operators.situations.syntax import Mode

RELATIONS: Final = ("meets", "starts", "overlaps", "during", "before")
EXPECTED: Final = {
    "2:1": ((5, 50), (0.67, 0.62, 0.77, 0.74, 0.95)),
    "1:1": ((10, 100), (0.50, 0.57, 0.63, 0.70, 0.90)),
    "1:2": ((20, 200), (0.34, 0.40, 0.43, 0.65, 0.82)),
}
"""How long B lasts if A lasts 10 to 100 s, and the shares of the latency that were simulated independently."""
_WITHIN: Final = 1_000


def title(ratio: str) -> str:
    """The question about a ratio of the lengths of A and B."""
    return f"detection latency, A:B {ratio}"


def ask(bench: Bench, events: int, ratio: str, bound: Bound) -> None:
    """The greatest difference of what is found from what is expected."""
    duration, expected = EXPECTED[ratio]
    table = rows.attributes(events, "AB", {"B": (rows.GAP, duration)})
    shares = [_share(table, relation) for relation in RELATIONS]
    worst = max(abs(one - other) for one, other in zip(shares, expected, strict=True))
    note = ", ".join(
        f"{name} {share:.3f} ({known})" for name, share, known in zip(RELATIONS, shares, expected, strict=True)
    )
    figures = Figures((worst,))
    comparison = Comparison("the simulated table", (), bound)
    bench.answer(
        Question(title(ratio), "difference", events, figures, {}, [comparison], higher_is_better=False, note=note)
    )


def _share(table: pa.Table, relation: str) -> float:
    """The mean latency of early matches, over that of completed ones; of matches that are both."""
    early, completed = (_latencies(table, relation, mode) for mode in (Mode.EARLY, Mode.COMPLETED))
    _, ours, theirs = np.intersect1d(early[0], completed[0], assume_unique=True, return_indices=True)
    return float(early[1][ours].mean() / completed[1][theirs].mean())


def _latencies(table: pa.Table, relation: str, mode: Mode) -> tuple[Any, Any]:
    query = queries.of_attributes({("A", "B"): relation}, _WITHIN, mode, "AB")
    operator = queries.operator_of(table, query)
    found = pa.Table.from_batches(queries.found(operator, queries.batches(table)), operator.output.schema)
    one, other, time = (np.asarray(found.column(name)) for name in ("A_start", "B_start", "match_time"))
    return one * (1 << 32) + other, time - np.minimum(one, other)
