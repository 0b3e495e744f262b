"""What all questions about joins share: contestants that join two tables in memory into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from tidelog.operators.base import Operator
from tidelog.operators.replaying import replay

DUCKDB, POLARS, NUMPY = "DuckDB", "Polars", "NumPy per event"

BATCH_ROWS = 1 << 16


def joined(operator: Operator, left: pa.Table, right: pa.Table) -> pa.Table:
    """Two tables through an operator, a batch at a time."""
    inputs = [table.to_batches(max_chunksize=BATCH_ROWS) for table in (left, right)]
    return pa.Table.from_batches(replay(operator, inputs), operator.output.schema)


def is_there(bench: Bench, peer: str, module: str) -> bool:
    """Whether a peer can take part; if not, that is noted."""
    try:
        import_module(module)
    except ImportError as error:
        bench.missing[peer] = str(error)
        return False
    return True


def ask(
    bench: Bench,
    name: str,
    events: int,
    ours: Callable[[], Any],
    peers: Mapping[str, Callable[[], Any]],
    rows: Callable[[Any], int],
    comparisons: Sequence[tuple[str, tuple[str, ...], Bound]],
    note: str,
) -> None:
    """Race ways to join; all have to find as many rows."""
    counted: dict[str, int] = {}

    def case(contestant: str, work: Callable[[], Any]) -> Case:
        def check(result: Any) -> None:
            counted[contestant] = rows(result)
            if len(set(counted.values())) > 1:
                raise AssertionError(f"{name}: found {counted} rows, expected as many by all")

        return Case(contestant, lambda _: work(), check=check)

    outcomes = bench.race(name, [case(contestant, work) for contestant, work in {OURS: ours, **peers}.items()])
    figures = {
        each: Figures.of(outcome, lambda sample: events / sample.wall / 1e6) for each, outcome in outcomes.items()
    }
    bench.answer(
        Question(
            name,
            "million events/s of both inputs",
            events,
            figures[OURS],
            {each: figures[each] for each in peers},
            [Comparison(label, against, bound) for label, against, bound in comparisons],
            note=f"{note}; {counted[OURS]:,} rows found",
        )
    )
