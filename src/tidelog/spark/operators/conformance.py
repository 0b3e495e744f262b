"""The runtimes of Spark for :class:`~tidelog.operators.conformance.OperatorConformance`: many cases by one job.

To be run against your own operators too::

    OperatorConformance(make, [SparkBatch(session), SparkStreaming(session, folder)]).check([rows], dice, rounds=1)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.operators.base import Batches
from tidelog.operators.conformance import Case, Dice, Make, Runtime
from tidelog.spark.operators.inputs import Input
from tidelog.spark.operators.running import run
from tidelog.spark.operators.several import CASE, KEY, ROW, TIME, Several, SeveralArriving, results
from tidelog.spark.operators.streaming import Continuing, run_streaming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS = 3
_EVER = 1 << 62
"""A lateness by which nothing is late: each case has one of its own."""
_FILES = 4


@final
class SparkBatch(Runtime):
    """Rows that are in time, as DataFrames: by key, and those that are divided by time so."""

    name = "Spark batch"
    keeps_order = False

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """One case."""
        return self.run_all([Case(make, rows, lateness)], dice)[0]

    def run_all(self, cases: Sequence[Case], dice: Dice) -> list[Batches]:
        """Two jobs at the most."""
        found: list[Batches] = [[] for _ in cases]
        for by_time in (False, True):
            places = [at for at, case in enumerate(cases) if _is_by_time(case) is by_time]
            if places:
                given = self._run([cases[at] for at in places], by_time)
                for at, batches in zip(places, given, strict=True):
                    found[at] = batches
        return found

    def _run(self, cases: Sequence[Case], by_time: bool) -> list[Batches]:
        make = partial(Several, cases, by_time=by_time)
        several = make()
        inputs = []
        for port, shape in enumerate(several.inputs):
            frame = self._session.createDataFrame(several.table(port)).repartition(2)
            inputs.append(Input(frame, shape, place=ROW))
        return results(cases, run(inputs, make, tasks=_TASKS).toArrow())


@final
class SparkStreaming(Runtime):
    """Rows as they arrive, in micro-batches, by a query that is stopped half way, and gone on with from its state."""

    name = "Spark streaming"
    keeps_order = False

    def __init__(self, session: SparkSession, folder: str | os.PathLike[str]) -> None:
        """``folder`` is for input, checkpoints and results; none of these is removed."""
        self._session = session
        self._folder = Path(folder)

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """One case."""
        return self.run_all([Case(make, rows, lateness)], dice)[0]

    def run_all(self, cases: Sequence[Case], dice: Dice) -> list[Batches]:
        """Two queries with one checkpoint."""
        place = self._folder / f"run{len(list(self._folder.iterdir()))}"
        source = place / "in"
        source.mkdir(parents=True)
        parts = _arrivals(cases, dice)
        operator = partial(SeveralArriving, cases)
        frame = (
            self._session.readStream.schema(
                "time bigint, `case` int, key bigint, row bigint, port bigint, beat boolean"
            )
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
        )
        how = Continuing(operator, (_EVER,), 2, None, (), keeps_late=False, keeps_operators=bool(dice.random() < 0.3))
        out = run_streaming([Input(frame, operator().inputs[0], beat="beat")], how)
        half = len(parts) // 2
        for first, last in ((0, half), (half, len(parts))):
            for number in range(first, last):
                _write(parts[number], source / f"{number}.parquet", number)
            _run_all(out, place)
        return results(cases, self._session.read.parquet(str(place / "out")).toArrow())


def _run_all(frame: DataFrame, place: Path) -> None:
    """Run a query until everything that is there has been read."""
    writer = frame.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def _write(table: pa.Table, path: Path, number: int) -> None:
    """A file for the next micro-batch: they are read in the order of the times at which they were changed."""
    own = path.with_name(f".{path.name}")
    pq.write_table(table, own)
    os.utime(own, (1_000_000_000 + number, 1_000_000_000 + number))
    own.rename(path)


def _is_by_time(case: Case) -> bool:
    needs = case.make().needs
    return needs.keys is None and None not in (needs.behind, needs.ahead) and not needs.last_before


def _arrivals(cases: Sequence[Case], dice: Dice) -> list[pa.Table]:
    """The rows of all cases in files: those of each input in the order of arrival, inputs in turns; then the end."""
    parts: list[list[dict[str, Any]]] = [[] for _ in range(_FILES)]
    for number, case in enumerate(cases):
        shapes = case.make().inputs
        order = np.repeat(np.arange(len(shapes)), [batch.num_rows for batch in case.rows])
        dice.shuffle(order)
        cuts = np.sort(dice.integers(0, len(order) + 1, _FILES - 1))
        taken = [0] * len(shapes)
        times = [shape.times(batch).tolist() for shape, batch in zip(shapes, case.rows, strict=True)]
        for at, port in enumerate(order.tolist()):
            row = {TIME: times[port][taken[port]], CASE: number, KEY: 0, ROW: taken[port], "port": port, "beat": False}
            parts[int(np.searchsorted(cuts, at, side="right"))].append(row)
            taken[port] += 1
    parts.append([{TIME: None, CASE: 0, KEY: 0, ROW: 0, "port": 0, "beat": True}])
    kinds = (pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.bool_())
    schema = pa.schema(list(zip((TIME, CASE, KEY, ROW, "port", "beat"), kinds, strict=True)))
    return [pa.Table.from_pylist(part, schema=schema) for part in parts]
