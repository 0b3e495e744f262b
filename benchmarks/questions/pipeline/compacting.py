"""How fast does Spark merge a thousand small splits, against rewriting the same rows as Parquet?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import split
from questions.spark.year import DAYS, OURS, PARQUET, STREAM, TIME, fingerprint, readings, schema_of_year
from tidelog.engine.stream import writer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTION = "distributed compaction"
SPLITS, QUICK_SPLITS = 1000, 100
REGULAR_DAYS = 30
"""The length of regular splits; Parquet is partitioned into as many ranges of time."""


def ask_compaction(bench: Bench, spark: SparkSession, events: int, bound: Bound) -> None:
    """Race merging small splits into regular ones, and small files of Parquet into as many ranges of time."""
    from tidelog import spark as tl

    root = bench.workspace.fresh()
    count = QUICK_SPLITS if bench.quick else SPLITS
    bench.on_progress(f"writing {count:,} small splits, and files of Parquet")
    _write_small(root, events, count)
    rows = tl.read(spark, root / "store", STREAM)
    types = rows.schema
    expected = fingerprint(rows)
    regular = -(-DAYS // REGULAR_DAYS)

    def rewrite(to: Path) -> None:
        small = spark.read.schema(types).parquet(str(root / "parquet"))
        small.repartitionByRange(regular, TIME).sortWithinPartitions(TIME).write.parquet(str(to / "rewritten"))

    def copy(to: Path) -> None:
        shutil.copytree(root / "store", to / "store")

    def compact(to: Path) -> None:
        done = tl.compact(spark, to / "store", STREAM)
        # Splits that reach over the end of a regular interval are left as they are.
        if done.splits_before < count - regular or not done.is_done:
            raise AssertionError(f"{done} is not what {count} small splits are to become")

    cases = [Case(OURS, compact, before=copy), Case(PARQUET, rewrite)]
    outcomes = bench.race(COMPACTION, cases, writes=True, keep_last=True)
    found: dict[str, DataFrame] = {}
    for name, outcome in outcomes.items():
        assert outcome.directory is not None
        place = outcome.directory
        is_ours = name == OURS
        found[name] = (
            tl.read(spark, place / "store", STREAM) if is_ours else spark.read.parquet(str(place / "rewritten"))
        )
        if fingerprint(found[name]) != expected:
            raise AssertionError(f"{name} has other rows after it was compacted")
        bench.workspace.remove(place)
    bench.workspace.remove(root)
    ours, peers = split(
        {name: Figures.of(outcome, lambda sample: events / sample.wall / 1e6) for name, outcome in outcomes.items()}
    )
    note = f"{count:,} splits, and files, become {regular}; Parquet is brought into order of time as we are"
    comparisons = [Comparison(PARQUET, (PARQUET,), bound)]
    bench.answer(Question(COMPACTION, "M rows/s, durable", events, ours, peers, comparisons, note=note))


def _write_small(root: Path, events: int, count: int) -> None:
    """A store with so many small splits, each as a task of a job writes it, and as many files of Parquet."""
    import tidelog
    from tidelog.model import to_batches
    from tidelog.store.bulk import BulkWriter, commit_bulk

    (root / "parquet").mkdir()
    with tidelog.open(root / "store", maintenance="manual") as store:
        stream = store.create_stream(STREAM, schema_of_year(), time=TIME, split=f"{REGULAR_DAYS}d")
        infos = []
        for number, rows in enumerate(_slices(events, count)):
            parquet.write_table(rows, root / "parquet" / f"{number:05d}.parquet")
            with BulkWriter(writer_of(stream).context) as writer:
                for batch in to_batches(rows, stream.schema):
                    writer.append(batch)
                infos += writer.finish()
        commit_bulk(writer_of(stream).manifests, infos)


def _slices(events: int, count: int) -> Iterator[pa.Table]:
    """All readings, in so many parts of one length."""
    size = -(-events // count)
    held: list[pa.RecordBatch] = []
    for batch in readings(events):
        held.append(batch)
        while sum(each.num_rows for each in held) >= size:
            table = pa.Table.from_batches(held)
            yield table.slice(0, size)
            held = table.slice(size).to_batches()
    rest = pa.Table.from_batches(held, schema_of_year())
    if rest.num_rows:
        yield rest
