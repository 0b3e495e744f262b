"""The writer of a tail: what it does with splits, late rows, journals, numbers of producers, and failures."""

from __future__ import annotations

import errno
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any

import pytest

from support.media.crash import RecordingMedium, durable
from support.streams.history import NAME, SCHEMA, SMALL, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import ClosedError, InputError, LockedError, NotStoredError, StorageError
from tidelog.store.tail import rows as tail_rows
from tidelog.store.tail.late import merging


def created(**options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium)
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **{**SMALL, **options})


def ids(medium: RecordingMedium) -> list[int]:
    with Store(medium, read_only=True) as store:
        return [row.id for row in rows_of(store.stream(NAME))]


def numbered(first: int, last: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, last)]


def append_and_flush(stream: Stream, rows: list[tuple[int, int]]) -> None:
    stream.append(table(rows))
    stream.flush()


class TestSplits:
    def test_rows_go_to_the_splits_of_their_times(self) -> None:
        medium, store, stream = created(split=100)
        stream.append(table(numbered(-150, 250)))
        stream.flush()
        found = [(int(split["first"]), int(split["last"])) for split in stream.stats()["splits"]]
        assert found == [(-150, -101), (-100, -1), (0, 99), (100, 199)]
        assert ids(medium) == list(range(-150, 250))
        store.close()

    def test_late_rows_become_a_split_of_their_own(self) -> None:
        medium, store, stream = created(late_rows=10, late_merge="never")
        stream.append(table(numbered(0, 190)))
        stream.flush()
        stream.append(table([(time, 1000 + time) for time in range(12)]))
        stream.flush()
        assert [split["kind"] for split in stream.stats()["splits"]] == ["late"]
        assert stream.stats()["splits"][0]["rows"] == 12
        assert len(ids(medium)) == 202
        store.close()
        assert len(ids(medium)) == 202

    def test_an_append_of_very_many_splits(self) -> None:
        medium, store, stream = created(split=2)
        stream.append(table(numbered(0, 400)), producer="p", number=0)
        stream.flush()
        assert ids(medium) == list(range(400))
        stream.append(table(numbered(400, 800)))
        assert len(stream) == 800
        store.close()
        assert ids(medium) == list(range(800))

    def test_a_new_journal_has_rows_that_are_about_to_be_sealed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are few, but long: sealed while the journal is replaced they would be durable nowhere."""
        monkeypatch.setattr(tail_rows, "_GATHERED_BYTES", 64)
        medium, store, stream = created(split=None, leaf_rows=64, journal_bytes=1)
        for first in range(0, 30, 10):
            append_and_flush(stream, numbered(first, first + 10))
            assert ids(durable(medium)) == list(range(first + 10))
        store.close()

    def test_rows_at_the_end_of_the_range_of_times(self) -> None:
        medium, store, stream = created(split=100)
        low, high = -(1 << 63), (1 << 63) - 1
        rows = [(time, index) for index, time in enumerate([low, high, high - 1, 0] * 9)]
        stream.append(table(rows))
        stream.flush()
        expected = [id for _, id in sorted(rows)]
        assert ids(medium) == [row.id for row in rows_of(stream)] == expected
        assert stream.nth(-1)["ts"] == high
        assert stream.nth(0)["ts"] == low
        assert stream.rank(high) == 27
        assert stream.scan(as_of=1 << 70).read_all().num_rows == 36
        assert store.check() == []

    def test_a_split_whose_events_were_deleted_is_forgotten_by_the_journal(self) -> None:
        medium, store, stream = created(split=None, split_bytes=1000)
        stream.append(table(numbered(0, 80)))
        stream.flush()
        stream.delete_before(1000)
        store.close()
        with Store(medium) as store:
            store.stream(NAME).append(table([(2000, 1)]))
            store.flush()
            assert store.check() == []
        assert ids(medium) == [1]

    def test_a_split_whose_file_has_gone_does_not_take_the_journal_along(self) -> None:
        medium, store, stream = created(split=100, journal_bytes=1 << 20, grace=0)
        for first, last in ((0, 90), (90, 195), (195, 196)):
            stream.append(table(numbered(first, last)))
            stream.flush()
        stream.delete_before(100)
        assert any(name.endswith(".tide") for name in store.sweep())
        stream.append(table(numbered(196, 197)))
        stream.flush()
        assert ids(medium) == list(range(100, 197))
        store.close()
        assert ids(medium) == list(range(100, 197))
        with Store(medium) as store:
            store.stream(NAME).append(table(numbered(197, 198)))
            store.flush()
        assert ids(medium) == list(range(100, 198))


def files(medium: RecordingMedium) -> int:
    return sum(name.endswith(".tide") for name in medium.names())


class TestLateRows:
    def test_late_rows_are_merged_into_the_open_split(self) -> None:
        medium, store, stream = created(late_rows=10, split=None)
        append_and_flush(stream, [(2 * time, time) for time in range(190)])
        append_and_flush(stream, [(2 * time + 1, 1000 + time) for time in range(12)])
        assert files(medium) == 1
        assert stream.aggregate(0, 24, ["count(*)", "max(id)"]) == {"count(*)": 24, "max(id)": 1011}
        everything = [
            id for _, id in sorted([(2 * t, t) for t in range(190)] + [(2 * t + 1, 1000 + t) for t in range(12)])
        ]
        assert ids(medium) == [row.id for row in rows_of(stream)] == everything
        assert store.check() == []
        store.close()
        with Store(medium) as store:
            append_and_flush(store.stream(NAME), [(1, 5000)])
            assert len(rows_of(store.stream(NAME))) == 203
            assert store.check() == []

    def test_the_densest_leaves_are_first_and_the_rest_waits(self) -> None:
        medium, store, stream = created(late_rows=100, split=None, leaf_rows=64, journal_bytes=1 << 20)
        append_and_flush(stream, [(10 * time, time) for time in range(64 * 20)])
        sparse = [(640 * leaf + 5, 2000 + leaf) for leaf in range(19)]
        dense = [(640 * 7 + index, 3000 + index) for index in range(90)]
        append_and_flush(stream, dense + sparse)
        assert files(medium) == 1
        found = stream.stats()["late"]
        assert (found["merged"], found["queued"], found["spilled"]) == (91, 18, 0)
        assert len(ids(medium)) == 64 * 20 + 109
        assert store.check() == []

    def test_many_rows_that_are_durable_nowhere_are_merged_by_a_flush(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bytes_of_40 = table([(640 * 3 + index, 2000 + index) for index in range(40)]).nbytes + 8 * 40
        monkeypatch.setattr(merging, "_MUCH_UNSAVED", bytes_of_40)
        medium, store, stream = created(late_rows=1000, split=None, leaf_rows=64, journal_bytes=1 << 20)
        append_and_flush(stream, [(10 * time, time) for time in range(64 * 20)])
        for first, queued, merged in ((0, 30, 0), (30, 60, 0), (60, 0, 110)):
            some = range(first, 110 if first == 60 else first + 30)
            stream.append(table([(640 * 3 + 5 * index + 1, 2000 + index) for index in some]))
            assert len(stream) == 64 * 20 + some.stop  # small appends wait to be looked at
            stream.flush()
            found = stream.stats()["late"]
            assert (found["queued"], found["merged"]) == (queued, merged)
            assert len(ids(durable(medium))) == 64 * 20 + some.stop
        assert store.check() == []

    def test_rows_spread_too_thinly_become_a_split_of_their_own(self) -> None:
        _, store, stream = created(late_rows=10, split=None, leaf_rows=64)
        append_and_flush(stream, [(10 * time, time) for time in range(64 * 20)])
        append_and_flush(stream, [(640 * leaf + 5, 2000 + leaf) for leaf in range(12)])
        assert len(stream) == 64 * 20 + 12  # small appends wait to be looked at
        append_and_flush(stream, [(20_000, 9000)])
        assert [split["kind"] for split in stream.stats()["splits"]] == ["late"]
        assert stream.stats()["late"]["spilled"] == 12
        assert store.check() == []

    def test_plain_merging_leaves_nothing(self) -> None:
        medium, store, stream = created(late_rows=10, split=None, leaf_rows=64, late_merge="plain")
        append_and_flush(stream, [(10 * time, time) for time in range(64 * 20)])
        append_and_flush(stream, [(640 * leaf + 5, 2000 + leaf) for leaf in range(12)])
        assert len(stream) == 64 * 20 + 12  # small appends wait to be looked at
        append_and_flush(stream, [(20_000, 9000)])
        assert files(medium) == 1
        assert stream.stats()["late"]["merged"] == 12
        assert len(ids(medium)) == 64 * 20 + 13
        assert store.check() == []

    def test_rows_for_closed_splits_become_a_split_of_their_own(self) -> None:
        medium, store, stream = created(late_rows=10, split=100)
        append_and_flush(stream, numbered(0, 390))
        append_and_flush(stream, [(time, 1000 + time) for time in (*range(5), *range(310, 320))])
        kinds = [split["kind"] for split in stream.stats()["splits"]]
        assert kinds.count("late") == 0  # those of the open split are merged, and few enough are left
        append_and_flush(stream, [(time, 2000 + time) for time in range(10)])
        kinds = [split["kind"] for split in stream.stats()["splits"]]
        assert kinds.count("late") == 1
        assert len(ids(medium)) == 390 + 25
        assert store.check() == []

    def test_a_leaf_that_is_full_takes_no_more(self) -> None:
        medium, store, stream = created(late_rows=10, split=None)
        append_and_flush(stream, [(10 * time, time) for time in range(80)])
        for round in range(8):
            append_and_flush(stream, [(5, 1000 + 10 * round + index) for index in range(10)])
        kinds = [split["kind"] for split in stream.stats()["splits"]]
        assert set(kinds) == {"late"}
        assert len(ids(medium)) == 160
        assert store.check() == []

    def test_far_too_many_late_rows_are_merged_at_once(self) -> None:
        medium, store, stream = created(late_rows=10, split=None)
        append_and_flush(stream, [(10 * time, time) for time in range(3000)])
        rows = [(10 * time + 5, 5000 + time) for time in range(2900)]
        append_and_flush(stream, rows)
        assert files(medium) == 1
        assert stream.stats()["late"]["queued"] <= 20
        assert len(ids(medium)) == 5900
        assert store.check() == []


class TestReadingWhileWriting:
    def test_a_scan_outlives_splits_and_streams(self) -> None:
        _, store, stream = created(leaf_rows=8, split=100_000)
        stream.append(table(numbered(0, 20_000)))
        reader = stream.scan()
        first = reader.read_next_batch().num_rows
        stream.append(table(numbered(100_000, 100_100)))
        stream.flush()
        second = reader.read_next_batch().num_rows
        store.close()
        assert first + second + reader.read_all().num_rows == 20_000

    def test_what_is_not_flushed_is_seen_here_and_nowhere_else(self) -> None:
        medium, store, stream = created(split=50, late_rows=3)
        stream.append(table(numbered(0, 200)))
        stream.append(table([(time, 300 + time) for time in range(9)]))
        assert len(stream) == 209
        assert ids(medium) == []
        stream.flush()
        assert len(ids(medium)) == 209
        stream.append(table(numbered(200, 400)))
        assert len(stream) == 409
        assert len(ids(medium)) == 209
        stream.flush()
        assert len(ids(medium)) == 409
        store.close()

    def test_an_append_with_very_many_late_rows_is_seen_whole(self) -> None:
        medium, store, stream = created(late_rows=3)
        stream.append(table(numbered(1000, 1100)))
        stream.flush()
        seen: set[int] = set()
        medium.before = lambda kind, name: seen.add(len(ids(medium))) if kind == "sync" else None
        stream.append(table([(time % 1000, time) for time in range(3000)]))
        stream.flush()
        medium.before = None
        assert seen <= {100, 3100}
        assert len(ids(medium)) == 3100
        store.close()


class TestNumbers:
    def test_a_producer_goes_on_where_it_was(self) -> None:
        medium, store, stream = created()
        assert stream.last_number("p") is None
        stream.append(table(numbered(0, 5)), producer="p", number=3)
        stream.append(table(numbered(0, 5)), producer="p", number=3)
        stream.append(table(numbered(5, 9)), producer="q", number=0)
        assert (stream.last_number("p"), stream.last_number("q"), stream.last_number("r")) == (3, 0, None)
        store.close()
        with Store(medium) as store:
            stream = store.stream(NAME)
            assert (stream.last_number("p"), stream.last_number("q"), stream.last_number("r")) == (3, 0, None)
            stream.append(table(numbered(0, 5)), producer="p", number=2)
            stream.append(table(numbered(9, 12)), producer="p", number=4)
        assert ids(medium) == list(range(12))

    def test_numbers_that_cannot_be_are_refused(self) -> None:
        _, _, stream = created()
        with pytest.raises(InputError, match="numbers start at 0"):
            stream.append(table([(1, 1)]), producer="p", number=-1)
        for values in ({"producer": "p"}, {"number": 1}):
            with pytest.raises(InputError, match="give both"):
                stream.append(table([(1, 1)]), **values)
        assert len(stream) == 0

    def test_the_first_numbered_append_is_undone_whole(self) -> None:
        medium, store, stream = created(split=100)
        stream.append(table(numbered(0, 20)))
        stream.flush()
        stream.append(table(numbered(20, 320)), producer="p", number=0)
        (journal,) = [name for name in medium.names() if "/journal-" in name]
        fault = medium.inject("sync", name=journal)
        with pytest.raises(StorageError):
            stream.flush()
        assert fault.fired == 1
        with pytest.raises(NotStoredError, match="300 rows"):
            store.close()
        left = ids(medium)
        assert left in (list(range(20)), list(range(320)))
        with Store(medium) as store:
            store.stream(NAME).append(table(numbered(20, 320)), producer="p", number=0)
        assert ids(medium) == list(range(320))

    def test_flushed_leaves_outlive_the_first_numbered_append(self) -> None:
        medium, _, stream = created()
        stream.append(table(numbered(0, 16)))  # whole leaves, for which the journal gets no record
        stream.flush()
        stream.append(table(numbered(16, 40)), producer="p", number=0)
        assert ids(durable(medium)) == list(range(16))
        stream.flush()
        assert ids(durable(medium)) == list(range(40))


class TestFailures:
    @pytest.mark.parametrize("kind", ["write", "sync", "link", "create"])
    def test_after_a_failure_nothing_more_is_taken(self, kind: str) -> None:
        medium, store, stream = created()
        stream.append(table(numbered(0, 50)))
        stream.flush()
        fault = medium.inject(kind)
        accepted: list[bool] = []

        def append_and_flush() -> None:
            stream.append(table(numbered(50, 500)))
            accepted.append(True)
            stream.flush()

        with pytest.raises(StorageError):
            append_and_flush()
        assert fault.fired
        for action in (
            stream.flush,
            stream.snapshot,
            lambda: stream.append(table([(1, 1)])),
            lambda: stream.append({"ts": 1, "id": 1, "text": "one"}),
            lambda: stream.last_number("p"),
        ):
            with pytest.raises(StorageError, match="close it, and open it again"):
                action()
        with pytest.raises(NotStoredError, match="450 rows") if accepted else nullcontext():
            store.close()
        store.close()  # which has been told
        assert set(range(50)) <= set(ids(medium))
        with Store(medium) as store:
            store.stream(NAME).append(table([(1000, 1000)]))
            assert store.check() == []
        assert {*range(50), 1000} <= set(ids(medium))

    def test_a_full_disk_refuses_one_stream_until_it_is_opened_again(self) -> None:
        medium, store, stream = created(split=None, leaf_rows=64)
        other = store.create_stream("other", SCHEMA, "ts")
        for id in range(400):
            stream.append({"ts": id, "id": id, "text": f"event {id} at {id}" if id % 5 else None})
        stream.flush()
        for id in range(400, 3000):
            stream.append({"ts": id, "id": id, "text": f"event {id} at {id}" if id % 5 else None})
        fault = medium.inject("write", errno=errno.ENOSPC, lasting=True)
        with pytest.raises(StorageError):
            stream.flush()
        assert fault.fired
        fault.lasting = False
        for _ in range(2):
            for refused in (stream.flush, lambda: stream.append({"ts": 1, "id": 1, "text": "one"})):
                with pytest.raises(StorageError, match="had a failure before") as error:
                    refused()
                assert error.value.errno == errno.ENOSPC
        append_and_flush(other, numbered(0, 5))
        with pytest.raises(NotStoredError, match="2600 rows") as lost:
            stream.close()
        assert (lost.value.rows, lost.value.errno) == (2600, errno.ENOSPC)
        stream.close()
        with pytest.raises(ClosedError):
            stream.append({"ts": 1, "id": 1, "text": "one"})
        again = store.stream(NAME)
        assert again is not stream
        found = [row.id for row in rows_of(again)]
        assert found[:400] == list(range(400))
        append_and_flush(again, [(5000, 5001)])
        assert store.check() == []
        store.close()
        assert ids(medium) == [*found, 5001]

    def test_a_close_that_fails_gives_up_the_lock(self) -> None:
        medium, store, stream = created()
        stream.append(table(numbered(0, 5)))
        stream.flush()
        stream.append({"ts": 9, "id": 9, "text": "event 9 at 9"})
        medium.inject("sync", lasting=True)
        with pytest.raises(StorageError):
            store.close()
        assert not [name for name in medium.names() if name.endswith("lock") and medium.is_locked(name)]

    def test_rows_that_do_not_fit_leave_nothing(self) -> None:
        medium, store, stream = created()
        stream.append(table([(1, 1)]))
        for wrong in ({"ts": None, "id": 1}, {"ts": 1, "id": "x"}, {"ts": 1, "other": 2}, [{"ts": 1}, {"ts": 2.5}]):
            with pytest.raises(InputError):
                stream.append(wrong)
            with pytest.raises(InputError):
                stream.append(wrong, producer="p", number=1)
        assert stream.last_number("p") is None
        assert len(stream) == 1
        store.close()
        with pytest.raises(ClosedError):
            stream.append(table([(1, 1)]))
        with pytest.raises(ClosedError):
            stream.append({"ts": 1})
        assert ids(medium) == [1]

    def test_a_second_writer_is_refused(self) -> None:
        medium, store, stream = created()
        stream.append(table([(1, 1)]))
        with Store(medium) as other:
            with pytest.raises(LockedError):
                other.stream(NAME).append(table([(2, 2)]))
            with pytest.raises(LockedError):
                other.stream(NAME).append({"ts": 2})
            assert len(other.stream(NAME)) == 0
            stream.flush()
            assert len(other.stream(NAME)) == 1
            store.close()
            other.stream(NAME).append(table([(2, 2)]))
        assert ids(medium) == [1, 2]


class TestWaitingForLateRows:
    """While rows often come late, the newest ones stay in memory, where late ones find their place."""

    LEAF = 64

    def appended(self, delay: int, **options: Any) -> tuple[RecordingMedium, Store, Stream, list[tuple[int, int]]]:
        medium, store, stream = created(
            split=None, leaf_rows=self.LEAF, late_rows=10_000, journal_bytes=1 << 20, **options
        )
        rows: list[tuple[int, int]] = []
        for first in range(0, 30_000, 1500):
            arriving = [(10 * number, number) for number in range(first, first + 1500)]
            # Every tenth comes late, by up to ``delay`` rows.
            arriving.sort(key=lambda row: row[1] + (row[1] * 7919 % delay if row[1] % 10 == 0 else 0))
            rows += arriving
            stream.append(table(arriving))
        return medium, store, stream, rows

    def test_late_rows_find_their_place(self) -> None:
        medium, store, stream, rows = self.appended(400)
        late = stream.stats()["late"]
        assert late["rows"] > 1500
        assert late["placed"] > 0.95 * late["rows"]
        assert late["merged"] == late["spilled"] == 0
        assert 0 < late["mean"] < late["largest"] <= 4000
        stream.flush()
        assert ids(medium) == [row.id for row in rows_of(stream)] == [id for _, id in sorted(rows)]
        assert store.check() == []
        store.close()
        assert ids(medium) == [id for _, id in sorted(rows)]

    def test_counters_are_kept_with_the_stream(self) -> None:
        medium, store, stream, _ = self.appended(400)
        stream.flush()
        known = stream.stats()["late"]
        with Store(medium, read_only=True) as other:
            assert other.stream(NAME).stats()["late"] == known
        store.close()
        with Store(medium) as store:
            store.stream(NAME).append(table([(1, 1)] * 2000))
            store.flush()
            assert store.stream(NAME).stats()["late"]["rows"] == known["rows"] + 2000

    def test_memory_stays_bounded_however_late_rows_come(self) -> None:
        _, store, stream, _ = self.appended(1500)
        kept = writer_of(stream)._tail._rows._fresh.rows if writer_of(stream)._tail else 0
        assert kept <= (32 + 16 + 24) * self.LEAF
        store.close()

    def test_rows_in_order_are_sealed_as_before(self) -> None:
        _, store, stream = created(split=None, leaf_rows=self.LEAF)
        stream.append(table(numbered(0, 6400)))
        assert stream.stats()["rows_in_memory"] == 0
        assert stream.stats()["late"]["rows"] == 0
        store.close()


@pytest.mark.parametrize("kind", ["create", "write", "sync", "link", "sync_names"])
def test_a_full_disk_is_not_filled_by_splits_of_late_rows(kind: str) -> None:
    """Whatever fails while one is made: its rows are in the journal, and nothing else is left."""
    medium, store, stream = created(split=None, late_rows=50, late_merge="never")
    append_and_flush(stream, [(10 * number, number) for number in range(500)])
    append_and_flush(stream, [(10 * number + 1, 500 + number) for number in range(40)])
    store.close()
    for number in count(1):
        disk = durable(medium)
        stream = Store(disk).stream(NAME)
        stream.append(table([(6000, 540)]))
        stream.flush()
        fault = disk.inject(kind, number, errno=errno.ENOSPC, lasting=True)
        with suppress(StorageError):
            stream.append(table([(10 * number + 2, 541 + number) for number in range(40)]))
            stream.flush()
        if not fault.fired:
            break
        with suppress(StorageError):
            stream.close()
        fault.kind = "none any more"
        with Store(disk) as store:
            assert {*ids(disk)} >= {*range(541)}
            store.stream(NAME).append(table([(6001, 600)]))
            store.flush()
            assert store.orphans() == []
            assert store.check() == []
    assert number > 2


class TestCountersOfLateRows:
    """Every row that came late is somewhere, by the counters too, whoever looks and whenever."""

    @staticmethod
    def accounted(counters: dict[str, Any]) -> int:
        return sum(counters[key] or 0 for key in ("placed", "queued", "merged", "spilled"))

    @pytest.mark.parametrize("late_merge", ["dense", "plain", "never"])
    @pytest.mark.parametrize("size", [1, 40, 2000])
    def test_after_a_restart_and_after_a_crash(self, late_merge: str, size: int) -> None:
        medium, store, stream = created(split=None, late_rows=100, late_merge=late_merge)
        append_and_flush(stream, [(10 * number, number) for number in range(2000)])
        late = [(7 * number % 19_000 + 3, 2000 + number) for number in range(2000)]
        for first in range(0, len(late), size):
            stream.append(table(late[first : first + size]))
        stream.flush()
        known = stream.stats()["late"]
        assert (known["rows"], self.accounted(known)) == (2000, 2000)
        with Store(durable(medium)) as crashed:
            again = crashed.stream(NAME)
            again.append(table([(20_000, 4000)]))
            assert again.stats()["late"] == known
        store.close()
        with Store(medium) as store:
            again = store.stream(NAME)
            assert self.accounted(again.stats()["late"]) + known["queued"] >= 2000
            again.append(table([(20_000, 4000)]))
            assert self.accounted(again.stats()["late"]) == again.stats()["late"]["rows"] == 2000
            assert again.scan().read_all().num_rows == 4001

    def test_of_rows_that_waited_for_others(self) -> None:
        medium, store, stream = created(split=None)
        append_and_flush(stream, numbered(0, 2000))
        append_and_flush(stream, [(5, 2000), (6, 2001)])
        store.close()
        with Store(medium) as store:
            store.stream(NAME).append(table([(2000, 2002)]))
            counters = store.stream(NAME).stats()["late"]
            assert counters["rows"] == self.accounted(counters) == 2

    def test_of_rows_that_were_refused(self) -> None:
        medium, store, stream = created(split=None, lateness=5, too_late="reject")
        append_and_flush(stream, numbered(0, 100))
        with pytest.raises(InputError):
            stream.append(table([(3, 100)]))
        store.close()
        with Store(medium, read_only=True) as other:
            assert other.stream(NAME).stats()["late"]["rejected"] == 1
