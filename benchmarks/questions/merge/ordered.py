"""How fast are copies in order merged, against finding the distinct ones of all elements?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.merge.copies import Copies, batches, ordered
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.engine import Ordered, Rows
from tidelog.operators.merge.codes import INSERT

POLARS = "Polars unique"
INPUTS = 3
CASES = {"R0": (codes.ONE, 1), "R1": (codes.SAME_ORDER, 1), "R2": (codes.DISTINCT, 4)}


def title(algorithm: str) -> str:
    """The name of the question about an algorithm."""
    return f"{algorithm} of {INPUTS} inputs"


def ask(bench: Bench, events: int, algorithm: str, bound: Bound) -> None:
    """Race a merge of inputs in order against Polars, which is given all elements at once."""
    ties, of_one_start = CASES[algorithm]
    copies = ordered(Copies(events, INPUTS, stables=0.01), of_one_start)
    elements = sum(copy.shape[1] for copy in copies)

    def check(found: int) -> None:
        if found != events:
            raise AssertionError(f"{title(algorithm)}: found {found} events, expected {events}")

    cases = [Case(OURS, lambda _: _merged(copies, ties), check=lambda outs: check(_inserts(outs)))]
    try:
        import_module("polars")
    except ImportError as error:
        bench.missing[POLARS] = str(error)
    else:
        cases.append(Case(POLARS, _polars(copies), check=lambda frame: check(len(frame))))
    outcomes = bench.race(title(algorithm), cases)
    figures = {name: Figures.of(each, lambda sample: elements / sample.wall / 1e6) for name, each in outcomes.items()}
    bench.answer(
        Question(
            title(algorithm),
            "million elements/s of all inputs",
            elements,
            figures.pop(OURS),
            figures,
            [Comparison(POLARS, (POLARS,), bound)],
            note=f"{of_one_start} events of one start; Polars has no stables to look at",
        )
    )


def _merged(copies: list[Rows], ties: int) -> list[Rows]:
    merge = Ordered(ties)
    for number in range(len(copies)):
        merge.attach(str(number))
    return [merge.push(str(number), rows) for number, rows in batches(copies)]


def _inserts(outs: list[Rows]) -> int:
    return sum(int((out[codes.KIND] == INSERT).sum()) for out in outs)


def _polars(copies: list[Rows]) -> Any:
    import polars

    inserts = np.concatenate([copy[:, copy[codes.KIND] == INSERT] for copy in copies], axis=1)
    columns = {"payload": inserts[codes.PAYLOAD], "start": inserts[codes.START], "end": inserts[codes.END]}
    frame = polars.DataFrame({name: np.ascontiguousarray(column) for name, column in columns.items()})
    return lambda _: frame.unique(["payload", "start"], keep="first")
