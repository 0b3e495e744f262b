"""Merges into streams: copies that differ become one stream, each event once, while inputs come, go and fail."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from operators.merge.copies import KINDS, copy, events
from support.waiting import PATIENCE, until
from tidelog.engine.online.inputs import Input
from tidelog.engine.online.merging.merging import Merging
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.engine.writer import StreamWriter
from tidelog.model.errors import ClosedError, InputError, LockedError, NotFoundError, SchemaError, StorageError
from tidelog.operators.merge.codes import NEVER, STABLE
from tidelog.operators.merge.elements import KINDS as NAMES
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.errors import RepeatedKeyError
from tidelog.operators.merge.table import table_of
from tidelog.store.subscriptions import SubscriptionLog

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", pa.string()), ("x", pa.int64())])
DELAY = 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store", maintenance="manual") as opened:
        yield opened


def rows(count: int = 300) -> list[tuple[int, str, int]]:
    """What is to come out: up to three events of one time."""
    return [(10 * (number // 2), "ab"[number % 2], number) for number in range(count)]


def received(dice: random.Random, whole: list[tuple[int, str, int]], lost: float = 0.0) -> list[tuple[int, str, int]]:
    """What a receiver has of it: out of order, some of it twice, some of it not at all."""
    kept = [each for each in whole if dice.random() >= lost]
    twice = kept + [each for each in kept if dice.random() < 0.1]
    return sorted(twice, key=lambda each: each[0] + dice.random() * (DELAY - 10))


def batch(of: list[tuple[int, str, int]]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(list(column)) for column in zip(*of, strict=True)], schema=SCHEMA)


def pieces(of: list[tuple[int, str, int]], size: int = 37) -> list[pa.RecordBatch]:
    return [batch(of[first : first + size]) for first in range(0, len(of), size)]


def filled(store: Store, name: str, of: list[tuple[int, str, int]]) -> Stream:
    stream = store.create_stream(name, SCHEMA, "ts")
    stream.append(batch(of))
    stream.flush()
    return stream


def clean(store: Store, name: str = "clean") -> list[tuple[int, str, int]]:
    return sorted(tuple(each.values()) for each in store.stream(name).scan().read_all().to_pylist())  # type: ignore[misc]


def done(merging: Merging) -> None:
    merging.finish()
    assert merging.wait(PATIENCE)
    merging.close()


def test_receivers_that_differ_become_one_stream(store: Store) -> None:
    dice, whole = random.Random(1), rows()
    filled(store, "north", received(dice, whole))
    filled(store, "south", received(dice, whole))
    with store.merge_into("clean", ["north", "south"], key=["k", "x"], delay=DELAY, follow=False) as merging:
        assert merging.wait(PATIENCE)
    assert clean(store) == whole
    (info,) = store.subscriptions()
    assert (info.name, set(info.streams), info.into) == ("clean", {"north", "south"}, "clean")
    assert info.behind == 0
    assert merging.stats()["given"] == len(whole)


def test_what_one_receiver_has_lost_another_one_has(store: Store) -> None:
    """Each lacks other events, and they are read a little at a time, so that none is ahead for long."""
    dice, whole = random.Random(2), rows()
    given = [received(dice, whole, lost=0.1) for _ in range(3)]
    streams = {name: store.create_stream(name, SCHEMA, "ts") for name in "abc"}
    with store.merge_into("clean", list(streams), key=[], delay=200) as merging:
        for first in range(0, 400, 10):
            for stream, own in zip(streams.values(), given, strict=True):
                some = own[first : first + 10]
                if some:
                    stream.append(batch(some))
                    stream.flush()
            until(lambda: merging.stats()["behind"] == 0)
        done(merging)
    everywhere = set(given[0]) | set(given[1]) | set(given[2])
    assert clean(store) == sorted(everywhere)
    assert len(everywhere) > len(set(given[0]))


def test_inputs_come_and_go_while_it_runs(store: Store) -> None:
    """A cut-over: the new input has joined before the old one leaves, and nothing is lost or there twice."""
    dice, whole = random.Random(3), rows()
    streams = {name: store.create_stream(name, SCHEMA, "ts") for name in ("old", "new")}
    own = received(dice, whole)
    half = len(own) // 2
    with store.merge_into("clean", ["old"], key=["x"], delay=DELAY) as merging:
        streams["old"].append(batch(own[:half]))
        streams["old"].flush()
        until(lambda: merging.stats()["rows"] == half)
        join = 10 * (half // 4)
        merging.attach("new", join=join)
        streams["new"].append(batch([each for each in received(dice, whole) if each[0] >= join]))
        streams["new"].flush()
        until(lambda: {each.name: each.phase for each in merging.inputs}["new"] == "joined")
        merging.detach("old")
        streams["old"].append(batch([(10_000, "z", 1)]))
        streams["old"].flush()
        assert [each.name for each in merging.inputs] == ["new"]
        done(merging)
    assert clean(store) == whole
    with pytest.raises(ClosedError, match="the merge has ended"):
        merging.detach("new")


def test_it_goes_on_where_it_was_with_the_inputs_it_had(store: Store) -> None:
    dice, whole = random.Random(4), rows()
    streams = {name: store.create_stream(name, SCHEMA, "ts") for name in ("a", "b", "c")}
    given = {name: pieces(received(dice, whole), 29) for name in streams}
    for turn in range(max(map(len, given.values()))):
        with store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, name="m") as merging:
            if turn == 3:
                merging.attach("third", "c")
            if turn == 6:
                merging.detach("a")
            for name, stream in streams.items():
                if turn < len(given[name]):
                    stream.append(given[name][turn])
                    stream.flush()
            done(merging)
    with store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, name="m", follow=False) as merging:
        assert merging.wait(PATIENCE)
        assert {each.name for each in merging.inputs} == {"b", "third"}
    assert clean(store) == whole


def test_an_input_that_comes_when_it_is_begun_again_is_kept_at_once(store: Store) -> None:
    streams = [store.create_stream(name, SCHEMA, "ts") for name in ("a", "b")]
    options: dict[str, Any] = {"key": ["x"], "delay": 0, "name": "m", "start": "latest"}
    store.merge_into("clean", ["a"], **options).close()
    store.merge_into("clean", ["a", "b"], **options).close()
    assert store.subscriptions()[0].streams == ("a", "b")
    streams[1].append(batch(rows(5)))
    streams[1].flush()
    with store.merge_into("clean", ["a", "b"], **options) as merging:
        done(merging)
    assert clean(store) == rows(5)


def test_what_is_ordered_and_not_kept_is_no_success(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        filled(store, name, rows(10))
    merging = store.merge_into("clean", ["a"], key=["x"], delay=0)
    commit = SubscriptionLog.commit

    def failing(own: SubscriptionLog, kept: Any) -> None:
        if merging._merge.has_obeyed:
            _crash()
        commit(own, kept)

    with monkeypatch.context() as patched:
        patched.setattr(SubscriptionLog, "commit", failing)
        with pytest.raises(ClosedError, match="the merge has failed before this was kept"):
            merging.attach("b")
        with pytest.raises(OSError, match="a crash"):
            merging.wait(PATIENCE)
    with store.merge_into("clean", ["a"], key=["x"], delay=0) as merging:
        assert [each.name for each in merging.inputs] == ["a"]
        done(merging)
    assert clean(store) == rows(10)


def test_an_input_that_comes_too_late_to_be_attached_is_closed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The merge ends while the input is on its way."""
    for name in ("a", "b"):
        filled(store, name, rows(10))
    closed: list[str] = []
    close = Input.close
    monkeypatch.setattr(Input, "close", lambda own: (closed.append(own.name), close(own)))
    with store.merge_into("clean", ["a"], key=["x"], delay=0) as merging:
        done(merging)
    monkeypatch.setattr(Merging, "_check_running", lambda own: None)
    with pytest.raises(ClosedError, match="the merge has ended"):
        merging.attach("b")
    assert closed == ["a", "b"]


def test_an_input_keeps_its_delay_when_a_merge_is_begun_again(store: Store) -> None:
    """Rows that wait for it go on waiting, and none is late that was not before."""
    whole = rows()
    own = received(random.Random(10), whole)
    streams = [store.create_stream(name, SCHEMA, "ts") for name in ("a", "b")]
    for place in range(3):
        streams[1].append(batch(own[place * len(own) // 3 : (place + 1) * len(own) // 3]))
        streams[1].flush()
        with store.merge_into("clean", ["a"], algorithm="R2", key=True, delay={"a": 0}) as merging:
            if not place:
                merging.attach("third", "b", delay=DELAY)
            until(lambda: merging.stats()["behind"] == 0)
            done(merging)
        assert [each.late for each in merging.inputs] == [0, 0]
    assert clean(store) == [each for each in whole if each[0] < whole[-1][0] - DELAY]


def test_an_input_that_comes_has_the_delay_of_all(store: Store) -> None:
    """Not that of another input."""
    whole = rows()
    own = received(random.Random(11), whole)
    store.create_stream("a", SCHEMA, "ts")
    filled(store, "b", own)
    for delay in (DELAY, {"a": 0}):
        name = f"clean {isinstance(delay, int)}"
        with store.merge_into(name, ["a"], key=True, delay=delay) as merging:
            merging.attach("b")
            done(merging)
        assert [each.late for each in merging.inputs] == [0, 0]
        assert [each.stable for each in merging.inputs] == [None, whole[-1][0] - DELAY if delay == DELAY else None]
        assert clean(store, name) == whole


def test_one_that_breaks_a_promise_by_what_it_has_left_leaves(store: Store) -> None:
    """What waits of others is merged, though all have ended."""
    whole = rows(40)
    given = {"twice": pieces([*whole[:4], (whole[3][0], whole[3][1], 99)]), "good": pieces(whole)}
    with store.merge_into(
        "clean", given, algorithm="R2", key="k", delay=1000, schema=SCHEMA, time="ts", follow=False
    ) as merging:
        assert merging.wait(PATIENCE)
    assert {name: type(error) for name, error in merging.failures.items()} == {"twice": RepeatedKeyError}
    assert clean(store) == whole


def test_one_that_cannot_begin_lets_go_of_everything(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store, "a", rows(10))
    with monkeypatch.context() as patched:
        patched.setattr(SubscriptionLog, "commit", _crash)
        with pytest.raises(OSError, match="a crash") as failed:
            store.merge_into("clean", ["a"], key=["x"], delay=0)
    with store.merge_into("clean", ["a"], key=["x"], delay=0) as merging:
        done(merging)
    assert failed.tb is not None  # it has the frames that have what was made


def test_an_input_that_the_disk_does_not_read_now_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        filled(store, name, rows(10))
    take = Input.take

    def failing(own: Input, *given: Any) -> pa.RecordBatch | None:
        if own.name == "b":
            raise StorageError("input/output error")
        return take(own, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Input, "take", failing)
        with pytest.raises(StorageError, match="input/output error"):
            store.merge_into("clean", ["a", "b"], key=["x"], delay=0).wait(PATIENCE)
    with store.merge_into("clean", ["a", "b"], key=["x"], delay=0) as merging:
        assert [each.name for each in merging.inputs] == ["a", "b"]
        done(merging)


def test_a_crash_before_rows_are_appended_does_no_harm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, whole = random.Random(5), rows()
    given = {name: pieces(received(dice, whole), 50) for name in ("a", "b")}
    streams = {name: store.create_stream(name, SCHEMA, "ts") for name in given}
    for turn in range(max(map(len, given.values()))):
        for name, stream in streams.items():
            if turn < len(given[name]):
                stream.append(given[name][turn])
                stream.flush()
        with monkeypatch.context() as patched:
            if turn % 2:
                patched.setattr(StreamWriter, "append", _crash)
            merging = store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, follow=False)
            with pytest.raises(OSError, match="a crash") if turn % 2 else nullcontext():
                merging.wait(PATIENCE)
            merging.stop()
    with store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, follow=False) as merging:
        merging.wait(PATIENCE)
    assert clean(store) == whole


def _crash(*_: Any, **__: Any) -> None:
    raise OSError("a crash")


def test_batches_that_are_given_and_one_giver_that_dies(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    dice, whole = random.Random(6), rows()
    one, other = received(dice, whole), received(dice, whole)
    begun: list[Merging] = []

    def living() -> Iterator[pa.RecordBatch]:
        *first, last = pieces(one)
        yield from first
        until(lambda: bool(begun and begun[0].failures))  # were it to end before, the other one would be the last
        yield last

    def dying() -> Iterator[pa.RecordBatch]:
        yield from pieces(other)[:4]
        raise OSError("the receiver is gone")

    inputs = {"one": living(), "dying": dying()}
    with store.merge_into("clean", inputs, key=["x"], delay=DELAY, schema=SCHEMA, time="ts", follow=False) as merging:
        begun.append(merging)
        assert merging.wait(PATIENCE)
    assert clean(store) == whole
    assert str(merging.failures["dying"]) == "the receiver is gone"
    assert "'dying' of a merge has failed" in caplog.text


def test_it_fails_if_all_who_give_do(store: Store) -> None:
    def dying() -> Iterator[pa.RecordBatch]:
        yield from pieces(rows(10))
        raise OSError("the receiver is gone")

    merging = store.merge_into("clean", {"only": dying()}, key=["x"], delay=DELAY, schema=SCHEMA, time="ts")
    with pytest.raises(OSError, match="the receiver is gone"):
        merging.wait(PATIENCE)
    assert clean(store) == rows(10)


def test_batches_given_again_are_passed_over(store: Store) -> None:
    """Without a key, so that every row that was taken twice would be seen."""
    whole = rows(100)
    for count in (1, 2, 3):
        given = {"one": pieces(whole)[:count], "two": pieces(whole, 11)[:count]}
        options: dict[str, Any] = {"delay": DELAY, "schema": SCHEMA, "time": "ts", "name": f"m{count}"}
        for _ in range(2):
            is_new = f"clean{count}" not in store
            with pytest.warns(tidelog.merging.RepeatsWarning) if is_new else nullcontext():
                merging = store.merge_into(f"clean{count}", given, follow=False, **options)
            assert merging.wait(PATIENCE)
            merging.close()
        assert clean(store, f"clean{count}") == sorted(whole[: 37 * count])


def test_queries_are_inputs_too(store: Store) -> None:
    dice, whole = random.Random(7), rows()
    filled(store, "a", received(dice, whole))
    doubled = store.create_stream("b", SCHEMA, "ts")
    for some in pieces([(ts, k, 2 * x) for ts, k, x in received(dice, whole)]):
        doubled.append(some)
    doubled.flush()
    inputs = {"a": "a", "halved": "SELECT ts, k, CAST(x / 2 AS BIGINT) AS x FROM b"}
    for _ in range(2):
        with store.merge_into("clean", inputs, key=["x"], delay={"a": DELAY}, follow=False) as merging:
            assert merging.wait(PATIENCE)
    assert clean(store) == whole
    assert store.subscriptions()[0].behind == 0


def test_revised_copies_become_one_stream_of_elements(store: Store) -> None:
    dice = random.Random(8)
    kind = KINDS["R3"]
    whole = events(dice, kind, count=60, span=60)
    for name in ("a", "b", "c"):
        table = element_table(copy(dice, kind, whole))
        store.create_stream(name, table.schema, "valid_from").append(table)
        store.stream(name).flush()
    with store.merge_into("clean", ["a", "b", "c"], key=["p"], follow=False) as merging:
        assert merging.wait(PATIENCE)
    found = store.sql("SELECT * FROM clean ORDER BY _seq").arrow().to_pylist()
    out = [
        Element(
            NAMES.index(each["kind"]), each["p"], each["valid_from"], end(each["valid_to"]), end(each["old_valid_to"])
        )
        for each in found
        if each["kind"] != "stable"
    ]
    assert table_of(out, strict=True).events == Counter(whole)


def end(value: int | None) -> int:
    return NEVER if value is None else value


def element_table(elements: list[Element]) -> pa.Table:
    columns = {
        "kind": [NAMES[each.kind] for each in elements],
        "valid_from": [each.end if each.kind == STABLE else each.start for each in elements],
        "valid_to": [None if each.kind == STABLE or each.end == NEVER else each.end for each in elements],
        "old_valid_to": [each.old if each.kind == 1 and each.old != NEVER else None for each in elements],
        "p": [None if each.kind == STABLE else each.payload for each in elements],
    }
    columns["valid_from"] = [min(each, NEVER) for each in columns["valid_from"]]
    fields = [("kind", pa.string()), *((name, pa.int64()) for name in list(columns)[1:])]
    return pa.table(columns, schema=pa.schema(fields))


def test_what_cannot_be_merged_is_refused(store: Store) -> None:
    filled(store, "a", rows(4))
    store.create_stream("other", pa.schema([("ts", pa.int64()), ("y", pa.int64())]), "ts")
    for inputs, error, message in [
        ([], InputError, "no inputs"),
        (["a", "a"], InputError, "two inputs 'a'"),
        ("a", InputError, "expected a list"),
        ([[]], SchemaError, "columns of the inputs are not known"),
        (["others"], NotFoundError, "there is no stream 'others'; did you mean 'other'.* .queries begin with SEL"),
        (["a", "other"], SchemaError, "no column 'k'; expected those of the others"),
        ({"a": "a", "n": 5}, InputError, r"input 'n' is 5 \(int\); expected the name of a stream"),
    ]:
        with pytest.raises(error, match=message):
            store.merge_into("clean", inputs, key=["x"])
    with pytest.raises(SchemaError, match="no column 'y'; expected those of stream 'other', into which they go"):
        store.merge_into("other", ["a"], key=True)
    store.create_stream("fewer", pa.schema([("ts", pa.int64()), ("k", pa.string())]), "ts")
    with pytest.raises(SchemaError, match="has a column 'x', which is not among those of stream 'fewer', into which"):
        store.merge_into("fewer", ["a"], key=True)
    with pytest.raises(SchemaError, match="input 'a' has a column 'x', which is not among those of the others"):
        store.merge_into("clean", ["fewer", "a"], key=True)
    with pytest.raises(InputError, match="found the delay of 'b', which is no input; known are 'a'"):
        store.merge_into("clean", ["a"], key=["x"], delay={"b": 1})
    with pytest.raises(InputError, match="there is no policy 'eager'"):
        store.merge_into("clean", ["a"], key=True, policy="eager")
    with pytest.raises(InputError, match="there is no algorithm 'R7'"):
        store.merge_into("clean", ["a"], algorithm="R7")
    with pytest.raises(InputError, match="cannot read 'a' itself"):
        store.merge_into("a", ["a"], key=["x"])
    assert "clean" not in store
    with store.merge_into("clean", ["a"], key=["x"]) as merging:
        with pytest.raises(LockedError):
            store.merge_into("clean", ["a"], key=["x"])
        with pytest.raises(InputError, match="there was an input 'a' before"):
            merging.attach("a")
        for wrong in ("", 5):
            with pytest.raises(InputError, match=f"found the name {wrong!r} of an input; expected a text"):
                merging.attach(wrong, "a")  # type: ignore[arg-type]  # as somebody may do
        with pytest.raises(NotFoundError):
            merging.detach("b")
    with pytest.raises(InputError, match="drop it first"):
        store.merge_into("clean", ["a"], key=["k"])


def test_inputs_whose_streams_are_dropped_have_left(store: Store) -> None:
    """A merge that is begun again goes on with those that are there; a table is an input, too."""
    filled(store, "a", rows(4))
    filled(store, "b", rows(6))
    for _ in range(2):
        with store.merge_into("clean", ["a", "b"] if "a" in store else [], key=["x"], follow=False) as merging:
            merging.wait()
            assert [each.name for each in merging.inputs] == (["a", "b"] if "a" in store else ["b"])
        if "a" in store:
            store.drop_stream("a")
    inputs = {"b": "b", "table": pa.Table.from_batches([batch(rows(8))])}
    with store.merge_into("clean", inputs, key=["x"], follow=False) as merging:
        merging.wait()
    assert clean(store) == rows(8)


def test_a_stream_that_is_created_again_is_another_input(store: Store) -> None:
    """The one that was dropped has left; what bears its name now may be attached under a name of its own."""
    filled(store, "a", rows(4))
    filled(store, "b", rows(6))
    with store.merge_into("clean", ["a", "b"], key=["x"], follow=False) as merging:
        merging.wait()
    store.drop_stream("a")
    filled(store, "a", rows(8)[6:])
    with pytest.raises(NotFoundError, match="it was dropped and created again"):
        store.merge_into("clean", ["a", "b"], key=["x"])
    with store.merge_into("clean", ["b"], key=["x"]) as merging:
        assert [each.name for each in merging.inputs] == ["b"]
        merging.attach("new", "a")
        done(merging)
    assert clean(store) == rows(8)


def test_inputs_that_are_wrong_leave(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise that is broken, a query that fails, a stream that is dropped; the last one's error is the merge's."""
    monkeypatch.setattr("tidelog.engine.online.subscription._LOOK_EVERY", 0.0)
    whole = rows(40)
    for name in ("good", "dropped"):
        filled(store, name, whole)
    filled(store, "twice", [*whole[:4], (whole[3][0], whole[3][1], 99)])
    cast = "CAST(CASE WHEN x > 5 THEN k ELSE CAST(x AS VARCHAR) END AS BIGINT)"
    failing = f"SELECT ts, k, {cast} AS x FROM good"
    inputs = {"twice": "twice", "failing": failing, "dropped": "dropped", "good": "good"}
    with store.merge_into("clean", inputs, key="k", delay=1000) as merging:
        until(lambda: merging.stats()["behind"] == 0 and len(merging.failures) == 2)
        store.drop_stream("dropped")
        until(lambda: [each.name for each in merging.inputs] == ["good"])
        told = {name: type(error).__name__ for name, error in merging.failures.items()}
        assert told == {"twice": "RepeatedKeyError", "failing": "EvaluationError", "dropped": "NotFoundError"}
        done(merging)
    assert clean(store) == whole
    merging = store.merge_into("other", ["twice"], key="k", delay=1000)
    with pytest.raises(RepeatedKeyError, match=r"input 'twice'.* another event of a key"):
        merging.wait(PATIENCE)


@pytest.mark.parametrize("how", ["stream", "query", "windows"])
def test_inputs_that_are_behind_do_not_read_what_is_settled(
    store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Streams, and streams of queries: what all inputs read together is hardly more than one of them has."""
    for module in ("flow", "merging.sources"):
        monkeypatch.setattr(f"tidelog.engine.online.{module}.MOST_ROWS", 100)
    whole = rows(6000)
    for name in "ab":
        filled(store, name, whole)
    text = {
        "stream": "{}",
        "query": "SELECT ts, k, x FROM {} WHERE x >= 0",
        "windows": "SELECT window_end AS ts, k, sum(x)::BIGINT AS x FROM TUMBLE(TABLE {}, DESCRIPTOR(ts), 20)"
        " GROUP BY window_start, window_end, k",
    }[how]
    inputs = {name: text.format(name) for name in "ab"}
    delay = 0 if how == "stream" else None
    read = []
    take = Input.take

    def counted(self: Input, most: int, most_behind: int | None = None) -> pa.RecordBatch | None:
        taken = take(self, most, most_behind)
        read.append(0 if taken is None else taken.num_rows)
        return taken

    monkeypatch.setattr(Input, "take", counted)
    found = {}
    for feedback in (False, True):
        read.clear()
        into = f"clean {feedback}"
        with monkeypatch.context() as patch:
            if not feedback:
                patch.setattr(Input, "skip", lambda self, horizon: None)
            with store.merge_into(into, inputs, key="k", delay=delay, follow=False) as merging:
                merging.wait()
        found[feedback] = clean(store, into), sum(read)
    assert found[True][0] == found[False][0]
    if how != "windows":
        assert found[True][0] == whole
    assert found[False][1] == 2 * len(whole)
    assert found[True][1] < 0.6 * found[False][1]


def test_history_of_copies_with_gaps_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only one copy has comes out, though others were read past it before."""
    monkeypatch.setattr("tidelog.engine.online.flow.MOST_ROWS", 100)
    whole = rows(1500)
    for lost, name in enumerate("abc"):
        filled(store, name, [each for each in whole if each[2] % 3 != lost])
    merge = "LOGICAL_MERGE(TABLE a, (SELECT * FROM b WHERE x >= 0), TABLE c, KEY => *, DELAY => 1)"
    with store.subscribe(f"SELECT ts, k, x FROM {merge}", name="read", follow=False) as found:
        assert sorted(tuple(row.values()) for each in found for row in each.to_pylist()) == whole
    text = f"SELECT window_end, count(*) AS n FROM {merge} GROUP BY window(ts, 100)"
    with store.subscribe(text, follow=False) as found:
        assert [each for batch in found for each in batch.column("n").to_pylist()] == [20] * 75


def test_queries_with_a_delay_do_not_wait_for_copies_that_lag(store: Store) -> None:
    """A copy is dead from the beginning, the other one dies, and comes back too late for some of its rows."""
    streams = [store.create_stream(name, SCHEMA, time="ts", lateness=5) for name in "ab"]
    merge = "LOGICAL_MERGE(TABLE a, (SELECT * FROM b WHERE x < 1000), KEY => *, DELAY => 10)"
    text = f"SELECT window_end, count(*) AS n FROM {merge} GROUP BY window(ts, 10)"
    late: list[tuple[str, int]] = []
    found: list[dict[str, Any]] = []
    with store.subscribe(text, on_late=lambda name, rows: late.append((name, rows.num_rows))) as subscription:
        for ahead, first, last in ((0, 0, 100), (1, 80, 150), (0, 100, 220), (1, 190, 260)):
            times = list(range(first, last))
            streams[ahead].append({"ts": times, "k": ["p"] * len(times), "x": [1] * len(times)})
            streams[ahead].flush()
            whole = (last - 1 - 5 - 10) // 10
            while len(found) < whole:
                found += next(subscription).to_pylist()
            assert found == [{"window_end": 10 * each + 10, "n": 10} for each in range(whole)]
    assert late == [("b", 4), ("a", 34), ("b", 14)]


@pytest.mark.parametrize("algorithm", ["R0", "R2", "R2dup"])
def test_rows_are_put_in_order_for_those_who_want_that(store: Store, algorithm: str) -> None:
    """Streams, a query, whose rows come as they arrive, and batches that end; gone on with in the middle."""
    dice, whole = random.Random(8), rows()
    if algorithm == "R0":
        whole = [(number, *row[1:]) for number, row in enumerate(whole)]
    given = [received(dice, whole) for _ in range(3)]
    if algorithm != "R2":
        given = [sorted(set(each), key=each.index) for each in given]
    streams = [store.create_stream(name, SCHEMA, "ts", lateness=DELAY) for name in ("north", "south")]
    inputs = {"north": "north", "query": "SELECT * FROM south", "batches": pieces(given[2][:200])}
    options: dict[str, Any] = {"algorithm": algorithm, "delay": {"batches": DELAY}}
    if algorithm == "R2":
        options["key"] = True
    for place in range(3):
        for stream, own in zip(streams, given, strict=False):
            stream.append(batch(own[place * len(own) // 3 : (place + 1) * len(own) // 3]))
            stream.flush()
        with store.merge_into("clean", inputs, **options) as merging:
            until(lambda: merging.stats()["behind"] == 0)
            assert all(each.late == 0 for each in merging.inputs)
            if place == 2:
                last = [(whole[-1][0] + 2 * DELAY, "last", 1), (whole[-1][0] - 100, "late", 1)]
                streams[0].append(batch(last))
                streams[0].flush()
                until(lambda: sum(each.late for each in merging.inputs) == 1)
                done(merging)
    assert clean(store) == whole


@pytest.mark.parametrize("first", ["short", "whole"])
def test_whoever_ends_last_all_are_merged_to_their_ends(store: Store, first: str) -> None:
    """The rows that an input has left waiting are not lost because another one ends after it."""
    dice, whole = random.Random(9), rows()
    given = {"short": pieces(received(dice, whole)[:250], 5), "whole": pieces(received(dice, whole), 5)}
    has_ended = threading.Event()

    def giving(name: str) -> Iterator[pa.RecordBatch]:
        if name != first:
            assert has_ended.wait(PATIENCE)
        yield from given[name]
        has_ended.set()

    with store.merge_into(
        "clean", {name: giving(name) for name in given},
        algorithm="R2", key=True, delay=DELAY, schema=SCHEMA, time="ts", follow=False,
    ) as merging:  # fmt: skip
        assert merging.wait(PATIENCE)
    assert merging.inputs == []
    assert clean(store) == whole


@pytest.mark.parametrize("again", [False, True])
def test_ends_that_lack_different_rows_are_merged_by_time(store: Store, again: bool) -> None:
    """Nothing tells of any row that it is in time before all have ended; gone on with when one has, too."""
    whole = rows()
    given = {name: pieces([each for each in whole if each[2] % 3 != place]) for place, name in enumerate("abc")}
    options: dict[str, Any] = {
        "algorithm": "R2", "key": True, "delay": 10 * len(whole), "schema": SCHEMA, "time": "ts", "follow": False,
    }  # fmt: skip
    if again:
        has_read = threading.Event()

        def held() -> Iterator[pa.RecordBatch]:
            yield from given["c"][:2]
            has_read.wait(PATIENCE)

        with store.merge_into("clean", {**given, "c": held()}, **options) as merging:
            until(lambda: merging._merge.sources["a"].has_ended)
            merging.stop()
            has_read.set()
        assert clean(store) == []
    with store.merge_into("clean", given, **options) as merging:
        assert merging.wait(PATIENCE)
    assert clean(store) == whole


def test_what_an_input_has_left_is_dropped_when_others_are_past_it(store: Store) -> None:
    """It leaves then, though a stream beside it has no end."""
    whole = rows()
    stream = store.create_stream("north", SCHEMA, "ts", lateness=DELAY)
    inputs = {"batches": pieces(whole[:100]), "north": "north"}
    with store.merge_into("clean", inputs, algorithm="R2", key=True, delay={"batches": DELAY}) as merging:
        stream.append(batch(whole[:90]))
        stream.flush()
        until(lambda: merging.stats()["behind"] == 0)
        assert {each.name for each in merging.inputs} == {"batches", "north"}
        stream.append(batch(whole[90:]))
        stream.flush()
        until(lambda: [each.name for each in merging.inputs] == ["north"])
        done(merging)
    assert clean(store) == [each for each in whole if each[0] < whole[-1][0] - DELAY]


@pytest.mark.parametrize("algorithm", ["auto", "R2"])
def test_rows_that_are_late_for_a_query_are_counted(store: Store, algorithm: str) -> None:
    store.create_stream("a", SCHEMA, "ts", lateness=0).append(batch([(at, "p", at) for at in (1, 5, 3, 9, 2)]))
    store.flush()
    inputs = {"query": "SELECT * FROM a WHERE x > 0"}
    for _ in range(2):  # those of before are not counted again
        with store.merge_into("clean", inputs, key=True, algorithm=algorithm, follow=False) as merging:
            merging.wait(PATIENCE)
            assert [each.late for each in merging.inputs] == [2]
    assert merging.stats()["late"] == 2


@pytest.mark.parametrize("delay", ["", ", DELAY => 10"])
def test_windows_behind_a_merge_of_streams_without_lateness_come_out(store: Store, delay: str) -> None:
    """Rows wait behind the merge, so that none may be late unless it is said how late, as in front of windows alone."""
    for name in "ab":
        filled(store, name, [(at, "p", 1) for at in (1, 12, 25, 37)])
    merge = f"LOGICAL_MERGE(TABLE a, TABLE b, KEY => *{delay})"
    with store.subscribe(f"SELECT window_end, count(*) AS n FROM {merge} GROUP BY window(ts, 10)") as subscription:
        found = subscription.next(PATIENCE)
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [(10, 1), (20, 1), (30, 1)]
