"""Rows that are later than a stream allows: refused, or set aside; what a crash may do with them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import RecordingMedium, kills, random_power_losses
from support.streams.history import NAME, SCHEMA, SMALL, Append, load, rows_of, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import InputError, LockedError, NotFoundError, SchemaError, StorageError
from tidelog.store import backup
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.tail.shares import sender
from tidelog.store.tail.tail import Tail

ASIDE = f"{NAME}.late"


def created(too_late: str, lateness: int = 10, **options: Any) -> tuple[RecordingMedium, Store, Stream]:
    medium = RecordingMedium()
    store = Store(medium)
    values = {**SMALL, "lateness": lateness, "too_late": too_late, **options}
    return medium, store, store.create_stream(NAME, SCHEMA, "ts", **values)


def ids(stream: Stream) -> list[int]:
    return [row.id for row in rows_of(stream)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=6), st.integers(0, 20), st.booleans())
def test_rows_are_set_aside_as_a_loop_over_them_would(appends: list[list[int]], lateness: int, single: bool) -> None:
    medium, store, stream = created("aside", lateness)
    kept, late = list[tuple[int, int]](), list[tuple[int, int]]()
    newest, number = None, 0
    for times in appends:
        rows = []
        for time in times:
            is_late = newest is not None and time < newest - lateness
            (late if is_late else kept).append((time, number))
            newest = time if newest is None else max(newest, time)
            rows.append((time, number))
            number += 1
        for data in table(rows).to_pylist() if single else [table(rows)]:
            stream.append(data)
    stream.flush()
    assert stream.stats()["late"]["aside"] == len(late)
    with Store(medium, read_only=True) as other:
        assert ids(other.stream(NAME)) == [id for _, id in sorted(kept)]
        assert (ASIDE in other) == bool(late)
        if late:
            assert ids(other.stream(ASIDE)) == [id for _, id in sorted(late)]
    store.close()


def test_an_append_with_a_row_too_late_is_refused_whole() -> None:
    _, store, stream = created("reject")
    stream.append(table([(100, 0), (90, 1)]))
    with pytest.raises(InputError, match="more than 10 older") as error:
        stream.append(table([(105, 2), (120, 3), (109, 4), (50, 5)]))
    assert error.value.row == 2
    with pytest.raises(InputError):
        stream.append({"ts": 89, "id": 6, "text": "event 6 at 89"})
    stream.append(table([(95, 7)]))  # what was refused does not count as seen
    assert sorted(ids(stream)) == [0, 1, 7]
    assert stream.stats()["late"]["rejected"] == 3
    assert ASIDE not in store
    store.close()


def test_of_a_reader_the_batches_before_are_kept() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for rows in ([(100, 0)], [(150, 1)], [(20, 2)], [(200, 3)]):
            yield from table(rows).to_batches()

    for too_late, expected in (("reject", [0, 1]), ("aside", [0, 1, 3])):
        _, store, stream = created(too_late)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
        if too_late == "reject":
            with pytest.raises(InputError):
                stream.append(reader)
        else:
            stream.append(reader)
            assert ids(store.stream(ASIDE)) == [2]
        assert ids(stream) == expected
        store.close()


def test_a_writer_that_comes_later_knows_the_newest_row() -> None:
    medium, store, stream = created("reject")
    stream.append(table([(100, 0)]))
    store.close()
    with Store(medium) as store:
        with pytest.raises(InputError):
            store.stream(NAME).append(table([(89, 1)]))
        store.stream(NAME).append(table([(90, 2)]))


@pytest.mark.parametrize("how", ["coarse", "deleted", "merged with others"])
def test_a_writer_that_comes_later_knows_the_newest_row_whatever_became_of_it(how: str) -> None:
    medium, store, stream = created("reject", split=None, split_bytes=1)
    stream.append(table([(100 + index, index) for index in range(64)]))
    stream.append(table([(163, 64)]), producer="p", number=0)
    stream.flush()
    stream.attach("last(id)", "new_split")
    if how == "coarse":
        assert stream.coarsen(10_000).splits
    elif how == "deleted":
        stream.delete_before(10_000)
    else:
        load(stream, Append(tuple((100 + index, -index) for index in range(64)), job=0))
        stream.compact()
    assert "regular" not in {info.kind for info in writer_of(stream).manifests.load().splits.values()}
    store.close()
    for _ in range(2):
        with Store(medium) as store:
            with pytest.raises(InputError, match="older than one of 163"):
                store.stream(NAME).append(table([(152, 99)]))
            store.stream(NAME).evolve(add={f"more{_}": pa.int8()})
            with pytest.raises(InputError, match="older than one of 163"):
                store.stream(NAME).append(table([(152, 99)]))
            store._back_up(copy := RecordingMedium())
        medium = copy


def test_rows_that_a_crash_takes_do_not_count_as_the_newest() -> None:
    medium, store, stream = created("reject")
    stream.append(table([(100, 0)]))
    stream.flush()
    stream.append(table([(1000, 1)]), producer="p", number=0)
    crash = next(kills(medium, [len(medium.log)]))
    store.close()
    with Store(crash.medium()) as store:
        store.stream(NAME).append(table([(95, 2)]))
        assert ids(store.stream(NAME)) == [2, 0]


def test_an_append_that_is_sent_again_is_set_aside_once() -> None:
    _, store, stream = created("aside", aside="odd ones")
    for _ in range(2):
        stream.append(table([(100, 0), (50, 1)]), producer="p", number=0)
    stream.append(table([(101, 2), (51, 3)]), producer="p", number=1)
    assert ids(stream) == [0, 2]
    assert ids(store.stream("odd ones")) == [1, 3]
    store.close()


def test_a_stream_of_other_columns_takes_nothing() -> None:
    _, store, stream = created("aside")
    store.create_stream(ASIDE, pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    with pytest.raises(SchemaError, match="not those of any version"):
        stream.append(table([(100, 0), (50, 1)]))
    assert ids(stream) == []
    stream.append(table([(100, 0)]))
    assert ids(stream) == [0]
    store.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"too_late": "reject"}, "no lateness"),
        ({"too_late": "drop", "lateness": 1}, "'accept', 'reject', 'aside'"),
        ({"aside": "x"}, "too_late 'accept'"),
        ({"aside": "", "too_late": "aside", "lateness": 1}, "0 characters"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Store(RecordingMedium()).create_stream(NAME, SCHEMA, "ts", **options)


def test_what_was_flushed_survives_in_both_streams() -> None:
    medium, store, stream = created("aside")
    for round in range(4):
        start = 100 * round
        stream.append(table([(start + 50 + index, start + index) for index in range(9)]))
        stream.append(table([(start, start + 90), (start + 58, start + 91)]))
        stream.flush()
        medium.mark(round + 1)
    store.close()
    looked = 0
    for crash in [*kills(medium), *random_power_losses(medium, 1, 7)][::9]:
        rounds = crash.marks[-1] if crash.marks else 0
        with Store(crash.medium()) as left:
            try:
                kept = set(ids(left.stream(NAME)))
            except NotFoundError:
                assert not rounds
                continue
            aside = set(ids(left.stream(ASIDE))) if ASIDE in left else set()
            assert {100 * round + index for round in range(rounds) for index in (*range(9), 91)} <= kept
            assert {100 * round + 90 for round in range(rounds)} <= aside
            assert not kept & aside
            looked += 1
    assert looked > 15


def test_an_append_all_of_whose_rows_are_set_aside() -> None:
    medium, store, stream = created("aside")
    stream.append(table([(100, 0)]))
    stream.append(table([(50, 1), (60, 2)]))
    stream.append(table([(51, 3)]), producer="p", number=0)
    stream.append(table([(101, 4)]))
    assert ids(stream) == [0, 4]
    stream.flush()
    with Store(medium, read_only=True) as other:
        assert (ids(other.stream(NAME)), ids(other.stream(ASIDE))) == ([0, 4], [1, 3, 2])
    store.close()


class TestChangingTheSchema:
    """The stream beside has the columns of the one it belongs to, whatever happens in between."""

    STEPS: tuple[dict[str, Any], ...] = (
        {"add": {"a": pa.int8()}},
        {"rename": {"text": "a", "a": "text"}},
        {"widen": {"text": pa.int32()}, "add": {"b": pa.string()}},
    )

    def append(self, stream: Stream, rows: list[tuple[int, int]]) -> None:
        stream.append([dict(zip(stream.schema.names, row, strict=False)) for row in rows])

    def test_both_streams_change(self) -> None:
        medium, store, stream = created("aside")
        stream.evolve(add={"early": pa.int8()})  # before there is anything beside
        self.append(stream, [(100, 0), (50, 1)])
        for index, step in enumerate(self.STEPS):
            stream.evolve(**step)
            assert store.stream(ASIDE).schema == stream.schema
            self.append(stream, [(101, 2 + 2 * index), (51, 3 + 2 * index)])
        with pytest.raises(SchemaError):
            stream.evolve(rename={"nothing": "x"})
        assert store.stream(ASIDE).schema == stream.schema
        stream.flush()
        with Store(medium, read_only=True) as other:
            for name, expected in ((NAME, [0, 2, 4, 6]), (ASIDE, [1, 3, 5, 7])):
                assert other.stream(name).scan().read_all()["id"].to_pylist() == expected
        store.close()

    def test_neither_changes_while_another_process_writes_one_of_them(self) -> None:
        medium, store, stream = created("aside")
        stream.append(table([(100, 0), (50, 1)]))
        store.close()
        with Store(medium) as store, Store(medium) as other:
            other.stream(ASIDE).append(table([(1, 9)]))
            with pytest.raises(LockedError, match="another process"):
                store.stream(NAME).evolve(add={"a": pa.int8()})
            assert "a" not in store.stream(NAME).schema.names
            other.stream(ASIDE).close()
            store.stream(NAME).evolve(add={"a": pa.int8()})
            assert store.stream(NAME).schema == store.stream(ASIDE).schema
            other.close()
        with Store(medium) as store:  # nobody keeps a lock who did not write
            for name in (NAME, ASIDE):
                store.stream(name).append({"ts": 200, "a": 1})

    def test_a_stream_that_is_ahead_waits_for_the_other(self) -> None:
        """As in a backup whose streams were looked at just before and just after a change."""
        _, store, stream = created("aside")
        stream.append(table([(100, 0), (50, 1)]))
        store.stream(ASIDE).evolve(add={"a": pa.int8()})
        with pytest.raises(SchemaError, match="not those of any version"):
            stream.evolve(add={"b": pa.int8()})
        stream.evolve(add={"a": pa.int8()})
        self.append(stream, [(101, 2), (51, 3)])
        assert stream.schema == store.stream(ASIDE).schema
        store.close()

    def test_any_crash_leaves_what_goes_on(self) -> None:
        medium, store, stream = created("aside")
        self.append(stream, [(100, 0), (50, 1)])
        stream.flush()
        began = len(medium.log)
        for index, step in enumerate(self.STEPS):
            stream.evolve(**step)
            medium.mark(index + 1)
        store.close()
        positions = range(began, len(medium.log) + 1)
        differed = 0
        for crash in [*kills(medium, positions), *random_power_losses(medium, 1, 5, positions)][::11]:
            with Store(crash.medium()) as left:
                main, beside = left.stream(NAME), left.stream(ASIDE)
                assert len(writer_of(main).manifests.load().schemas) - 1 >= (crash.marks[-1] if crash.marks else 0)
                differed += main.schema != beside.schema
                self.append(main, [(101, 2), (51, 3)])
                assert main.schema == beside.schema
                assert [row["id"] for row in main.scan().read_all().to_pylist()] == [0, 2]
                assert [row["id"] for row in beside.scan().read_all().to_pylist()] == [1, 3]
                main.evolve(add={"late": pa.int8()})
                assert main.schema == beside.schema
                assert left.check() == []
        assert differed > 0


@pytest.mark.parametrize("seed", range(2))
def test_numbered_appends_are_in_one_of_the_streams_exactly_once_after_any_crash(seed: int) -> None:
    """Whatever else was appended before they are sent again, and whichever event is the newest one then."""
    medium, store, stream = created("aside", 30, late_rows=2, journal_bytes=500)
    dice = random.Random(seed)
    sent: list[list[tuple[int, int]]] = []
    count = itertools.count()
    for now in range(100, 400, 15):
        rows = [(now - dice.choice([0, 0, 5, 12, 25, 60]), next(count)) for _ in range(dice.choice([1, 4, 12]))]
        sent.append(rows)
        medium.mark(len(sent))
        stream.append(table(rows), producer="p", number=len(sent) - 1)
        if dice.random() < 0.3:
            stream.append(table([(now + dice.choice([1, 30]), -1 - next(count))]))  # which may be lost
        if dice.random() < 0.4:
            stream.flush()
    store.close()
    looked = 0
    for crash in [*kills(medium), *random_power_losses(medium, 1, seed)][:: 9 + seed]:
        begun = crash.marks[-1] if crash.marks else 0
        if not begun:
            continue
        looked += 1
        with Store(crash.medium()) as left:
            main = left.stream(NAME)
            last = main.last_number("p")
            there = set(ids(main)) | set(ids(left.stream(ASIDE)) if ASIDE in left else [])
            assert {id for rows in sent[: 0 if last is None else last + 1] for _, id in rows} <= there
            if dice.random() < 0.5:
                main.append(table([(dice.choice([150, 450]), -1_000_000)]))
            for number, rows in enumerate(sent[:begun]):
                main.append(table(rows), producer="p", number=number)
            found = ids(main) + (ids(left.stream(ASIDE)) if ASIDE in left else [])
            expected = sorted(id for rows in sent[:begun] for _, id in rows)
            assert sorted(id for id in found if id >= 0) == expected, crash
    assert looked > 20


@pytest.mark.parametrize(
    ("before", "appends"),
    [
        ([(100, 0)], [[(50, 1), (50, 1)]]),
        ([(100, 0)], [[(50, 1)], [(50, 1), (50, 1)]]),
        ([(60, 0)], [[(50, 1), (100, 2), (50, 1)]]),
        ([(60, 0)], [[(50, 1)], [(100, 2), (50, 1)]]),  # kept by the first, set aside by the second
        ([(60, 0)], [[(50, 1), (50, 1)], [(100, 2), (50, 1)], [(50, 1), (50, 3), (101, 4)]]),
        ([(60, 0)], [[(50, 1), (90, 2), (50, 3)], [(50, 1), (50, 3), (50, 3)]]),
    ],
)
@pytest.mark.parametrize("newest_again", [None, 200])
@pytest.mark.parametrize("crashes", [kills, lambda *at: random_power_losses(at[0], 3, 1, at[1])])
def test_rows_that_are_the_same_stay_as_many(
    before: list[tuple[int, int]], appends: list[list[tuple[int, int]]], newest_again: int | None, crashes: Any
) -> None:
    """Those set aside are recognised by their values when they are sent again, and each stands for one row alone."""
    medium, store, stream = created("aside", 30)
    stream.append(table(before))
    stream.flush()
    for number, rows in enumerate(appends):
        stream.append(table(rows), producer="p", number=number)
    assert ASIDE in store
    for crash in crashes(medium, [len(medium.log)]):
        with Store(crash.medium()) as left:
            main = left.stream(NAME)
            assert main.last_number("p") is None, "the appends were flushed, so this tests nothing"
            if newest_again is not None:
                main.append(table([(newest_again, -1)]))  # all rows are too late now, when they are judged anew
            for number, rows in enumerate(appends):
                main.append(table(rows), producer="p", number=number)
            found = ids(main) + ids(left.stream(ASIDE))
            expected = [id for rows in (before, *appends) for _, id in rows]
            assert sorted(id for id in found if id >= 0) == sorted(expected), crash
    store.close()


def test_an_append_that_the_tail_flushes_by_itself_is_whole() -> None:
    """Late rows at their limit make the tail flush in the middle of an append; a crash must not leave a part of it."""
    medium, store, stream = created("aside", 30, late_rows=1)
    stream.append(table([(100 + index, index) for index in range(20)]), producer="p", number=0)
    stream.flush()
    stream.append(table([(101, 20), (50, 21)]), producer="p", number=1)
    assert len(stream) == 21  # rows that wait in memory are sorted in, and one is late
    stream.append(table([(130, 22), (51, 23)]), producer="p", number=2)
    for crash in random_power_losses(medium, 8, 3, [len(medium.log)]):
        with Store(crash.medium()) as left:
            assert left.stream(NAME).last_number("p") == 2, "the append was not flushed, so this tests nothing"
            assert ids(left.stream(ASIDE)) == [21, 23]
    store.close()


def half_done(appends: list[list[tuple[int, int]]], before: list[tuple[int, int]]) -> RecordingMedium:
    """What a kill leaves of numbered appends whose late rows are beside, and which are not in the stream."""
    medium, store, stream = created("aside")
    stream.append(table(before))
    stream.flush()
    for number, rows in enumerate(appends):
        stream.append(table(rows), producer="p", number=number)
    crash = next(kills(medium, [len(medium.log)]))
    store.close()
    return crash.medium()


class TestHalfDone:
    """What is sent again after a crash is told by its place in the append, whatever has become of it meanwhile."""

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([(101, 1), (50, 2)], "2 rows instead of 3"),
            ([(101, 1), (51, 3), (50, 2)], "in another order"),
        ],
    )
    def test_another_append_of_the_same_number_is_refused(self, rows: list[tuple[int, int]], message: str) -> None:
        sent = [(101, 1), (50, 2), (51, 3)]
        with Store(half_done([sent], [(100, 0)])) as store:
            stream = store.stream(NAME)
            with pytest.raises(InputError, match=message):
                stream.append(table(rows), producer="p", number=0)
            assert ids(stream) == [0]
            stream.append(table(sent), producer="p", number=0)
            assert (ids(stream), ids(store.stream(ASIDE))) == ([0, 1], [2, 3])

    def test_rows_that_passed_the_first_time_pass_again(self) -> None:
        with Store(half_done([[(99, 1), (50, 2)]], [(100, 0)])) as store:
            stream = store.stream(NAME)
            stream.append(table([(1000, 9)]))
            stream.append(table([(99, 1), (50, 2)]), producer="p", number=0)
            stream.append(table([(99, 3)]), producer="p", number=1)
            assert (ids(stream), ids(store.stream(ASIDE))) == ([1, 0, 9], [2, 3])
            assert stream.stats()["late"]["aside"] == 2

    def test_rows_that_were_deleted_beside_do_not_come_back(self) -> None:
        sent = [(101, 1), (50, 2)]
        with Store(half_done([sent], [(100, 0)])) as store:
            store.stream(ASIDE).delete_before(60)
            store.stream(NAME).append(table(sent), producer="p", number=0)
            assert (ids(store.stream(NAME)), ids(store.stream(ASIDE))) == ([0, 1], [])

    def test_values_that_are_read_otherwise_after_a_change_of_the_schema(self) -> None:
        medium = RecordingMedium()
        store = Store(medium)
        schema = pa.schema([pa.field("ts", pa.timestamp("ns"), nullable=False), ("x", pa.float32())])
        stream = store.create_stream(NAME, schema, "ts", lateness="10ns", too_late="aside")
        stream.append({"ts": [100], "x": [0.5]})
        stream.flush()
        sent = {"ts": [101, 50, 51], "x": [0.1, 0.1, None]}
        stream.append(sent, producer="p", number=0)
        crash = next(kills(medium, [len(medium.log)]))
        store.close()
        with Store(crash.medium()) as left:
            left.stream(NAME).evolve(widen={"x": pa.float64()}, rename={"ts": "at"})
            left.stream(NAME).append({"at": sent["ts"], "x": sent["x"]}, producer="p", number=0)
            assert (len(left.stream(NAME)), len(left.stream(ASIDE))) == (2, 2)

    def test_an_append_that_is_interrupted_is_made_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, store, stream = created("aside")
        stream.append(table([(100, 0)]))
        sent = [(101, 1), (50, 2), (50, 2)]

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patches:
            patches.setattr(Tail, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                stream.append(table(sent), producer="p", number=0)
        assert ids(store.stream(ASIDE)) == [2, 2]
        stream.append(table(sent), producer="p", number=0)
        stream.append(table(sent), producer="p", number=1)
        assert (ids(stream), ids(store.stream(ASIDE))) == ([0, 1, 1], [2, 2, 2, 2])
        store.close()

    def test_what_is_settled_is_forgotten(self) -> None:
        medium, store, stream = created("aside", journal_bytes=300)
        for number in range(200):
            producer = f"p{number % 7}"
            stream.append(table([(1000 + number, number), (50, number)]), producer=producer, number=number)
            if number % 3 == 0:
                stream.flush()
        assert len(writer_of(store.stream(ASIDE)).taken_shares()) <= 64 + 1
        store.close()
        with Store(medium) as store:
            assert len(store.stream(ASIDE)) == 200
            store.stream(NAME).append(table([(51, 0)]), producer="p0", number=1000)
            assert len(writer_of(store.stream(ASIDE)).taken_shares()) == 1


def test_two_streams_may_have_one_beside_them() -> None:
    medium, store, stream = created("aside", aside="both")
    other = store.create_stream("t", SCHEMA, "ts", **{**SMALL, "lateness": 10, "too_late": "aside", "aside": "both"})
    sent = {NAME: [(101, 1), (50, 2), (50, 2)], "t": [(50, 3), (101, 4), (50, 2), (102, 5)]}
    for each in (stream, other):
        each.append(table([(100, 0)]))
        each.flush()
        each.append(table(sent[each.name]), producer="p", number=0)
    crash = next(kills(medium, [len(medium.log)]))
    store.close()
    with Store(crash.medium()) as left:
        for name, rows in sent.items():
            left.stream(name).append(table([(1000, 9)]))
            left.stream(name).append(table(rows), producer="p", number=0)
        assert ids(left.stream(NAME)) == [0, 1, 9]
        assert ids(left.stream("t")) == [0, 4, 5, 9]
        assert sorted(ids(left.stream("both"))) == [2, 2, 2, 3]


def test_a_producer_may_append_to_the_stream_beside_too() -> None:
    """Its numbers there have nothing to do with those of appends of which rows are set aside."""
    _, store, stream = created("aside")
    stream.append(table([(100, 0), (50, 1)]), producer="p", number=0)
    store.stream(ASIDE).append(table([(1, 2)]), producer="p", number=99)
    stream.append(table([(51, 3)]), producer="p", number=1)
    store.stream(ASIDE).append(table([(1, 4)]), producer="p", number=100)
    assert ids(store.stream(ASIDE)) == [2, 4, 1, 3]
    store.close()


@pytest.mark.parametrize("name", [ASIDE, NAME])
@pytest.mark.parametrize("too_late", ["reject", "aside"])
def test_a_stream_with_a_limit_of_its_own_takes_nothing(name: str, too_late: str) -> None:
    """Itself, for example."""
    _, store, stream = created("aside", aside=name)
    if name != NAME:
        store.create_stream(name, SCHEMA, "ts", lateness=5, too_late=too_late)
    for numbering in ({}, {"producer": "p", "number": 0}):
        with pytest.raises(InputError, match="a limit of its own"):
            stream.append(table([(100, 0), (50, 1)]), **numbering)
        assert ids(stream) == []
    stream.append(table([(100, 0)]))
    store.close()


def test_a_stream_beside_that_is_dropped_is_made_again() -> None:
    _, store, stream = created("aside")
    stream.append(table([(100, 0), (50, 1)]))
    store.drop_stream(ASIDE)
    stream.append(table([(51, 2)]))
    store.drop_stream(ASIDE)
    stream.append(table([(52, 3)]), producer="p", number=0)
    stream.flush()
    store.drop_stream(ASIDE)
    stream.append(pa.RecordBatchReader.from_batches(SCHEMA, table([(53, 4), (101, 5)]).to_batches()))
    assert (ids(stream), ids(store.stream(ASIDE))) == ([0, 5], [4])
    store.close()


@pytest.mark.parametrize("too_late", ["accept", "reject", "aside"])
@pytest.mark.parametrize(
    ("producer", "number", "message"),
    [
        ("p", -1, "numbers start at 0"),
        ("p", "1", "found the number '1', a str"),
        ("p", 1.0, "found the number 1.0, a float"),
        (5, 1, "found the producer 5, a int"),
        ("p", None, "one of producer and number"),
        (None, 1, "one of producer and number"),
    ],
)
def test_what_numbers_no_append_is_refused_before_anything_happens(
    too_late: str, producer: Any, number: Any, message: str
) -> None:
    _, store, stream = created(too_late)
    with pytest.raises(InputError, match=message):
        stream.append(table([(1000, 0), (1, 1)]), producer=producer, number=number)
    stream.append(table([(100, 2)]), producer="p", number=np.int64(1))  # not too late: nothing came before it
    stream.flush()
    assert (ids(stream), stream.last_number("p"), store.streams()) == ([2], 1, [NAME])
    store.close()


def test_nothing_is_set_aside_when_the_stream_has_failed() -> None:
    medium, store, stream = created("aside")
    stream.append(table([(100, 0), (50, 1)]))
    stream.flush()
    fault = medium.inject("sync", lasting=True)
    stream.append(table([(101, 2)]))
    with pytest.raises(StorageError, match="sync"):
        stream.flush()
    assert fault.fired
    for numbering in ({}, {"producer": "p", "number": 0}):
        with pytest.raises(StorageError):
            stream.append(table([(51, 3)]), **numbering)
    assert ids(store.stream(ASIDE)) == [1]


@pytest.mark.parametrize("aside", ["a", "z"])
@pytest.mark.parametrize("settles", [False, True])
def test_a_backup_is_as_after_a_crash(aside: str, settles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends come between any two looks at the streams; then the copy gets what it has not, and each row is once."""
    _, store, stream = created("aside", aside=aside, journal_bytes=1)
    sent: list[list[tuple[int, int]]] = []

    def send() -> None:
        number = len(sent)
        sent.append([(1000 + number, number), (50, 0), (50, 0), (1000 + number, number)])
        stream.append(table(sent[-1]), producer="p", number=number)
        stream.flush()
        if settles and number < 30:
            writer_of(store.stream(aside)).settle_shares({sender(writer_of(stream).context.directory, "p"): number})
            store.stream(aside).append(table([(1, -1)]))
            store.stream(aside).flush()  # and begins another journal, for any length is too long

    class Looks(Snapshots):
        looks = 0

        def newest(self) -> Snapshot:
            Looks.looks += 1
            send()
            found = super().newest()
            send()
            return found

    for _ in range(5):
        send()
    monkeypatch.setattr(backup, "Snapshots", Looks)
    target = RecordingMedium()
    store._back_up(target)
    assert Looks.looks > 2 if settles else Looks.looks == 2
    with Store(target) as copy:
        again = copy.stream(NAME)
        for number, rows in enumerate(sent):
            again.append(table(rows), producer="p", number=number)
        found = [(row.time, row.id) for each in (again, copy.stream(aside)) for row in rows_of(each) if row.id >= 0]
        assert sorted(found) == sorted(row for rows in sent for row in rows)
        assert again.last_number("p") == len(sent) - 1
    store.close()
