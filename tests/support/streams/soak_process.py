"""Processes that write, keep in order and read two streams for as long as they are let.

``python soak_process.py write DIRECTORY FIRST SEED`` sends batches from number ``FIRST`` on until it is killed, does
other things in between, and prints after each batch its number and the private memory of the process in bytes.
``python soak_process.py read DIRECTORY`` looks at the stream until its standard input ends, and prints how many times
it looked, what it saw last (:data:`Seen`), and its memory.

The first stream is deleted from and changes its schema; others load some of its rows beside the tail. The second one
gets all batches by its tail, sets aside what is too late, and keeps of old events aggregates, then nothing.

What a batch holds follows from its number, so any state of the streams can be judged (:func:`look`). All batches can be
sent again without harm. To have the campaign do more, add to :data:`BATCHES` what comes in, to :data:`UPKEEP` what is
done besides; the latter must not change which rows there are, except by deleting old ones.
"""

from __future__ import annotations

import random
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model import to_batches
from tidelog.model.errors import NotFoundError
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.snapshot import Snapshot

T = TypeVar("T")

NAME = "s"
GATED = "gated"
ASIDE = f"{GATED}.late"
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
LATENESS = 400
"""What is later than this is set aside."""
GATED_OPTIONS: dict[str, Any] = {
    **OPTIONS,
    "lateness": LATENESS,
    "too_late": "aside",
    "retention": KEPT,
    "coarse_after": KEPT // 2,
    "coarse_grain": 200,
}
_ADDED = 4
"""Columns that are added to the first stream, one after the other, and widened until they are as wide as can be."""
_WIDER = {pa.int16(): pa.int32(), pa.int32(): pa.int64()}


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
        self.gated = self.store.stream(GATED)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def send(self) -> None:
        """Send a batch, durably; it may have been sent before."""
        kind = kind_of(self.batch)
        if kind.is_loaded:
            with BulkWriter(writer_of(self.stream).context) as writer:
                for rows in to_batches(table(self.batch), self.stream.schema):
                    writer.append(rows)
                infos = writer.finish()
            commit_bulk(writer_of(self.stream).manifests, infos, transaction=("loader", self.batch))
        else:
            self.stream.append(table(self.batch), producer="feed", number=self.batch)
            self.stream.flush()
        self.gated.append(table(self.batch), producer="feed", number=self.batch)
        self.gated.flush()
        self.batch += 1

    def delete_old(self) -> None:
        self.stream.delete_before(max(0, self.batch * STEP - KEPT))

    def query(self) -> None:
        """Read what this process alone can see."""
        look(self.store)

    def compact(self, max_bytes: int | None = None) -> None:
        for stream in (self.stream, self.gated):
            stream.compact(max_bytes)

    def coarsen(self) -> None:
        self.gated.coarsen(max(0, self.batch * STEP - KEPT // 4), self.dice.choice([None, 100, 1000]))

    def evolve(self) -> None:
        """Add a column, or widen one, as long as there is something to add or widen."""
        added = [name for name in self.stream.schema.names if name not in SCHEMA.names]
        if len(added) < _ADDED:
            self.stream.evolve(add={f"added{len(added)}": pa.int16()})
        for name in added:
            wider = _WIDER.get(self.stream.schema.arrow.field(name).type)
            if wider is not None:
                self.stream.evolve(widen={name: wider})
                return

    def attach(self) -> None:
        """Keep states of an aggregate, or keep them no longer."""
        if self.stream.options.user_aggregates:
            self.stream.detach("last(batch)")
        else:
            self.stream.attach("last(batch)", self.dice.choice(["next_split", "new_split", "rebuild"]))

    def back_up(self) -> None:
        """Back up the store, look at the copy, and remove it."""
        copy = Path(self.directory).with_name("backup")
        shutil.rmtree(copy, ignore_errors=True)  # of one that was killed
        self.store.backup(copy)
        with Store.open(copy, read_only=True) as store:
            assert has_all(look(store), self.batch - 1), "the backup lacks something"
        shutil.rmtree(copy)

    def run(self) -> None:
        while True:
            self.send()
            for each in UPKEEP:
                if self.dice.random() < each.chance:
                    each.run(self)
            say(f"{self.batch - 1} {private_memory()}")


UPKEEP = (
    Upkeep("delete", 0.03, Writer.delete_old),
    Upkeep("compact", 0.03, Writer.compact),
    Upkeep("compact a little", 0.05, lambda writer: writer.compact(300_000)),
    Upkeep("maintain", 0.05, lambda writer: writer.store.maintain() and None),
    Upkeep("coarsen", 0.01, Writer.coarsen),
    Upkeep("evolve", 0.005, Writer.evolve),
    Upkeep("attach or detach", 0.005, Writer.attach),
    Upkeep("back up", 0.002, Writer.back_up),
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


Seen = tuple[int, ...]
"""The numbers behind the last batch that came by the tail, behind the last one that was loaded beside it, behind the
last of the gated stream, and behind the last one of which something was set aside."""


def newest_before(batch: int) -> int:
    """The latest time of all batches before one. Among so many there is always one in order, later than all others."""
    return max((time for each in range(max(0, batch - 100), batch) for time in times_of(each)), default=-SPREAD)


@lru_cache(1 << 13)
def rows_of(batch: int) -> tuple[tuple[int, int, bool], ...]:
    """The rows of a batch: number, time, and whether the gated stream sets it aside."""
    newest, found = newest_before(batch), []
    for row, time in enumerate(times_of(batch)):
        newest = max(newest, time)
        found.append((row, time, time < newest - LATENESS))
    return tuple(found)


def all_of(batch: int) -> Seen:
    """What is there when a batch, and all before it, are."""
    lasts = [-1] * 4
    for each in range(max(0, batch - 200), batch + 1):
        lasts[kind_of(each).is_loaded] = each
        for _, _, is_aside in rows_of(each):
            lasts[2 + is_aside] = each
    return tuple(last + 1 for last in lasts)


def has_all(seen: Sequence[int], batch: int) -> bool:
    """Whether everything up to a batch was seen."""
    return all(there >= wanted for there, wanted in zip(seen, all_of(batch), strict=True))


def look(store: Store) -> Seen:
    """Fail unless the streams have exactly the first batches, but for rows that are deleted; tells which."""
    aside = in_time(lambda: look_at_coarse(store.stream(ASIDE), True)) if ASIDE in store else 0
    rows = in_time(lambda: look_at_rows(store.stream(NAME)))
    return (*rows, in_time(lambda: look_at_coarse(store.stream(GATED), False)), aside)


def in_time(look: Callable[[], T]) -> T:
    """What a look sees. One that takes longer than files stay that have left, on a busy machine, is made again."""
    while True:
        began = monotonic()
        try:
            return look()
        except NotFoundError:
            if monotonic() - began < OPTIONS["grace"]:
                raise


def look_at_rows(stream: Stream) -> tuple[int, int]:
    """Fail unless a stream has exactly the first batches, whichever way each of them came, but for deleted rows."""
    snapshot = stream.snapshot()
    found = stream.scan(as_of=snapshot, seq=True).read_all()
    times, batches, rows, numbers = (found.column(name).to_numpy() for name in ("ts", "batch", "row", "_seq"))
    assert (np.lexsort((numbers, times)) == np.arange(len(times))).all(), "not in order"
    assert len(np.unique(numbers)) == len(numbers), "a number is there twice"
    deleted = deleted_before(snapshot)
    ends = [0, 0]
    for batch in np.unique(batches).tolist():
        ends[kind_of(batch).is_loaded] = batch + 1
    there = sorted(zip(batches.tolist(), rows.tolist(), times.tolist(), strict=True))
    expected = [
        (batch, row, time)
        for batch in range(oldest(deleted), max(ends))
        for row, time in enumerate(times_of(batch))
        if time >= deleted
    ]
    assert there == expected, f"not the first batches up to {ends}: {sorted(set(there) ^ set(expected))[:5]}"
    counted = stream.aggregate(
        None, None, ["count(*)", "max(batch)", "sum(row)", "last(batch)", "count(text)"], as_of=snapshot
    )
    total, end, last = (int(rows.sum()), max(ends) - 1, int(batches[-1])) if len(rows) else (None, None, None)
    texts = len(rows) - found.column("text").null_count
    assert list(counted.values()) == [len(rows), end, total, last, texts], f"{counted} of {len(rows)} rows"
    return ends[0], ends[1]


def look_at_coarse(stream: Stream, is_aside: bool) -> int:
    """Fail unless a stream with aggregates of old events accounts for its share of the first batches; tells how many.

    Of what is not coarsened every row is looked at.
    """
    snapshot = stream.snapshot()
    counted = stream.aggregate(None, None, ["count(*)", "sum(row)", "min(ts)", "max(batch)"], as_of=snapshot)
    if not counted["count(*)"]:
        return 0
    end, deleted = counted["max(batch)"] + 1, deleted_before(snapshot)
    expected = [
        (batch, row, time)
        for batch in range(oldest(deleted), end)
        for row, time, is_late in rows_of(batch)
        if is_late == is_aside and time >= deleted
    ]
    share = len(expected), sum(row for _, row, _ in expected), min(time for _, _, time in expected), end - 1
    assert tuple(counted.values()) == share, f"{counted} instead of {share} in {stream.name}"
    coarse = [split.time_max for split in snapshot.manifest.splits.values() if split.kind == "coarse"]
    start = max(coarse, default=-SPREAD) + 1
    found = stream.scan(start, columns=["batch", "row", "ts"], as_of=snapshot).read_all()
    there = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert there == [row for row in expected if row[2] >= start], f"not the events of {stream.name} from {start} on"
    return end


def deleted_before(snapshot: Snapshot) -> int:
    bound = snapshot.manifest.deleted_before
    return -SPREAD if bound is None else bound


def oldest(deleted: int) -> int:
    """A batch before which all rows are deleted."""
    return max(0, (deleted - SPREAD - STEP) // STEP)


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

    looks, most = 0, (0,) * 4
    with Store.open(directory, read_only=True) as store:
        say("ready")
        threading.Thread(target=wait, daemon=True).start()
        while True:
            is_last = is_over.is_set()
            seen = look(store)
            assert all(now >= before for now, before in zip(seen, most, strict=True)), f"{most} was there, now {seen}"
            most = seen
            looks += 1
            if is_last:
                break
    say(" ".join(map(str, (looks, *most, private_memory()))))


def main() -> None:
    kind, directory, *rest = sys.argv[1:]
    if kind == "read":
        read(directory)
    else:
        Writer(directory, *map(int, rest)).run()


if __name__ == "__main__":
    main()
