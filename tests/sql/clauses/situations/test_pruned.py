"""Situations of a stream of which only stretches are read: those of all its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.operators.situations.relations import NAMES

ROWS = 6000


def rows(dice: np.random.Generator) -> pa.Table:
    """Quiet rows of three keys, and some stretches in which something happens; some come late, some at one time."""
    values = dice.normal(0, 1, (2, ROWS))
    for at in dice.integers(0, ROWS - 300, int(dice.integers(1, 6))):
        length = int(dice.integers(5, 200))
        for own, run in zip(values, (5, 7), strict=True):
            own[at : at + length] += np.repeat(dice.choice([0, 6, 9], length // run + 1), run)[:length]
    table = pa.table(
        {
            "ts": pa.array(np.cumsum(dice.integers(0, 3, ROWS)), pa.int64()),
            "k": dice.integers(0, 3, ROWS),
            "x": values[0],
            "y": values[1],
        }
    )
    order = np.arange(ROWS)
    for at in dice.integers(0, ROWS - 50, 5):
        order[at : at + 50] = order[at : at + 50][::-1]
    return table.take(pa.array(order))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_left_out_changes_nothing(tmp_path: Path, seed: int) -> None:
    """With keys and without, in both modes, with aggregates over rows that would not be read for anything else."""
    dice = np.random.default_rng(seed)
    table = rows(dice)
    relations = " | ".join(dice.choice(list(NAMES), int(dice.integers(1, 5)), replace=False))
    partition = "PARTITION BY k" if seed % 3 == 0 else ""
    bound = dice.choice(["", "AT LEAST 4 ticks", "AT MOST 30 ticks", "BETWEEN 2 ticks AND 50 ticks"])
    returned = dice.choice(["", "RETURN count(A.*) AS n, max(B.y) AS m, A.start_time AS s"])
    define = f"{partition} ORDER BY ts DEFINE A AS x > 5 {bound}, B AS y > 5"
    mode = "EARLY" if seed % 2 else "COMPLETED"
    texts = [
        f"SELECT * FROM t SITUATIONS ({define} PATTERN A {relations} B WITHIN {dice.choice([20, 1000])} {returned} "
        f"MODE {mode})",
        f"SELECT * FROM t DERIVE ({define} RETURN count(*) AS n)",
    ]
    with tidelog.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("t", table.schema, "ts", leaf_rows=128)
        for first in range(0, ROWS, 1500):
            stream.append(table.slice(first, 1500))
            stream.flush()
        in_order = store.sql("SELECT * EXCLUDE (_seq) FROM (SELECT *, _seq FROM t ORDER BY ts, _seq)").arrow()
        for text in texts:
            result = store.sql(text)
            assert "stretches of time" in result.explain()
            assert result.fetchall() == tidelog.sql(text, tables={"t": in_order}).fetchall(), text
        assert result.fetchall() != []
