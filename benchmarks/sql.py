"""SQL over streams against the same rows in a DuckDB file, and against DuckDB and Polars on Parquet.

The families of queries of the public benchmark for time series, TSBS: hosts and their CPUs, trucks and where they are;
then aggregates that the index answers, the newest rows, and how long a small query takes. Everybody's rows are compared
before the clock starts. ``python benchmarks/sql.py --help`` tells the options.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

import tidelog
from formats.base import THREADS
from harness import Bench, Bound, Case, Comparison, Figures, Question, main, measure
from machines import Hosts
from questions.contest import split
from questions.sql import devops, iot
from questions.sql.contestants import CONTESTANTS, PARQUET, POLARS, TABLE, Contestant, write_parquet
from questions.sql.query import Kind, Query, expect_same
from tidelog.engine.store import Store

MILLION = 1_000_000
FULL, QUICK = 20 * MILLION, MILLION // 4
"""Rows of the stream of hosts, and of the two streams of trucks together."""

AGAINST_TABLE = {
    Kind.INDEX: Bound(20, 50, FULL),
    Kind.NEWEST: Bound(5, 20, FULL),
    Kind.OTHER: Bound(0.7, 1.0, FULL),
}
AGAINST_PARQUET = {Kind.OTHER: Bound(1.0, 1.5, FULL)}
SMALL_LIMIT = Bound(5.0, 2.0)
"""Milliseconds of a small query, at the median; judged at any size."""

SMALL_ROWS = 1000
SMALL = {
    "small: one aggregate": "SELECT avg(value) FROM small WHERE site = 'b'",
    "small: the rows of a key": "SELECT * FROM small WHERE site = ? ORDER BY ts",
}
_SMALL_QUERIES = 100


def ask(bench: Bench) -> None:
    """All questions in SQL."""
    pa.set_cpu_count(THREADS)
    rows = bench.size(FULL, QUICK)
    hosts = max(rows // Hosts.COUNT, 1) * Hosts.COUNT  # whole ticks
    _ask_family(bench, "devops", rows, {devops.STREAM: ("devops", hosts)}, devops.queries(hosts), devops.tables())
    trucks = max(rows // 2, 1)
    streams = {name: (name, trucks) for name in (iot.READINGS, iot.DIAGNOSTICS)}
    _ask_family(bench, "iot", rows, streams, iot.queries(trucks), {})
    _ask_small(bench)


def _ask_family(
    bench: Bench,
    family: str,
    rows: int,
    streams: dict[str, tuple[str, int]],
    queries: Sequence[Query],
    tables: dict[str, pa.Table],
) -> None:
    """Ask everybody some queries of the same streams."""
    wanted = [query for query in queries if bench.wants(f"{family} {query.name}")]
    if not wanted:
        return
    place = bench.workspace.fresh()
    bench.on_progress(f"{family}: making {rows:,} rows")
    write_parquet(place, streams)
    contestants: list[Contestant] = []
    for kind in CONTESTANTS:
        bench.on_progress(f"{family}: writing {kind.name}")
        try:
            contestants.append(kind(place, list(streams), tables))
        except ImportError as error:
            bench.missing[kind.name] = str(error)
    try:
        for query in wanted:
            _ask_query(bench, f"{family} {query.name}", query, rows, contestants)
    finally:
        for contestant in contestants:
            contestant.close()
        bench.workspace.remove(place)


def _ask_query(bench: Bench, name: str, query: Query, rows: int, contestants: Sequence[Contestant]) -> None:
    able = [contestant for contestant in contestants if contestant.can(query)]
    expected = next(contestant for contestant in able if contestant.name == TABLE).ask(query)
    cases = [
        Case(each.name, lambda _, each=each: each.ask(query), check=partial(_check, query, each.name, expected))
        for each in able
    ]
    outcomes = bench.race(name, cases)
    figures = {who: Figures.of(outcome, lambda sample: 1 / sample.wall) for who, outcome in outcomes.items()}
    ours, peers = split(figures)
    comparisons = [
        Comparison(TABLE, (TABLE,), AGAINST_TABLE[query.kind]),
        Comparison(PARQUET, (PARQUET,), AGAINST_PARQUET.get(query.kind)),
        *([Comparison(POLARS, (POLARS,))] if POLARS in peers else []),
    ]
    note = f"{query.kind.value}; {expected.num_rows:,} rows"
    bench.answer(Question(name, "queries/s", rows, ours, peers, comparisons, note=note))


def _check(query: Query, name: str, expected: pa.Table, found: pa.Table) -> None:
    expect_same(query, name, found, expected)


def _ask_small(bench: Bench) -> None:
    """How long small queries of a small stream take, in a store that is open."""
    wanted = {name: text for name, text in SMALL.items() if bench.wants(name)}
    if not wanted:
        return
    place = bench.workspace.fresh()
    with tidelog.open(place) as store:
        _fill_small(store)
        for name, text in wanted.items():
            runs = []
            for repetition in range(-1, bench.repetitions):
                bench.on_progress(f"{name}: {repetition + 1} of {bench.repetitions}")
                run = measure(partial(_median_seconds, store, text))
                if repetition >= 0:
                    runs.append(run)
            found = Figures(tuple(seconds * 1000 for seconds, _ in runs), tuple(sample for _, sample in runs))
            limit = [Comparison("limit", (), SMALL_LIMIT)]
            note = f"median of {_SMALL_QUERIES}, warm"
            bench.answer(Question(name, "ms a query", SMALL_ROWS, found, {}, limit, higher_is_better=False, note=note))
    bench.workspace.remove(place)


def _fill_small(store: Store) -> None:
    sites = [("a", "b", "c")[k % 3] for k in range(SMALL_ROWS)]
    rows = pa.table({"ts": range(SMALL_ROWS), "site": sites, "value": [k / 4 for k in range(SMALL_ROWS)]})
    store.create_stream("small", rows.schema, "ts").append(rows)


def _median_seconds(store: Store, text: str) -> float:
    params = ["b"] if "?" in text else None
    seconds = []
    for _ in range(_SMALL_QUERIES):
        start = time.perf_counter()
        rows = store.sql(text, params).arrow().num_rows
        seconds.append(time.perf_counter() - start)
        if not rows:
            raise AssertionError(f"{text} gave no row")
    return statistics.median(seconds)


if __name__ == "__main__":
    sys.exit(main("sql", ask))
