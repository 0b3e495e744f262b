"""A process that looks at a stream that others write: ``python reading_process.py DIRECTORY STREAM ROWS...``.

There is one number of rows for each writer. Event ``n`` of writer ``w`` has the id ``n * writers + w``, and a writer
commits ``ROWS[w]`` of them at a time. Says ``ready`` after its first look, looks until its standard input ends, and
then prints how many times it looked and how many rows it saw last. Ends with an error as soon as a look fails, a row is
there twice or out of order, a commit is there in part, rows seen before are gone, or the index does not agree with the
rows.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import tidelog

AGGREGATES = ["count(*)", "sum(id)", "min(id)", "max(id)"]


def look(stream: Any, rows: Sequence[int], before: Sequence[int]) -> list[int]:
    """Judge what is there now; returns how many rows of each writer there are."""
    snapshot = stream.snapshot()
    found = stream.scan(as_of=snapshot).read_all()
    ids = found["id"].to_numpy()
    assert (np.diff(found["at"].cast("int64").to_numpy()) >= 0).all(), "rows are out of order"
    assert len(np.unique(ids)) == len(ids), "rows are there twice"
    answer = stream.aggregate(None, None, AGGREGATES, as_of=snapshot)
    recount = [len(ids), ids.sum(), ids.min(), ids.max()] if len(ids) else [0, None, None, None]
    assert [answer[text] for text in AGGREGATES] == recount, f"the index says {answer}, the rows {recount}"
    counts = [_whole(ids[ids % len(rows) == writer] // len(rows), size) for writer, size in enumerate(rows)]
    assert all(now >= then for now, then in zip(counts, before, strict=True)), f"{counts} rows now, before {before}"
    return counts


def _whole(numbers: npt.NDArray[np.int64], size: int) -> int:
    """How many rows of a writer there are; raises if only a part of a commit is there."""
    _, there = np.unique(numbers // size, return_counts=True)
    assert (there == size).all(), "a commit is there in part"
    return len(numbers)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    directory, name, *sizes = sys.argv[1:]
    rows = [int(size) for size in sizes]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    looks, seen = 0, [0] * len(rows)
    with tidelog.open(directory, read_only=True) as kept:  # open all the time, and anew for every look
        while True:
            is_last = over.is_set()
            seen = look(kept.stream(name), rows, seen)
            with tidelog.open(directory, read_only=True) as fresh:
                seen = look(fresh.stream(name), rows, seen)
            looks += 1
            if looks == 1:
                say("ready")
            if is_last:
                break
            over.wait(0.5)
    say(f"{looks} {sum(seen)}")


if __name__ == "__main__":
    main()
