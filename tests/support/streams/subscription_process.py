"""A process whose subscription appends what it finds to a stream, while it appends to those that are read.

``python subscription_process.py DIRECTORY SEED SLOW`` appends batches, which follow from their numbers, to two streams,
each from where it was, runs a subscription to both, one with windows and a merge of two readings of one of them, into
further ones, and ends when all of it has been read. What is slow is slower, by random pauses, so that it can be killed
anywhere. ``python subscription_process.py DIRECTORY`` alone runs the subscriptions, of streams that another process
writes, until it is killed.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any, Final

import pyarrow as pa

from tidelog.engine.online.merging.merging import Merging
from tidelog.engine.online.subscription import Subscription
from tidelog.engine.store import Store

NAMES: Final = ("a", "b")
INTO: Final = "c"
SCHEMA: Final = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.int64())])
WINDOWS: Final = (
    "SELECT window_start, window_end, x % 5 AS k, count(*) AS n, sum(x) AS total, max(ts) AS last FROM a "
    "GROUP BY x % 5, window(ts, 70, 20)"
)
WINDOWS_INTO: Final = "w"
MERGED_INTO: Final = "m"
QUERY: Final = "SELECT ts, x * 2 AS y FROM a WHERE x % 3 <> 0 UNION ALL SELECT ts, x FROM b"
LATENESS: Final = 20
BATCHES: Final = 60
PRODUCER: Final = "p"
OPTIONS: Final[dict[str, Any]] = {"leaf_rows": 16, "fanout": 3, "split": 400, "late_rows": 40, "journal_bytes": 6000}


def rows_of(name: str, batch: int) -> list[tuple[int, int]]:
    """Times and values of the rows of a batch of a stream; some are late, a few too late."""
    dice = random.Random(f"{name} {batch}")
    count = dice.choice([1, 3, 20, 60])
    return [(batch * 30 + index - dice.choice([0, 0, 5, 19, 45]), batch * 100 + index) for index in range(count)]


def append(store: Store, batch: int) -> None:
    """Append a batch to each stream, unless that was done."""
    for name in NAMES:
        times, values = zip(*rows_of(name, batch), strict=True)
        table = pa.table([times, values], schema=SCHEMA)
        store.stream(name).append(table, producer=PRODUCER, number=batch)


def expected() -> list[tuple[int, int]]:
    """What the subscription gives for all batches: rows in time, before the watermark, in the order of time."""
    kept: list[tuple[int, int, int, int]] = []
    newest = []
    for port, name in enumerate(NAMES):
        top: int | None = None
        number = 0
        for batch in range(BATCHES):
            for at, x in rows_of(name, batch):
                if top is None or at >= top - LATENESS:
                    top = at if top is None else max(top, at)
                    if port or x % 3:
                        kept.append((at, port, number, x if port else x * 2))
                number += 1
        assert top is not None
        newest.append(top - LATENESS)
    return [(at, y) for at, _, _, y in sorted(kept) if at < min(newest)]


def merged() -> list[tuple[int, int]]:
    """What the merge gives for all batches: rows in time for which nothing waits any more."""
    kept: list[tuple[int, int]] = []
    top = rows_of("a", 0)[0][0]
    for batch in range(BATCHES):
        for at, x in rows_of("a", batch):
            if at >= top - LATENESS:
                kept.append((at, x))
                top = max(top, at)
    return sorted(each for each in kept if each[0] < top - LATENESS)


def subscribe(store: Store, *, follow: bool = True) -> Subscription:
    return store.subscribe(QUERY, into=INTO, name="s", lateness=LATENESS, follow=follow)


def subscribe_windows(store: Store, into: str = WINDOWS_INTO, *, follow: bool = True) -> Subscription:
    return store.subscribe(WINDOWS, into=into, lateness=LATENESS, follow=follow)


def merge(store: Store, *, follow: bool = True) -> Merging:
    """Copies of which equal rows are counted: one that was read twice, or not at all, would be seen."""
    inputs = {"one": "a", "two": "a"}
    return store.merge_into(MERGED_INTO, inputs, algorithm="R2dup", delay=LATENESS, follow=follow)


def _run(directory: str, seed: int, slow: float) -> None:
    dice = random.Random(seed)
    with Store.open(directory) as store:
        subscription, windows, merging = subscribe(store), subscribe_windows(store), merge(store)
        for batch in range(min((store.stream(name).last_number(PRODUCER) or 0) for name in NAMES), BATCHES):
            append(store, batch)
            if dice.random() < 0.6:
                store.flush()
            time.sleep(dice.random() * slow)
        store.flush()
        while any(info.behind for info in store.subscriptions()):
            subscription.wait(0.01)
        subscription.close()
        windows.close()
        merging.close()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    else:
        with Store.open(sys.argv[1]) as opened:
            sys.stdout.write("running\n")
            sys.stdout.flush()
            subscribe_windows(opened)
            merge(opened)
            subscribe(opened).wait()
