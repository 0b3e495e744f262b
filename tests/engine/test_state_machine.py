"""Streams against plain lists: whatever is done in whatever order, all answers are those of the lists.

Events that were coarsened to aggregates are the only ones about which less can be told: then the answer is right or a
:class:`GrainError`, and the latter only where a coarse split stands in the way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.media.crash import RecordingMedium
from support.media.disk_states import Disk
from support.profiles import scaled
from support.streams.model import (
    AGGREGATES,
    CONDITIONS,
    NUMBER,
    TIME,
    USER_AGGREGATES,
    WIDER,
    WORD,
    Event,
    Model,
    Values,
    plain,
    rows_of,
    schema_of,
)
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import GrainError, InputError, NotFoundError
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.split.open_split import closed_tree
from tidelog.store.tail.numbers import RESERVED
from tidelog.store.upkeep.compaction import compact

ASIDE = "s.late"

values: st.SearchStrategy[Values] = st.tuples(
    st.one_of(st.integers(-40, 40), st.integers(-(10**4), 10**4)),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.25, math.nan]), st.integers(-8, 8).map(float)),
    st.one_of(st.none(), st.sampled_from(["", "a", "b", "longer text"])),
    st.one_of(st.none(), st.integers(-5, 5)),
)


@dataclass(frozen=True)
class Burst:
    """Many rows, by few numbers: hypothesis draws short lists, and short lists fill no leaves."""

    size: int
    start: int
    """Where they begin, from the newest row before them."""
    step: int
    """How far times are apart at most; less than 0: they are in no order, and this far from the start."""
    seed: int

    def rows(self, newest: int) -> list[Values]:
        dice, time = random.Random(self.seed), newest + self.start
        rows: list[Values] = []
        for _ in range(self.size):
            time += dice.randint(0, max(self.step, 0))
            at = time - dice.randint(0, max(-self.step, 0))
            number, words = dice.choice([None, -3, -1, 0, 2, 3]), dice.choice([None, "", "a", "b", "b2"])
            floats = dice.choice([None, 0.0, -1.5, 2.25, math.nan, float(dice.randint(-8, 8))])
            rows.append((at, number, floats, words, dice.choice([None, *range(-5, 6)])))
        return rows


bursts = st.builds(
    Burst,
    size=st.sampled_from([1, 3, 20, 60, 120]),
    start=st.sampled_from([0, 0, 1, 1, -5, -40, -150]),
    step=st.sampled_from([0, 1, 1, 3, -10, -100]),
    seed=st.integers(0, 99),
)
bounds = st.one_of(st.none(), st.integers(-60, 60), st.integers(-(10**4), 10**4), st.integers(0, 400))
gates = st.sampled_from([None] * 5 + [("reject", 30), ("aside", 30), ("aside", 0)])


class StreamMachine(RuleBasedStateMachine):
    """A stream and its model; with a second one beside it, if late rows are set aside."""

    @initialize(
        leaf=st.sampled_from([1, 4, 8]),
        fanout=st.sampled_from([2, 3]),
        split=st.sampled_from([None, None, 25, 5000]),
        split_bytes=st.sampled_from([1, 20_000, 1 << 30, 1 << 30]),
        late=st.sampled_from([1, 10, 10, 1 << 20]),
        merge=st.sampled_from(["dense", "plain", "plain", "never"]),
        journal=st.sampled_from([1, 4000, 1 << 23]),
        gate=gates,
        retention=st.sampled_from([None, None, 50]),
        coarse=st.sampled_from([None, None, 20]),
    )
    def start(
        self,
        leaf: int,
        fanout: int,
        split: int | None,
        split_bytes: int,
        late: int,
        merge: str,
        journal: int,
        gate: tuple[str, int] | None,
        retention: int | None,
        coarse: int | None,
    ) -> None:
        self.medium = RecordingMedium()
        self.store = Store(self.medium)
        self.model = Model()
        self.aside = Model()
        self.gate, self.retention = gate, retention
        options: dict[str, Any] = {"leaf_rows": leaf, "fanout": fanout, "split_bytes": split_bytes}
        options |= {"late_rows": late, "late_merge": merge, "journal_bytes": journal}
        durations = {"split": split, "retention": retention, "coarse_after": coarse}
        if gate is not None:
            durations["lateness"] = gate[1]
            options["too_late"] = gate[0]
        options |= {name: None if each is None else f"{each}ms" for name, each in durations.items()}
        self.store.create_stream("s", schema_of(self.model.columns), "ts", **options)
        self.stream = self.store.stream("s")
        self.numbers = count()
        self.names = count()
        self.jobs = count()
        self.sent: list[tuple[int, pa.Table]] = []
        self.pinned: list[tuple[Snapshot, list[Event]]] = []
        self.next_seq = 0
        self.block: tuple[int, int] | None = None
        self.is_tail_open = False
        self.newest: int | None = None
        """The latest time that the tail knows of, which decides what is too late."""

    # -- the model ------------------------------------------------------------------------------------------------

    def open_tail(self) -> None:
        """What happens to numbers when the tail is opened: a new block, if somebody else has committed since."""
        if self.is_tail_open:
            return
        if self.block is None or self.next_seq > self.block[1]:
            self.block = self.next_seq, self.next_seq + RESERVED
            self.next_seq = self.block[1]
        self.is_tail_open = True
        if self.gate is not None:
            # Which closed splits it goes by is its own business; it never knows more than there was.
            tail = writer_of(self.stream)._tail
            assert tail is not None
            before = self.newest
            self.newest = tail.newest
            assert self.newest is None or (before is not None and self.newest <= before)

    def add(self, rows: list[Values]) -> None:
        """Number rows as the tail does, which is open."""
        model = self.model
        assert self.block is not None
        own = [event.seq for event in model.events if self.block[0] <= event.seq < self.block[1]]
        first = max(own, default=self.block[0] - 1) + 1
        model.events += [model.event(row, first + index) for index, row in enumerate(rows)]

    def send(self, rows: list[Values], data: Any, **options: Any) -> None:
        """Append rows, each in order, to the stream, and to the model what passes its gate."""
        self.stream.append(self.model.table([]))  # opens the tail, as any append does
        self.open_tail()
        kept, late, newest = [], [], self.newest
        for row in rows:
            newest = row[0] if newest is None else max(newest, row[0])
            is_late = self.gate is not None and row[0] < newest - self.gate[1]
            (late if is_late else kept).append(row)
        if late and self.gate is not None and self.gate[0] == "reject":
            with pytest.raises(InputError, match="older than"):
                self.stream.append(data, **options)
            return
        self.stream.append(data, **options)
        self.newest = newest
        self.add(kept)
        self.aside.columns = self.model.columns
        self.aside.events += [self.aside.event(row, len(self.aside.events) + index) for index, row in enumerate(late)]

    # -- coarse events -------------------------------------------------------------------------------------------

    @property
    def coarse(self) -> list[SplitInfo]:
        return [each for each in writer_of(self.stream).manifests.load().splits.values() if each.kind == "coarse"]

    def coarse_in(self, start: int | None, end: int | None) -> list[SplitInfo]:
        """Coarse splits that reach into a range."""
        low = self.model.deleted if start is None or (self.model.deleted or start) > start else start
        if low is not None and end is not None and end <= low:
            return []
        return [
            each
            for each in self.coarse
            if (low is None or each.time_max >= low) and (end is None or each.time_min < end)
        ]

    def is_cut(self, *times: int | None) -> bool:
        """Whether a time is inside of a coarse split."""
        return any(each.time_min < time <= each.time_max for time in times if time is not None for each in self.coarse)

    @property
    def floor(self) -> int | None:
        """The time from which on every event is there; None if all are."""
        return max((each.time_max + 1 for each in self.coarse), default=None)

    @contextmanager
    def maybe_too_fine(self, is_possible: bool) -> Iterator[None]:
        """Let a :class:`GrainError` pass where one may be."""
        try:
            yield
        except GrainError:
            assert is_possible

    # -- writing --------------------------------------------------------------------------------------------------

    @rule(rows=st.lists(values, max_size=60))
    def append(self, rows: list[Values]) -> None:
        self.send(rows, self.model.table(rows))

    @rule(bursts=st.lists(bursts, min_size=1, max_size=3), flushes=st.booleans())
    def append_many(self, bursts: list[Burst], flushes: bool) -> None:
        self.send_all(bursts, flushes)

    def send_all(self, bursts: list[Burst], flushes: bool) -> None:
        for burst in bursts:
            rows = burst.rows(self.around)
            self.send(rows, self.model.table(rows))
            if flushes:
                self.stream.flush()
                self.acknowledged()

    @rule(seed=st.integers(0, 99), delay=st.sampled_from([20, 90, 300]))
    def append_late(self, seed: int, delay: int) -> None:
        """Rows that are sealed, and others that are older than many of them."""
        self.send_all([Burst(120, 1, 2, seed), Burst(40, 0, -delay, seed)], flushes=True)

    @property
    def around(self) -> int:
        """The latest time that rows came around."""
        return max((event.time for event in self.model.events if abs(event.time) < 2000), default=0)

    @rule(row=values)
    def append_one(self, row: Values) -> None:
        self.send([row], self.model.table([row]).to_pylist()[0])

    @rule(rows=st.lists(values, min_size=1, max_size=30))
    def append_with_a_number(self, rows: list[Values]) -> None:
        number = next(self.numbers)
        table = self.model.table(rows)
        before = len(self.model.events) + len(self.aside.events)
        self.send(rows, table, producer="p", number=number)
        if len(self.model.events) + len(self.aside.events) > before:  # else it was refused
            self.sent.append((number, table))
            assert self.stream.last_number("p") == number

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        number, table = data.draw(st.sampled_from(self.sent))
        if table.schema.names == schema_of(self.model.columns).names:
            self.stream.append(table, producer="p", number=number)
            self.open_tail()

    @rule(
        rows=st.lists(values, max_size=40),
        burst=bursts,
        memory=st.sampled_from([1, 5000, 1 << 20]),
        again=st.booleans(),
    )
    def load(self, rows: list[Values], burst: Burst, memory: int, again: bool) -> None:
        """Somebody else commits rows in any order of time; sends the same again, maybe."""
        self.commit([*rows, *burst.rows(self.around)], memory, None, again=again)

    @rule(rows=st.lists(values, max_size=20), back=st.one_of(st.none(), st.integers(0, 200)), length=st.integers(1, 90))
    def overwrite(self, rows: list[Values], back: int | None, length: int) -> None:
        start = None if back is None else self.around - back
        interval = Interval(start, None if start is None else start + length)
        model, visible = self.model, writer_of(self.stream).published().visible
        assert all(event.seq in visible for event in model.events[: model.flushed])
        overwritten = {e.seq for e in model.events if e.seq in visible and interval.contains(e.time)}
        with self.maybe_too_fine(self.is_cut(interval.start, interval.end)):
            self.commit(rows, 1 << 20, interval, again=False)
            model.overwritten |= overwritten

    def commit(self, rows: list[Values], memory: int, interval: Interval | None, *, again: bool) -> None:
        job, model = next(self.jobs), self.model
        for is_again in range(1 + again):
            with BulkWriter(writer_of(self.stream).context, memory=memory) as writer:
                for batch in model.table(rows).to_batches(max_chunksize=7):
                    writer.append(batch)
                infos = writer.finish()
            committed = commit_bulk(
                writer_of(self.stream).manifests, infos, transaction=("job", job), overwrite=interval, outside="append"
            )
            assert committed == (not is_again)
        # Numbers in a file follow the times; rows of equal time come in the order of their arrival.
        with Store(self.medium, read_only=True) as other:
            wanted = SeqSet([(self.next_seq, self.next_seq + len(rows))])
            found = other.stream("s").scan(columns=["_seq"], as_of=wanted).read_all()["_seq"].to_pylist()
        alive = [row for row in rows if model.deleted is None or row[0] >= model.deleted]
        loaded = [
            model.event(row, seq, is_loaded=True)
            for row, seq in zip(sorted(alive, key=lambda row: row[0]), found, strict=True)
        ]
        # Those flushed come first, see ``flushed``.
        model.events[model.flushed : model.flushed] = loaded
        model.flushed += len(loaded)
        self.next_seq += len(rows)

    @rule()
    def flush(self) -> None:
        self.stream.flush()
        self.acknowledged()

    def acknowledged(self) -> None:
        """Everything is durable."""
        for model in (self.model, self.aside):
            model.flushed = len(model.events)

    @rule(back=st.integers(-10, 250))
    def delete_before(self, back: int) -> None:
        model, time = self.model, self.around - back
        with self.maybe_too_fine(self.is_cut(time)):
            self.stream.delete_before(time)
            model.deleted = time if model.deleted is None else max(time, model.deleted)
            self.pinned.clear()
        self.acknowledged()

    @rule()
    def maintain(self) -> None:
        """Changes nothing that can be seen, but for what is beyond the retention, or coarsened to aggregates."""
        self.stream.maintain()
        self.look_at_deleted()
        number = writer_of(self.stream).manifests.load().number
        self.stream.maintain()
        assert self.stream.maintain().compacted.merges == 0
        settled = writer_of(self.stream).manifests.load().number
        self.stream.maintain()
        assert writer_of(self.stream).manifests.load().number == settled, f"commits without end, since {number}"

    def look_at_deleted(self) -> None:
        """Let the model follow retention, which must not be early."""
        model, bound = self.model, writer_of(self.stream).manifests.load().deleted_before
        if bound == model.deleted:
            return
        assert self.retention is not None
        assert bound is not None
        assert bound > (bound - 1 if model.deleted is None else model.deleted)
        assert bound <= max(event.time for event in model.living()) - self.retention
        model.deleted = bound
        self.pinned.clear()

    @rule(max_bytes=st.sampled_from([None, None, 50_000]))
    def compact(self, max_bytes: int | None) -> None:
        """Changes nothing that can be seen."""
        before = writer_of(self.stream).manifests.load().tail_block
        done = self.stream.compact(max_bytes)
        if writer_of(self.stream).manifests.load().tail_block != before:  # late rows that another writer has left
            self.open_for_a_change(False)
        assert max_bytes is None or done.bytes_read <= max_bytes
        if max_bytes is None:
            assert done.is_done
            assert self.stream.compact().merges == 0
            splits = [each for each in writer_of(self.stream).manifests.load().splits.values() if each.kind != "coarse"]
            splits.sort(key=lambda split: (split.time_min, split.time_max))
            if self.stream.options.split is None:
                assert all(before.time_max <= after.time_min for before, after in pairwise(splits))

    @rule(back=st.one_of(st.none(), st.integers(0, 120)), share=st.sampled_from([0.05, 0.5]))
    def reclaim(self, back: int | None, share: float) -> None:
        """Writes splits anew that are dead to some extent, merges none, and changes nothing that can be seen."""
        if back is not None:
            self.delete_before(back)
        stream, policy = (
            self.stream,
            MergePolicy(least=1 << 30, growth=8, share=math.inf, dead_share=share, dead_bytes=1),
        )
        before = writer_of(stream).manifests.load()
        done = compact(writer_of(stream).context, writer_of(stream).manifests, policy)
        manifest = writer_of(stream).manifests.load()
        assert done.is_done
        assert done.merges == len(before.splits.keys() - manifest.splits.keys())
        bound = manifest.deleted_before
        for split in () if bound is None else manifest.splits.values():
            if split.kind != "coarse":
                tree, reader = closed_tree(writer_of(stream).context, split)
                with closing(reader):
                    batches = list(tree.scan(None, None, [stream.schema.names[TIME]]))
                times = [time for batch in batches for time in batch.column(0).cast(pa.int64()).to_pylist()]
                assert sum(time < bound for time in times) < share * len(times) or times[-1] < bound

    @rule(back=st.sampled_from([-100_000, 1, 30, 100]), grain=st.sampled_from([None, "5ms", "1s"]))
    def coarsen(self, back: int, grain: str | None) -> None:
        """What can be told of old events becomes less; which splits are whole before a time is up to the stream."""
        before = self.around - back
        kept = [each for each in writer_of(self.stream).manifests.load().splits.values() if each.time_max >= before]
        self.stream.coarsen(before, grain)
        self.acknowledged()
        assert all(each.time_max < before or each in kept for each in self.coarse)

    @rule(name=st.sampled_from(list(USER_AGGREGATES)), mode=st.sampled_from(["next_split", "new_split", "rebuild"]))
    def attach_or_detach(self, name: str, mode: Any) -> None:
        kept = self.stream.options.user_aggregates
        if len(kept) == 2:
            self.stream.detach(kept[0])
            return
        self.stream.attach(self.model.text(name), mode)
        if mode != "next_split":
            self.open_for_a_change(self.is_tail_open)
            self.acknowledged()

    # -- changing the schema --------------------------------------------------------------------------------------

    def evolve(self, **changes: Any) -> None:
        was_open = self.is_tail_open
        self.stream.evolve(**changes)
        self.acknowledged()
        self.is_tail_open = False
        self.open_for_a_change(was_open)
        assert self.stream.schema.arrow == schema_of(self.model.columns)

    def open_for_a_change(self, was_open: bool) -> None:
        """The tail is opened for a change of the stream, and stays open only if it was before."""
        before = self.gate
        if not was_open:
            self.gate = None  # it is closed again
        self.open_tail()
        self.gate, self.is_tail_open = before, was_open

    @rule(data=st.data(), kind=st.sampled_from(["add", "widen", "rename", "swap"]))
    def change_columns(self, data: st.DataObject, kind: str) -> None:
        if kind in ("rename", "swap"):
            self.rename(data, kind == "swap")
        elif kind == "add" and len(self.model.columns) < 7:
            type = data.draw(st.sampled_from([pa.int16(), pa.float32(), pa.string()]))
            name = f"c{next(self.names)}"
            self.model.add_column(name, type)
            self.evolve(add={name: type})
        else:
            able = [identity for identity, column in self.model.columns.items() if column.type in WIDER]
            if able:
                identity = data.draw(st.sampled_from(able))
                name = self.model.columns[identity].name
                self.evolve(widen={name: self.model.widen(identity)})

    def rename(self, data: st.DataObject, is_swap: bool) -> None:
        names = [column.name for column in self.model.columns.values()]
        old = data.draw(st.sampled_from(names))
        if is_swap:
            other = data.draw(st.sampled_from([name for name in names if name != old]))
            moved = {old: other, other: old}
        else:
            moved = {old: f"r{next(self.names)}"}
        self.model.rename(moved)
        self.evolve(rename=moved)

    # -- ends and beginnings --------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.acknowledged()
        self.open_store()

    def open_store(self) -> None:
        self.is_tail_open = False
        self.store = Store(self.medium)
        self.stream = self.store.stream("s")

    @rule()
    def lose_power(self) -> None:
        """Nothing that was not synced survives."""
        self.flush()
        disk = Disk(self.medium.baseline)
        for operation in self.medium.log:
            disk.advance(operation)
        self.medium = RecordingMedium(disk.view().durable)
        self.open_store()
        self.pinned.clear()

    @rule(goes_on=st.booleans())
    def back_up(self, goes_on: bool) -> None:
        """A backup has everything; maybe it takes the place of the store."""
        copy = RecordingMedium()
        self.store._back_up(copy)
        self.acknowledged()
        with Store(copy, read_only=True) as other:
            self.compare(other.stream("s"), self.model.living())
        if goes_on:
            self.store.close()
            self.medium = copy
            self.open_store()
            self.pinned.clear()

    # -- reading --------------------------------------------------------------------------------------------------

    @rule()
    def pin(self) -> None:
        self.pinned.append((self.stream.snapshot(), self.model.living()))

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def look_at_pinned(self, data: st.DataObject) -> None:
        snapshot, events = data.draw(st.sampled_from(self.pinned))
        self.compare(self.stream, events, as_of=snapshot)

    @rule(start=bounds, end=bounds, where=st.sampled_from([None, *CONDITIONS]), data=st.data())
    def scan(self, start: int | None, end: int | None, where: str | None, data: st.DataObject) -> None:
        model = self.model
        known = [column.name for column in model.columns.values()]
        columns = data.draw(st.one_of(st.none(), st.lists(st.sampled_from([*known, "_seq"]), unique=True, min_size=1)))
        given = [0, 5, *(event.seq for event in model.events)]
        spans = st.tuples(st.sampled_from(given), st.sampled_from(given))
        as_of = data.draw(
            st.one_of(st.none(), st.sampled_from(given), st.lists(spans, max_size=3).map(SeqSet)), label="as_of"
        )
        numbers = SeqSet.below(as_of) if isinstance(as_of, int) else as_of
        in_the_way = self.coarse_in(start, end)
        names = columns or known
        with self.maybe_too_fine(bool(in_the_way)):
            text = None if where is None else model.text(where)
            found = rows_of(self.stream.scan(start, end, columns, text, as_of=as_of).read_all(), known[TIME])
            expected = [model.row(event) for event in model.matching(start, end, where, numbers)]
            assert found == [{name: row[name] for name in names} for row in expected]
            assert not in_the_way or numbers is not None, "coarse events were read"

    @rule(start=bounds, end=bounds, where=st.sampled_from([None, None, *CONDITIONS]))
    def aggregate(self, start: int | None, end: int | None, where: str | None) -> None:
        self.ask(AGGREGATES, start, end, where)

    @rule(start=bounds, end=bounds, names=st.lists(st.sampled_from(list(USER_AGGREGATES)), min_size=1, unique=True))
    def aggregate_by_users(self, start: int | None, end: int | None, names: list[str]) -> None:
        self.ask({name: USER_AGGREGATES[name] for name in names}, start, end, None)

    def ask(self, aggregates: Mapping[str, Any], start: int | None, end: int | None, where: str | None) -> None:
        in_the_way = self.coarse_in(start, end)
        asks_less = aggregates is AGGREGATES and where is None
        versions = len(writer_of(self.stream).manifests.load().schemas)
        is_possible = bool(in_the_way) and (
            not asks_less
            or self.is_cut(start, end)
            or any(each.schema != versions - 1 for each in in_the_way)  # their bounds of floats are not known
            or any(len(event.values[WORD] or "") > 8 for event in self.model.living())  # whose bounds are not whole
        )
        texts = {self.model.text(name): function for name, function in aggregates.items()}
        events = self.model.matching(start, end, where)
        with self.maybe_too_fine(is_possible):
            found = self.stream.aggregate(start, end, list(texts), None if where is None else self.model.text(where))
            for text, function in texts.items():
                expected = plain(function(events))
                wanted = pytest.approx(expected) if isinstance(expected, float) else expected
                assert plain(found[text]) == wanted, text

    @rule(time=st.integers(-60, 60), index=st.integers(-400, 400))
    def positions(self, time: int, index: int) -> None:
        model = self.model
        events = model.living()
        is_coarse = bool(self.coarse)
        with self.maybe_too_fine(is_coarse):
            assert self.stream.rank(time) == sum(event.time < time for event in events)
        with self.maybe_too_fine(is_coarse):
            if -len(events) <= index < len(events):
                found = self.stream.nth(index, [column.name for column in list(model.columns.values())[NUMBER:]])
                expected = model.row(events[index])
                assert {name: plain(value) for name, value in found.items()} == {name: expected[name] for name in found}
            else:
                with pytest.raises(NotFoundError):
                    self.stream.nth(index)

    @rule()
    def read_elsewhere(self) -> None:
        """Another reader sees everything flushed, and what was not is for it to see or not."""
        with Store(self.medium, read_only=True) as other:
            stream, model, floor = other.stream("s"), self.model, self.floor
            found = stream.scan(floor, columns=["_seq"]).read_all()["_seq"].to_pylist()
            living = [event for event in model.living() if floor is None or event.time >= floor]
            flushed = {event.seq for event in model.living(model.events[: model.flushed])}
            certain = {event.seq for event in living if event.seq in flushed}
            assert certain <= set(found)
            assert found == [event.seq for event in living if event.seq in set(found)]
            if floor is None:
                assert stream.aggregate(None, None, "count(*)") == {"count(*)": len(found)}

    @rule()
    def check(self) -> None:
        assert self.store.check() == []
        self.acknowledged()

    @invariant()
    def everything_is_there(self) -> None:
        self.compare(self.stream, self.model.living())
        if self.aside.events:
            found = self.store.stream(ASIDE).scan(columns=["_seq"]).read_all()["_seq"].to_pylist()
            assert found == [event.seq for event in self.aside.living()]

    def compare(self, stream: Stream, events: list[Event], as_of: Snapshot | None = None) -> None:
        snapshot = stream.snapshot() if as_of is None else as_of
        coarse = [each.time_max for each in snapshot.manifest.splits.values() if each.kind == "coarse"]
        start = max(coarse) + 1 if coarse else None
        there = [event for event in events if start is None or event.time >= start]
        names = snapshot.layout.schema.names
        found = stream.scan(start, columns=[names[TIME], names[NUMBER]], as_of=snapshot, seq=True).read_all()
        assert found.column(0).cast(pa.int64()).to_pylist() == [event.time for event in there]
        assert found.column(1).to_pylist() == [event.values[NUMBER] for event in there]
        assert found.column(2).to_pylist() == [event.seq for event in there]
        texts = ["count(*)", f"sum({names[NUMBER]})"]
        counted = stream.aggregate(None, None, texts, as_of=snapshot)
        assert counted["count(*)"] == len(events)
        assert (counted[texts[1]] or 0) == sum(event.values[NUMBER] or 0 for event in events)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


TestStreams = StreamMachine.TestCase
TestStreams.settings = settings(max_examples=scaled(24), stateful_step_count=25)
