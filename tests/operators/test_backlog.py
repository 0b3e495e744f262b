"""Logs of rows, against a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.cases import dicts, rows, shape
from tidelog.operators.backlog import Backlog
from tidelog.operators.columns.series import Series
from tidelog.operators.conformance import Disk


def test_against_a_list() -> None:
    of = shape()
    dice = np.random.default_rng(40)
    for _ in range(20):
        log, disk = Backlog(of), Disk()
        known: list[dict[str, Any]] = []
        for _ in range(60):
            step = dice.random()
            if step < 0.5:
                batch = rows(of, dice, int(dice.integers(0, 12)))
                log.append(batch)
                known += dicts(batch)
            elif step < 0.7:
                count = int(dice.integers(0, len(known) + 1))
                log.drop(count)
                known = known[count:]
            elif step < 0.8:
                count = int(dice.integers(0, len(known) + 1))
                batch = rows(of, dice, int(dice.integers(0, 3)))
                log.replace(count, batch)
                known = dicts(batch) + known[count:]
            elif step < 0.9:
                restored = Backlog(of)
                disk.restored(log.snapshot(), restored.restore)
                log = restored
            assert len(log) == len(known)
            assert log.times.tolist() == [row["ts"] for row in known]
            first, last = sorted(dice.integers(0, len(known) + 1, 2).tolist())
            assert dicts(log.slice(first, last - first)) == known[first:last]
            places = dice.integers(0, len(known), int(dice.integers(0, 9))) if known else np.zeros(0, np.int64)
            k, n = log.take(places, ["k", "n"])
            expected = [known[place] for place in places]
            assert [k.to_pylist(), n.to_pylist()] == [[row[name] for row in expected] for name in ("k", "n")]
        assert dicts(log.rows) == known


def test_rows_are_copied_a_few_times_only() -> None:
    """However many batches come, there are few parts of them, and none is as long as the one before it."""
    of = shape()
    log = Backlog(of)
    batch = rows(of, np.random.default_rng(41), 1)
    copied = 0
    for _ in range(1000):
        before = [id(part) for part in log._parts]
        log.append(batch)
        copied += sum(part.num_rows for part in log._parts if id(part) not in before)
        assert len(log._parts) <= 24
    assert copied < 12 * 1000


def test_what_is_written_stays_written() -> None:
    of = shape()
    log = Backlog(of)
    dice = np.random.default_rng(42)
    log.append(rows(of, dice, 10))
    first = log.snapshot()
    log.append(rows(of, dice, 10))
    log.append(rows(of, dice, 10))
    second = log.snapshot()
    assert len(second.chunks) == 2
    assert all(second.chunks[name] is content for name, content in first.chunks.items())
    log.drop(15)
    assert list(log.snapshot().chunks) == [name for name in second.chunks if name not in first.chunks]


def test_series() -> None:
    dice = np.random.default_rng(43)
    series = Series(np.int64, 2)
    known = np.zeros((2, 0), np.int64)
    for _ in range(200):
        numbers = dice.integers(0, 100, (2, int(dice.integers(0, 500))))
        series.append(numbers)
        known = np.concatenate([known, numbers], axis=1)
        gone = int(dice.integers(0, known.shape[1] + 1))
        series.drop(gone)
        known = known[:, gone:]
        assert np.array_equal(series.lines, known)
        assert np.array_equal(series.line, known[0])
        assert len(series) == known.shape[1]
    assert series.memory.shape[1] < 20_000


def test_memory_of_a_series_is_used_again() -> None:
    series, memory = Series(np.int64), None
    for number in range(50):
        series.append(np.full(400, number))
        memory = series.memory if memory is None else memory
        assert set(series.line.tolist()) <= {number - 1, number}
        series.drop(len(series) - 300)
    assert series.memory is memory
