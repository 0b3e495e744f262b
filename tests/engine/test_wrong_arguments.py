"""Every public call with all kinds of values for each of its arguments: an answer, or an error of tidelog's own."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidelog
from support.media.memory import MemoryMedium
from support.wrong_values import WRONG, failures, variants
from tidelog import aggregates, model
from tidelog.engine.queries import Queries
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import TidelogError
from tidelog.store.manifest.sequence_set import SeqSet

SCHEMA: Final = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64()), ("s", pa.string())])
NAME: Final = "s"


def rows() -> pa.Table:
    times = [datetime.datetime(2026, 1, 1, 0, minute) for minute in range(20)]
    return pa.table([times, [float(each) for each in range(20)], ["a", "b"] * 10], schema=SCHEMA)


def filled() -> Store:
    """A store with rows in a tree and in memory."""
    store = Store(MemoryMedium())
    stream = store.create_stream(NAME, SCHEMA, "ts", leaf_rows=4, fanout=3)
    stream.append(rows())
    stream.flush()
    return store


def closed(store: Store) -> None:
    with contextlib.suppress(TidelogError):
        store.close()


QUERIES: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "scan": ((None, None, ["x"], "x > 1"), {"as_of": None, "seq": False, "limit": 5, "newest_first": True}),
    "aggregate": ((None, None, ["count(*)"], "x > 1"), {"as_of": None}),
    "explain": ((None, None, ["count(*)"], "x > 1"), {"as_of": None}),
    "aggregate_all": (([(None, None)], ["count(*)"], "x > 1"), {"as_of": None}),
    "rank": ((5,), {"as_of": None}),
    "nth": ((0, ["x"]), {"as_of": None}),
}
"""Calls that are right, by name: positional arguments and others."""

CHANGES: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "append": (({"ts": 5, "x": 1.0, "s": "a"},), {"producer": "p", "number": 1}),
    "last_number": (("p",), {}),
    "delete_before": ((5,), {}),
    "coarsen": ((5, "1h"), {}),
    "compact": ((10**6,), {}),
    "attach": ((["second_largest(x)"], "next_split"), {}),
    "detach": (([],), {}),
    "configure": ((), {"retention": "1d", "coarse_after": "1d", "coarse_grain": "1h", "grace": 5}),
    "evolve": ((None,), {"add": [("y", pa.int64())], "widen": {}, "rename": {"x": "z"}, "loosen": []}),
    "maintain": ((10**6,), {}),
}

STORE: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "create_stream": (("new", SCHEMA, "ts"), {"data": rows(), "exist_ok": True, "split": "1d"}),
    "create_streams": ((["new"], SCHEMA, "ts"), {"exist_ok": False, "split": "1d"}),
    "stream": ((NAME,), {}),
    "drop_stream": ((NAME,), {}),
    "rename_stream": ((NAME, "other"), {}),
    "replay": (([NAME], None, None, "x > 1"), {}),
    "sql": (("SELECT count(*) FROM s", None), {"tables": None, "as_of": None, "timezone": "UTC"}),
    "subscribe": (
        ("SELECT ts, x FROM s", None),
        {
            "start": None,
            "name": "p",
            "into": "t",
            "callback": None,
            "lateness": 5,
            "idle_timeout": 0.1,
            "on_late": None,
            "when_behind": "wait",
            "most_behind": 5,
            "follow": False,
            "workers": 2,
        },
    ),
    "situations": (
        ("s",),
        {
            "define": {"a": "x > 1", "b": "x > 2"},
            "pattern": "a before b",
            "within": "1h",
            "returns": {"n": "count(a.*)"},
            "partition_by": "s",
            "mode": "early",
            "dialect": "allen",
            "as_of": None,
            "timezone": "UTC",
        },
    ),
    "merge_into": (
        ("t", ["s"]),
        {
            "key": ["x"],
            "delay": 5,
            "algorithm": "auto",
            "policy": "lazy",
            "output": None,
            "name": "p",
            "start": None,
            "schema": None,
            "time": None,
            "follow": False,
        },
    ),
    "drop_subscription": (("p",), {}),
    "remove_orphans": (("1d",), {}),
    "maintain": ((10**6,), {}),
}
STORE_ON_DISK: Final = frozenset({"open", "backup", "salvage"})


def public(kind: type) -> set[str]:
    """Public calls that take arguments."""
    calls = {name: call for name, call in inspect.getmembers(kind, callable) if not name.startswith("_")}
    return {name for name, call in calls.items() if set(inspect.signature(call).parameters) - {"self"}}


def test_nothing_public_is_left_out() -> None:
    assert public(Stream) == {*QUERIES, *CHANGES}
    assert public(Queries) == {*QUERIES}
    assert public(Store) == {*STORE, *STORE_ON_DISK}


@pytest.mark.parametrize("name", QUERIES)
def test_questions(name: str) -> None:
    store = filled()
    stream = store.stream(NAME)
    found = {
        what: wrong
        for what, args, others in variants(*QUERIES[name])
        if (wrong := failures(getattr(stream, name), *args, **others))
    }
    assert not found, "\n".join(f"{name}, {what}: {wrong}" for what, wrong in found.items())
    assert stream.scan().read_all().num_rows == 20
    closed(store)


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    found = {}
    store = filled()
    for what, args, others in variants(*CHANGES[name]):
        stream = store.stream(NAME)
        wrong = failures(getattr(stream, name), *args, **others)
        if wrong is None:
            wrong = failures(stream.flush)
        if wrong:
            found[what] = wrong
        if stream.schema.arrow.names != SCHEMA.names or len(stream) != 20:
            closed(store)
            store = filled()
    assert not found, "\n".join(f"{name}, {what}: {wrong}" for what, wrong in found.items())
    closed(store)


@pytest.mark.filterwarnings("ignore:the merge into 't' has no key")
@pytest.mark.parametrize("name", STORE)
def test_calls_of_a_store(name: str) -> None:
    found = {}
    store = filled()
    for what, args, others in variants(*STORE[name]):
        if wrong := failures(getattr(store, name), *args, **others):
            found[what] = wrong
        if store.streams() != [NAME]:
            closed(store)
            store = filled()
    assert not found, "\n".join(f"{name}, {what}: {wrong}" for what, wrong in found.items())
    closed(store)


def test_rows_of_wrong_values() -> None:
    store = filled()
    stream = store.stream(NAME)
    found = {}
    right: dict[str, Any] = {"ts": 5, "x": 1.0, "s": "a"}
    for column, (what, value) in itertools.product(right, WRONG.items()):
        for form in (
            {**right, column: value},
            [{**right, column: value}, right],
            {**{each: [one, one] for each, one in right.items()}, column: [value, value]},
        ):
            if wrong := failures(stream.append, form):
                found[f"{column} = {what} in {type(form).__name__}"] = wrong
    for what, value in WRONG.items():
        for data in ({**right, "y": value}, [value], [right, value]):
            if wrong := failures(stream.append, data):
                found[f"{what} in {type(data).__name__}"] = wrong
    assert not found, "\n".join(f"{what}: {wrong}" for what, wrong in found.items())
    stream.flush()
    assert store.check() == []
    closed(store)


def test_options_of_streams() -> None:
    store = filled()
    names = list(inspect.signature(type(store.stream(NAME).options)).parameters)
    found = {}
    for option, (what, value) in itertools.product(names, WRONG.items()):
        if wrong := failures(store.create_stream, "new", SCHEMA, "ts", **{option: value}):
            found[f"{option} = {what}"] = wrong
        if "new" in store:
            store.drop_stream("new")
    assert not found, "\n".join(f"{what}: {wrong}" for what, wrong in found.items())
    closed(store)


def test_stores_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()
    found = {}
    with tidelog.open("source") as store:
        store.create_stream(NAME, SCHEMA, "ts").append(rows())
        store.backup("copy")

        def opened(*args: Any, **others: Any) -> None:
            tidelog.open(*args, **others).close()

        def backed_up(*args: Any, **others: Any) -> None:
            store.backup(*args, **others)

        calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
            "open": (opened, ("other",), {"read_only": False, "maintenance": "manual"}),
            "backup": (
                backed_up,
                ("to",),
                {"streams": [NAME], "link": False, "verify": False, "progress": None},
            ),
            "salvage": (tidelog.salvage, ("copy", "to"), {}),
            "restore": (tidelog.restore, ("copy", "to"), {"progress": None}),
        }
        for name, (call, right, settings) in calls.items():
            for what, args, others in variants(right, settings):
                if what in ("progress = lambda", "progress = type"):
                    continue  # which are called, and fail on their own account
                fresh = tuple(f"to{next(numbers)}" if isinstance(each, str) and each == "to" else each for each in args)
                if wrong := failures(call, *fresh, **others):
                    found[f"{name}, {what}"] = wrong
    assert not found, "\n".join(f"{what}: {wrong}" for what, wrong in found.items())


def functions() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    schema = tidelog.Schema(SCHEMA, "ts")
    clock = schema.clock
    interval = tidelog.Interval(1, 5)
    (batch,) = rows().to_batches()
    return {
        "Schema": (tidelog.Schema, (SCHEMA, "ts"), {}),
        "Schema.from_json": (tidelog.Schema.from_json, (schema.to_json(),), {}),
        "Schema.from_dict": (tidelog.Schema.from_dict, (schema.to_dict(),), {}),
        "Schema.index": (schema.index, ("x",), {}),
        "Schema.field": (schema.field, ("x",), {}),
        "Schema.renamed": (schema.renamed, (("a", "b", "c"),), {}),
        "Schema.__contains__": (schema.__contains__, ("x",), {}),
        "Interval": (tidelog.Interval, (1, 2), {}),
        "Interval.contains": (interval.contains, (1,), {}),
        "Interval.intersect": (interval.intersect, (interval,), {}),
        "Interval.overlaps": (interval.overlaps, (interval,), {}),
        "Clock": (model.Clock, (pa.int64(),), {}),
        "Clock.instant": (clock.instant, (5,), {}),
        "Clock.bound": (clock.bound, (5,), {}),
        "Clock.duration": (clock.duration, ("1h",), {}),
        "Clock.interval": (clock.interval, (5, 6), {}),
        "Clock.format": (clock.format, (5,), {}),
        "to_batches": (model.to_batches, ({"ts": 5}, schema), {}),
        "infer_schema": (model.infer_schema, (rows(), "ts"), {}),
        "check_evolution": (model.check_evolution, (schema, schema), {}),
        "project": (model.project, (batch, schema), {}),
        "RowReader": (model.RowReader, (schema,), {}),
        "RowReader.read": (model.RowReader(schema).read, ({"ts": 5},), {}),
        "bind": (aggregates.bind, ("second_largest", "x"), {}),
        "bind with a parameter": (aggregates.bind, ("second_largest", "x"), {"k": 5}),
        "find": (aggregates.find, ("second_largest",), {}),
        "named": (aggregates.named, ("second_largest",), {}),
        "register": (aggregates.register, (1,), {}),
        "unregister": (aggregates.unregister, (1,), {}),
        "Binding.from_dict": (aggregates.Binding.from_dict, (aggregates.bind("second_largest", "x").to_dict(),), {}),
        "SeqSet": (SeqSet, ([(0, 5)],), {}),
        "SeqSet.below": (SeqSet.below, (5,), {}),
        "situations": (
            tidelog.situations,
            (rows(), None),
            {
                "define": {"a": "x > 1", "b": "x > 2"},
                "pattern": "a before b",
                "within": 5,
                "returns": {"n": "count(a.*)"},
                "partition_by": ["s"],
                "time": "ts",
                "mode": "completed",
                "dialect": "thesis",
                "timezone": "UTC",
                "sql_memory": None,
            },
        ),
        "merge": (
            tidelog.merge,
            ([rows(), rows()],),
            {
                "time": "ts",
                "key": True,
                "algorithm": "auto",
                "policy": "lazy",
                "check": "inputs",
                "delay": 5,
                "order": "none",
                "same_ties": False,
                "inserts_only": True,
                "output": "events",
                "concurrent": False,
                "feedback": True,
            },
        ),
        "reconstitute": (tidelog.reconstitute, ([],), {"frozen": False}),
    }


@pytest.mark.filterwarnings("ignore:no key is declared for a merge")
@pytest.mark.parametrize("name", functions())
def test_functions(name: str) -> None:
    call, right, settings = functions()[name]
    found = {
        what: wrong for what, args, others in variants(right, settings) if (wrong := failures(call, *args, **others))
    }
    assert not found, "\n".join(f"{name}, {what}: {wrong}" for what, wrong in found.items())


def test_aggregates_with_wrong_members() -> None:
    found = {}
    members = ("id", "name", "arity", "parameters", "depends_on", "sees_nulls", "by_place", "by_value")
    tried = list(itertools.product(members, WRONG.items()))
    for what, value in WRONG.items():
        tried.append(("depends_on", (f"Needs of {what}", [aggregates.Needs(value)])))
        tried.append(("depends_on", (f"columns of {what}", [aggregates.Needs("m:n", value)])))
    for member, (what, value) in tried:
        for base in (aggregates.Incremental, aggregates.Virtual):
            body = {"name": "wrong_one", **dict.fromkeys(("init", "merge", "eval"), lambda *_: None), member: value}
            kind = type("Wrong", (base,), body)
            before = aggregates.names()
            wrong = failures(aggregates.register, kind)
            if aggregates.names() != before:
                wrong = wrong or failures(aggregates.bind, "wrong_one", "x")
                aggregates.unregister(kind)
            if wrong:
                found[f"{member} = {what}, {base.__name__}"] = wrong
    assert not found, "\n".join(f"{what}: {wrong}" for what, wrong in found.items())


def test_dependencies_as_text_are_told_as_that() -> None:
    body = {"name": "wrong_one", "eval": lambda *_: None, "depends_on": "row_count"}
    with pytest.raises(
        tidelog.InputError, match=r"found 'row_count' \(str\) for depends_on of Wrong; expected a list of"
    ):
        aggregates.register(type("Wrong", (aggregates.Virtual,), body))


def test_texts_as_numbers_of_all_kinds() -> None:
    """What was brought to light one by one before there was a campaign."""
    with filled() as store:
        stream = store.stream(NAME)
        for call in (
            lambda: stream.aggregate(None, None, 5),  # type: ignore[arg-type]
            lambda: stream.nth("a"),  # type: ignore[arg-type]
            lambda: stream.nth(1.5),  # type: ignore[arg-type]
            lambda: stream.aggregate_all([1, 2], ["count(*)"]),  # type: ignore[list-item]
            lambda: stream.scan(where=pc.field("x") > 1),
            lambda: stream.scan(where=["x > 1"]),  # type: ignore[arg-type]
            lambda: tidelog.open(5),  # type: ignore[arg-type]
        ):
            with pytest.raises(TidelogError, match=r"found .*expected"):
                call()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_that_python_has_no_value_for(unit: str) -> None:
    times = [-(2**63), -(2**62), 0, 2**62, 2**63 - 1]
    schema = pa.schema([("ts", pa.timestamp(unit)), ("day", pa.date32())])
    with Store(MemoryMedium()) as store:
        stream = store.create_stream(NAME, schema, "ts", leaf_rows=2, fanout=2)
        days = pa.array([None, -(2**31), 0, 2**31 - 1, 5], pa.int32()).cast(pa.date32())
        stream.append(pa.table([pa.array(times, pa.int64()).cast(pa.timestamp(unit)), days], schema=schema))
        for flushed in (False, True):
            if flushed:
                stream.flush()
            found = [stream.nth(place)["ts"] for place in range(len(times))]
            assert [stream.schema.clock.instant(time) for time in found] == times
            assert [stream.rank(time) for time in found] == [0, 1, 2, 3, 4]
            assert np.datetime64(stream.nth(3)["day"]).astype("M8[D]").astype(np.int64) == 2**31 - 1
            for where in (None, "ts IS NOT NULL"):
                answer = stream.aggregate(None, None, ["min(ts)", "max(ts)", "min(day)", "max(day)", "last(ts)"], where)
                clock = stream.schema.clock
                assert clock.instant(answer["min(ts)"]) == times[0]
                assert clock.instant(answer["max(ts)"]) == clock.instant(answer["last(ts)"]) == times[-1]
                assert answer["min(day)"].astype(np.int64) == -(2**31)
                assert answer["max(day)"].astype(np.int64) == 2**31 - 1
