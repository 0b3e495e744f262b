"""Processes that write, keep in order and read one stream for as long as they are let.

``python soak_process.py write DIRECTORY FIRST SEED`` sends batches from number ``FIRST`` on until it is killed, does
other things in between, and prints after each batch its number and the private memory of the process in bytes.
``python soak_process.py read DIRECTORY`` looks at the stream until its standard input ends, and prints how many times
it looked, what it saw last (:data:`Seen`), and its memory.

What a batch holds follows from its number, so any state of the stream can be judged (:func:`look`). All batches can be
sent again without harm. To have the campaign do more, add to :data:`BATCHES` what comes in, to :data:`UPKEEP` what is
done besides; the latter must not change which rows there are, except by ``delete_before``.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.store.bulk import BulkWriter, commit_bulk

NAME = "s"
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        ("batch", pa.int64()),
        ("row", pa.int64()),
        ("text", pa.string()),
    ]
)
OPTIONS: dict[str, Any] = {
    "leaf_rows": 64,
    "fanout": 4,
    "split": 3000,
    "split_bytes": 200_000,
    "late_rows": 150,
    "journal_bytes": 20_000,
    "grace": 15.0,
}
STEP = 30
"""By how much time moves on from batch to batch."""
SPREAD = 700
"""No row is further than this from the time of its batch."""
KEPT = 12_000
"""How much of the past is kept: what is older is deleted now and then."""


@dataclass(frozen=True)
class Batch:
    """A way in which rows come in."""

    name: str
    weight: float
    times: Callable[[random.Random, int], list[int]]
    """The times of the rows of a batch at a time."""
    is_loaded: bool = False
    """Whether somebody else commits it beside the tail."""


BATCHES = (
    Batch("in order", 6, lambda dice, now: sorted(now + dice.randrange(STEP) for _ in range(dice.choice([1, 20, 90])))),
    Batch("late", 3, lambda dice, now: [now - dice.randrange(SPREAD) for _ in range(dice.choice([1, 8, 60]))]),
    Batch("loaded", 2, lambda dice, now: [now - dice.randrange(SPREAD) for _ in range(dice.choice([1, 30]))], True),
    Batch("far late", 0.5, lambda dice, now: [now - SPREAD] * dice.choice([1, 40])),
)


@dataclass(frozen=True)
class Upkeep:
    """Something done between batches."""

    name: str
    chance: float
    run: Callable[[Writer], None]


class Writer:
    """Sends batches to a stream."""

    def __init__(self, directory: str, first: int, seed: int) -> None:
        self.directory = directory
        self.dice = random.Random(seed)
        self.batch = first
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.directory)
        self.stream = self.store.stream(NAME)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def send(self) -> None:
        """Send a batch, durably; it may have been sent before."""
        kind = kind_of(self.batch)
        if kind.is_loaded:
            with BulkWriter(self.stream.site) as writer:
                for rows in table(self.batch).to_batches():
                    writer.append(rows)
                infos = writer.finish()
            commit_bulk(self.stream.manifests, infos, transaction=("loader", self.batch))
        else:
            self.stream.append(table(self.batch), producer="feed", number=self.batch)
            self.stream.flush()
        self.batch += 1

    def delete_old(self) -> None:
        self.stream.delete_before(max(0, self.batch * STEP - KEPT))

    def query(self) -> None:
        """Read what this process alone can see."""
        look(self.stream)

    def run(self) -> None:
        while True:
            self.send()
            for each in UPKEEP:
                if self.dice.random() < each.chance:
                    each.run(self)
            say(f"{self.batch - 1} {private_memory()}")


UPKEEP = (
    Upkeep("delete", 0.03, Writer.delete_old),
    Upkeep("compact", 0.03, lambda writer: writer.stream.compact() and None),
    Upkeep("compact a little", 0.05, lambda writer: writer.stream.compact(300_000) and None),
    Upkeep("maintain", 0.05, lambda writer: writer.stream.maintain() and None),
    Upkeep("reopen", 0.01, Writer.reopen),
    Upkeep("query", 0.01, Writer.query),
)


def kind_of(batch: int) -> Batch:
    return random.Random(batch).choices(BATCHES, [each.weight for each in BATCHES])[0]


def times_of(batch: int) -> list[int]:
    return kind_of(batch).times(random.Random(-batch - 1), batch * STEP)


def table(batch: int) -> pa.Table:
    times = times_of(batch)
    rows = list(range(len(times)))
    texts = [None if row % 7 == 0 else f"row {row} of batch {batch}" for row in rows]
    return pa.table([times, [batch] * len(times), rows, texts], schema=SCHEMA)


Seen = tuple[int, int]
"""The numbers behind the last batch that came by the tail, and behind the last one that was loaded beside it."""


def all_of(batch: int) -> Seen:
    """What is there when a batch, and all before it, are."""
    lasts = [-1, -1]
    for each in range(max(0, batch - 200), batch + 1):
        lasts[kind_of(each).is_loaded] = each
    return lasts[0] + 1, lasts[1] + 1


def look(stream: Stream) -> Seen:
    """Fail unless a stream has exactly the first batches, whichever way each of them came, but for deleted rows."""
    snapshot = stream.snapshot()
    found = stream.scan(as_of=snapshot, seq=True).read_all()
    times, batches, rows, numbers = (found.column(name).to_numpy() for name in ("ts", "batch", "row", "_seq"))
    assert (np.lexsort((numbers, times)) == np.arange(len(times))).all(), "not in order"
    assert len(np.unique(numbers)) == len(numbers), "a number is there twice"
    bound = snapshot.manifest.deleted_before
    deleted = -SPREAD if bound is None else bound
    ends = [0, 0]
    for batch in np.unique(batches).tolist():
        ends[kind_of(batch).is_loaded] = batch + 1
    there = sorted(zip(batches.tolist(), rows.tolist(), times.tolist(), strict=True))
    oldest = max(0, (deleted - SPREAD - STEP) // STEP)
    expected = [
        (batch, row, time)
        for batch in range(oldest, max(ends))
        for row, time in enumerate(times_of(batch))
        if time >= deleted
    ]
    assert there == expected, f"not the first batches up to {ends}: {sorted(set(there) ^ set(expected))[:5]}"
    counted = stream.aggregate(None, None, ["count(*)", "max(batch)", "sum(row)"], as_of=snapshot)
    total, last = (int(rows.sum()), max(ends) - 1) if len(rows) else (None, None)
    assert counted == {"count(*)": len(rows), "max(batch)": last, "sum(row)": total}
    return ends[0], ends[1]


def private_memory() -> int:
    """Bytes of memory that are this process's alone, without mapped files; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def read(directory: str) -> None:
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        is_over.set()

    looks, most = 0, (0, 0)
    with Store.open(directory, read_only=True) as store:
        stream = store.stream(NAME)
        say("ready")
        threading.Thread(target=wait, daemon=True).start()
        while True:
            is_last = is_over.is_set()
            seen = look(stream)
            assert all(now >= before for now, before in zip(seen, most, strict=True)), f"{most} was there, now {seen}"
            most = seen
            looks += 1
            if is_last:
                break
    say(f"{looks} {most[0]} {most[1]} {private_memory()}")


def main() -> None:
    kind, directory, *rest = sys.argv[1:]
    if kind == "read":
        read(directory)
    else:
        Writer(directory, *map(int, rest)).run()


if __name__ == "__main__":
    main()
