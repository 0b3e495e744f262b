"""Replay of stored rows, of several inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from operators.cases import rows, shape
from tidelog.operators.conformance import in_order
from tidelog.operators.ordering import Union
from tidelog.operators.replay import replay
from tidelog.operators.rowwise import Filter


def test_several_inputs_are_merged_by_time() -> None:
    dice = np.random.default_rng(4)
    of = shape()
    wholes = [in_order(of, rows(of, dice, count, jitter=20)) for count in (50, 0, 17)]
    cut = [[whole.slice(start, 7) for start in range(0, whole.num_rows, 7)] for whole in wholes]
    found = pa.Table.from_batches(list(replay(Union([of] * 3), cut)))
    expected = [(row["ts"], port, row["n"]) for port, whole in enumerate(wholes) for row in whole.to_pylist()]
    assert [row["ts"] for row in found.to_pylist()] == [row[0] for row in sorted(expected, key=lambda row: row[:2])]
    assert [row["n"] for row in found.to_pylist()] == [row[2] for row in sorted(expected, key=lambda row: row[:2])]


def test_no_more_than_a_batch_is_read_ahead() -> None:
    of = shape()
    whole = in_order(of, rows(of, np.random.default_rng(5), 40))
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 40, 10):
            read.append(start)
            yield whole.slice(start, 10)

    found = replay(Filter(of, "true"), [batches()])
    next(found)
    assert read == [0]
    assert sum(batch.num_rows for batch in found) == 30
