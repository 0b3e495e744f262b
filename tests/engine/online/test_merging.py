"""Merges into streams: copies that differ become one stream, each event once, while inputs come, go and fail."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from operators.merge.copies import KINDS, copy, events
from tidelog.engine.online.merging.merging import Merging
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import ClosedError, InputError, LockedError, NotFoundError, SchemaError
from tidelog.operators.merge.codes import NEVER, STABLE
from tidelog.operators.merge.elements import KINDS as NAMES
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.table import table_of

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", pa.string()), ("x", pa.int64())])
DELAY = 40
_SECONDS = 20.0


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


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def done(merging: Merging) -> None:
    merging.finish()
    assert merging.wait(_SECONDS)
    merging.close()


def test_receivers_that_differ_become_one_stream(store: Store) -> None:
    dice, whole = random.Random(1), rows()
    filled(store, "north", received(dice, whole))
    filled(store, "south", received(dice, whole))
    with store.merge_into("clean", ["north", "south"], key=["k", "x"], delay=DELAY, follow=False) as merging:
        assert merging.wait(_SECONDS)
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
        assert merging.wait(_SECONDS)
        assert {each.name for each in merging.inputs} == {"b", "third"}
    assert clean(store) == whole


def test_a_crash_before_rows_are_appended_does_no_harm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, whole = random.Random(5), rows()
    given = {name: pieces(received(dice, whole), 50) for name in ("a", "b")}
    streams = {name: store.create_stream(name, SCHEMA, "ts") for name in given}
    real = Stream.append
    for turn in range(max(map(len, given.values()))):
        for name, stream in streams.items():
            if turn < len(given[name]):
                real(stream, given[name][turn])
                stream.flush()
        with monkeypatch.context() as patched:
            if turn % 2:
                patched.setattr(Stream, "append", _crash)
            merging = store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, follow=False)
            with pytest.raises(OSError, match="a crash") if turn % 2 else nullcontext():
                merging.wait(_SECONDS)
            merging.stop()
    with store.merge_into("clean", ["a", "b"], key=["x"], delay=DELAY, follow=False) as merging:
        merging.wait(_SECONDS)
    assert clean(store) == whole


def _crash(*_: Any, **__: Any) -> None:
    raise OSError("a crash")


def test_batches_that_are_given_and_one_giver_that_dies(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    dice, whole = random.Random(6), rows()
    one, other = received(dice, whole), received(dice, whole)

    def dying() -> Iterator[pa.RecordBatch]:
        yield from pieces(other)[:4]
        raise OSError("the receiver is gone")

    inputs = {"one": pieces(one), "dying": dying()}
    with store.merge_into("clean", inputs, key=["x"], delay=DELAY, schema=SCHEMA, time="ts", follow=False) as merging:
        assert merging.wait(_SECONDS)
    assert clean(store) == whole
    assert str(merging.failures["dying"]) == "the receiver is gone"
    assert "'dying' of a merge has failed" in caplog.text


def test_it_fails_if_all_who_give_do(store: Store) -> None:
    def dying() -> Iterator[pa.RecordBatch]:
        yield from pieces(rows(10))
        raise OSError("the receiver is gone")

    merging = store.merge_into("clean", {"only": dying()}, key=["x"], delay=DELAY, schema=SCHEMA, time="ts")
    with pytest.raises(OSError, match="the receiver is gone"):
        merging.wait(_SECONDS)
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
            assert merging.wait(_SECONDS)
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
            assert merging.wait(_SECONDS)
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
        assert merging.wait(_SECONDS)
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
        (["nowhere"], Exception, "nowhere"),
        (["a", "other"], SchemaError, "no column 'k'"),
        ({"a": "a", "n": 5}, InputError, "input 'n' is a int"),
    ]:
        with pytest.raises(error, match=message):
            store.merge_into("clean", inputs, key=["x"])
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
        with pytest.raises(NotFoundError):
            merging.detach("b")
    with pytest.raises(InputError, match="drop it first"):
        store.merge_into("clean", ["a"], key=["k"])
