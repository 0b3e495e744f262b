"""Processes that write or read a stream of batches that follow from their numbers.

``python stream_process.py write DIRECTORY FIRST SEED`` appends and flushes batches from number ``FIRST`` on until it is
killed, and prints the number of each when it is durable. ``python stream_process.py read DIRECTORY`` looks at the
stream again and again until its standard input ends, and checks what every reader may rely on. For each line that it is
sent, and at the end, it prints how many batches it sees then.
"""

from __future__ import annotations

import queue
import random
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.store import Store
from tidelog.engine.stream import Stream

NAME = "s"
SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("batch", pa.int64()), ("row", pa.int64())])
OPTIONS: dict[str, Any] = {
    "leaf_rows": 16,
    "fanout": 3,
    "split": 400,
    "split_bytes": 60_000,
    "late_rows": 40,
    "journal_bytes": 6000,
}
PRODUCER = "p"


def times_of(batch: int) -> list[int]:
    """The times of a batch's rows: mostly new ones, some late, some long."""
    dice = random.Random(batch)
    count = dice.choice([1, 3, 20, 60, 200])
    return [batch * 30 + dice.choice([0, 1, 2, index, -dice.randrange(500)]) for index in range(count)]


def table(batch: int) -> pa.Table:
    times = times_of(batch)
    return pa.table([times, [batch] * len(times), list(range(len(times)))], schema=SCHEMA)


def append(stream: Stream, batch: int) -> None:
    """Append a batch, with its number as the producer's if that is odd."""
    if batch % 2:
        stream.append(table(batch), producer=PRODUCER, number=batch)
    else:
        stream.append(table(batch))


def look(stream: Stream) -> int:
    """Check a snapshot of what was flushed batch by batch; returns how many batches there are."""
    snapshot = stream.snapshot()
    found = stream.scan(as_of=snapshot, seq=True).read_all()
    times, batches, rows, numbers = (found.column(name).to_numpy() for name in ("ts", "batch", "row", "_seq"))
    order = np.lexsort((numbers, times))
    assert (order == np.arange(len(order))).all(), "not in order"
    deleted = snapshot.manifest.deleted_before
    last = int(batches.max(initial=-1))
    there = set(zip(batches.tolist(), rows.tolist(), times.tolist(), strict=True))
    assert len(there) == len(found), "a row is there twice"
    expected = {
        (batch, row, time)
        for batch in range(last + 1)
        for row, time in enumerate(times_of(batch))
        if deleted is None or time >= deleted
    }
    assert there == expected, (
        f"not a prefix of what was flushed: batches {sorted({each[0] for each in there ^ expected})} are not whole"
    )
    counted = stream.aggregate(None, None, ["count(*)", "max(batch)"], as_of=snapshot)
    assert counted == {"count(*)": len(found), "max(batch)": last if len(found) else None}
    return last + 1


def read(directory: str) -> None:
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def listen() -> None:
        for _ in sys.stdin:
            asked.put(True)
        asked.put(False)

    most = 0
    with Store.open(directory, read_only=True) as store:
        stream = store.stream(NAME)
        look(stream)
        say("ready")
        threading.Thread(target=listen, daemon=True).start()
        goes_on = True
        while goes_on:
            is_asked = not asked.empty()
            if is_asked:
                goes_on = asked.get()
            seen = look(stream)
            assert seen >= most, f"{most} batches were there, now {seen}"
            most = seen
            if is_asked:
                say(most)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def write(directory: str, first: int, seed: int) -> None:
    dice = random.Random(seed)
    with Store.open(directory) as store:
        stream = store.stream(NAME)
        batch = first
        while True:
            append(stream, batch)
            stream.flush()
            say(batch)
            batch += 1
            if dice.random() < 0.02:
                stream.delete_before(batch * 30 - 1500)
            if dice.random() < 0.04:
                stream.compact()


def main() -> None:
    kind, directory, *rest = sys.argv[1:]
    if kind == "read":
        read(directory)
    else:
        write(directory, *map(int, rest))


if __name__ == "__main__":
    main()
