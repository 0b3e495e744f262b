"""A process that writes a container until it is killed: ``python writing_process.py DIRECTORY SEED``.

Prints the number of each commit that a flush acknowledged.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import pyarrow as pa

from tidelog.storage import Container, FileMedium, Options

NAME = "killed.tl"
SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), pa.field("x", pa.float64()), ("tag", pa.string())])
OPTIONS = Options(leaf_rows=512, run_rows=4096, macro_size=16_384, fanout=8, commit_every=300_000)


def batch(start: int, count: int) -> pa.RecordBatch:
    """Rows that follow from their numbers, so that anybody can tell what must be in a container."""
    numbers = np.arange(start, start + count)
    tags = pa.array([f"tag {i}" for i in range(97)]).take(pa.array(numbers * numbers % 97))
    return pa.record_batch([pa.array(numbers), pa.array(numbers / 8), tags], schema=SCHEMA)


def main() -> None:
    directory, seed = sys.argv[1:]
    dice = random.Random(int(seed))
    with Container.open(FileMedium(directory), NAME, OPTIONS) as container:
        written = container.recovery.commit.rows
        while True:
            count = dice.choice([1, 10, 512, 5000])
            container.extend(batch(written, count))
            written += count
            if dice.random() < 0.4:
                sys.stdout.write(f"{container.flush().number}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
