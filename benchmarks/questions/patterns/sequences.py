"""How long does the search for a pattern in one ordered sequence take, against NumPy's evaluation of its conditions?

NumPy writes into arrays that are there. New ones of 500 MB cost it from half as much again to thirty times as much, as
the system has large pages for them, small ones, or none that it could give at once: that says nothing of patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from formats import ours
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.patterns import clauses
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.syntax import RowPattern

Arrays = dict[str, Any]
Test = tuple[np.ufunc, Any, Any]
"""A comparison, and what it compares."""
NUMPY: Final = "NumPy's conditions"


def _symbols(rows: Arrays) -> list[Test]:
    return [(np.equal, rows["symbol"], place) for place in range(3)]


def _run(rows: Arrays) -> list[Test]:
    return [(np.equal, rows["symbol"], 1), (np.less, rows["symbol"], 20), (np.greater_equal, rows["symbol"], 24)]


def _valley(rows: Arrays) -> list[Test]:
    price = rows["price"]
    return [(np.less, price[1:], price[:-1]), (np.greater, price[1:], price[:-1])]


def _references(rows: Arrays) -> list[Test]:
    return [(np.equal, rows["symbol"], 1), (np.greater, rows["price"], 1000.0), (np.less, rows["price"], 1000.0)]


def _nothing(rows: Arrays) -> list[Test]:
    return [(np.equal, rows["symbol"], 1), (np.greater, rows["symbol"], 100)]


QUESTIONS: Final[dict[str, tuple[Callable[[], RowPattern], Callable[[Arrays], list[Test]]]]] = {
    "three symbols": (clauses.symbols, _symbols),
    "A B+ C": (clauses.run, _run),
    "V-shape with PREV": (clauses.valley, _valley),
    "references to earlier variables": (clauses.references, _references),
    "no match at all": (clauses.nothing, _nothing),
}


def ask(bench: Bench, table: pa.Table, title: str, bound: Bound) -> None:
    """Race the search against the conditions, and copies of the columns that measures are taken from."""
    make, conditions = QUESTIONS[title]
    query = make()
    batches = table.to_batches(max_chunksize=clauses.BATCH)
    arrays = {name: np.asarray(table.column(name).combine_chunks()) for name in table.schema.names}
    tests = [(test, one, other, np.zeros(len(one), np.bool_)) for test, one, other in conditions(arrays)]
    copies = [(arrays[name], np.zeros_like(arrays[name])) for name in ("t", "t", "price")]

    def search(_: Path) -> int:
        return sum(batch.num_rows for batch in evaluate(query, batches))

    def evaluated(_: Path) -> None:
        for test, one, other, found in tests:
            test(one, other, out=found)
        for column, copy in copies:
            np.copyto(copy, column)

    outcomes = bench.race(title, [Case(ours.NAME, search), Case(NUMPY, evaluated)])
    rate = len(table) / 1e6
    figures = {name: Figures.of(outcome, lambda sample: rate / sample.cpu) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(Question(title, "M rows/s of CPU", len(table), mine, figures, [Comparison(NUMPY, (NUMPY,), bound)]))
