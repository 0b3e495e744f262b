"""How fast is a filter that lets one row of a thousand pass beside PyFlink, both with rows in memory?

Ours is fed batches of a thousand through its queue, as rows arrive. Flink makes rows by itself, reads and writes
nothing; what starting a job takes does not count, nor what a job takes that makes the rows and drops them all, though
ours has its queue to go through. PyFlink cannot live in this environment, so it takes part only
where ``BENCH_FLINK_PYTHON`` names a Python with ``apache-flink``. It runs by itself, in a process of its own, with a
condition in SQL, which Java evaluates, and with a function of Python.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.windows.operating import BATCH, fed
from tidelog.operators.base import Shape
from tidelog.operators.rowwise import Filter

TITLE: Final = "a filter of 1 in 1,000 beside PyFlink"
PLACE: Final = "BENCH_FLINK_PYTHON"
SQL, PYTHON = "PyFlink, SQL", "PyFlink, a function of Python"
FULL, QUICK = 1 << 21, 1 << 15
AGAINST: Final = Bound(50.0, 100.0, FULL)

_CHILD: Final = Path(__file__).parents[2] / "children" / "flink_filter.py"
_KINDS: Final = {SQL: "sql", PYTHON: "python"}


def ask(bench: Bench) -> None:
    """Time ours, then theirs."""
    if not bench.wants(TITLE):
        return
    rows = bench.size(FULL, QUICK)
    columns = {"ts": np.arange(rows), "v0": np.random.default_rng(1).random(rows)}
    batches = pa.table(columns).to_batches(max_chunksize=BATCH)
    shape = Shape(batches[0].schema, "ts")

    def check(found: int) -> None:
        assert found == -(-rows // 1000)

    outcome = bench.race(TITLE, [Case("tidelog", lambda _: fed(Filter(shape, "ts % 1000 = 0"), batches), check=check)])
    figures = Figures.of(outcome["tidelog"], lambda sample: rows / sample.wall)
    python = os.environ.get(PLACE)
    if python is None:
        note = f"PyFlink is missing: {PLACE} does not say where it is"
        bench.answer(Question(TITLE, "events/s", rows, figures, {}, [], note=note))
        return
    alone = statistics.median(_seconds(python, rows, "none") for _ in range(bench.repetitions))
    peers = {
        name: Figures(tuple(rows / max(_seconds(python, rows, kind) - alone, 1e-6) for _ in range(bench.repetitions)))
        for name, kind in _KINDS.items()
    }
    comparisons = [Comparison(name, (name,), AGAINST) for name in peers]
    note = (
        f"Flink takes {alone / rows * 1e9:,.0f} ns a row to make rows and drop them, which is no part of its time here"
    )
    bench.answer(Question(TITLE, "events/s", rows, figures, peers, comparisons, note=note))


def _seconds(python: str, rows: int, kind: str) -> float:
    """What a job of PyFlink's takes, without starting it."""
    command = [python, str(_CHILD), str(rows), kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    whole, started = (float(line) for line in done.stdout.strip().splitlines()[-2:])
    return max(whole - started, 1e-6)
