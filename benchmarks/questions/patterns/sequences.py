"""How long does the search for a pattern in one ordered sequence take, against NumPy's evaluation of its conditions?"""

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
NUMPY: Final = "NumPy's conditions"


def _symbols(rows: Arrays) -> list[Any]:
    return [rows["symbol"] == place for place in range(3)]


def _run(rows: Arrays) -> list[Any]:
    return [rows["symbol"] == 1, rows["symbol"] < 20, rows["symbol"] >= 24]


def _valley(rows: Arrays) -> list[Any]:
    price = rows["price"]
    return [price[1:] < price[:-1], price[1:] > price[:-1]]


def _references(rows: Arrays) -> list[Any]:
    return [rows["symbol"] == 1, rows["price"] > 1000.0, rows["price"] < 1000.0]


def _nothing(rows: Arrays) -> list[Any]:
    return [rows["symbol"] == 1, rows["symbol"] > 100]


QUESTIONS: Final[dict[str, tuple[Callable[[], RowPattern], Callable[[Arrays], list[Any]]]]] = {
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

    def search(_: Path) -> int:
        return sum(batch.num_rows for batch in evaluate(query, batches))

    def evaluated(_: Path) -> list[Any]:
        return [*conditions(arrays), arrays["t"].copy(), arrays["t"].copy(), arrays["price"].copy()]

    outcomes = bench.race(title, [Case(ours.NAME, search), Case(NUMPY, evaluated)])
    rate = len(table) / 1e6
    figures = {name: Figures.of(outcome, lambda sample: rate / sample.cpu) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(Question(title, "M rows/s of CPU", len(table), mine, figures, [Comparison(NUMPY, (NUMPY,), bound)]))
