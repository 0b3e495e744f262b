"""``tidelog.merge`` on iterables of batches: what comes out, which algorithm, what is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any

import polars
import pyarrow as pa
import pytest

import tidelog
from operators.merge.arrow import SHAPE, batch_of, elements_of
from operators.merge.copies import KINDS, copy, events
from support.alarms import Interrupted, an_interrupt
from tidelog.merging import (
    DisagreementError,
    MergeError,
    Order,
    OrderError,
    Properties,
    RepeatedKeyError,
    RepeatsWarning,
    Source,
    from_changes,
    merge,
)
from tidelog.merging.reading import AtOnce
from tidelog.model.errors import ClosedError, InputError, NotFoundError, SchemaError, TimeError
from tidelog.operators.base import FOREVER
from tidelog.operators.merge.codes import NEVER, STABLE
from tidelog.operators.merge.table import table_of

SCHEMA = pa.schema([("ts", pa.int64()), ("sensor", pa.string()), ("value", pa.float64())])


def rows(*values: tuple[int, str, float]) -> pa.Table:
    return pa.table([list(each) for each in zip(*values, strict=True)], schema=SCHEMA)


ONE = rows((1, "a", 0.5), (2, "b", 1.5), (4, "a", 2.5), (7, "b", 0.25))


def shuffled(dice: random.Random, table: pa.Table, reach: int) -> list[pa.RecordBatch]:
    """In batches, events up to so many ticks behind newer ones."""
    times = table.column("ts").to_pylist()
    order = sorted(range(len(times)), key=lambda row: times[row] + dice.random() * reach)
    mixed, found = table.take(pa.array(order)), []
    while mixed.num_rows:
        size = dice.randint(1, 9)
        found += mixed.slice(0, size).combine_chunks().to_batches()
        mixed = mixed.slice(size)
    return found


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("concurrent", [False, True])
def test_copies_in_other_orders_become_one(concurrent: bool) -> None:
    for seed in range(20):
        dice = random.Random(seed)
        whole = rows(*((dice.randrange(60), dice.choice("abc"), float(place)) for place in range(80)))
        inputs = [shuffled(dice, whole, 8) for _ in range(3)]
        merged = tidelog.merge(inputs, time="ts", key=True, delay=8, concurrent=concurrent)
        assert counted(merged.read_all()) == counted(whole)
        stats = merged.stats()
        assert (stats.inserts, stats.algorithm) == (80, "R2d")
        assert 80 <= stats.rows <= 3 * 80  # none is read to the end once one is complete
        assert stats.reached == FOREVER


def test_repeats_count_unless_there_is_a_key() -> None:
    twice = pa.concat_tables([ONE, ONE]).sort_by("ts")
    with pytest.warns(RepeatsWarning, match="an event that an input sends twice counts as two"):
        merged = tidelog.merge([twice, ONE], time="ts", order="rising")
    assert merged.stats().algorithm == "R2dup"
    assert counted(merged.read_all()) == counted(twice)
    merged = tidelog.merge([ONE, twice], time="ts", order="rising", key="sensor")
    assert merged.stats().algorithm == "R2"
    assert merged.read_all().equals(ONE)


def test_the_choice_is_explained() -> None:
    merged = tidelog.merge({"left": ONE, "right": ONE}, time="ts", key=["sensor"], order="rising")
    assert merged.explain().splitlines() == [
        "merge of 2 inputs by R2, for inserts in order, with a key",
        "  left: in order, inserts only, key (sensor)",
        "  right: in order, inserts only, key (sensor)",
        "  R0, for inserts whose starts rise strictly: not, several events may have one start, or come out of order",
        "  R1, for inserts in order, those of one start in the same order on every input: not, events that are sent "
        "again would count as others, though there is a key",
        "  R2, for inserts in order, with a key: chosen, the cheapest that is right",
        "  policy lazy, output events, check inputs",
    ]
    merged = tidelog.merge([ONE], time="ts", algorithm="R4", policy="exact")
    assert "R4 was asked for" in merged.explain()
    assert merged.schema.names[:4] == ["kind", "valid_from", "valid_to", "old_valid_to"]
    strict = tidelog.merge([Source(ONE, properties=Properties(Order.STRICT, True, True, ()))], time="ts")
    assert strict.stats().algorithm == "R0"
    assert tidelog.merge([ONE], time="ts", key=True, policy="aggressive").stats().algorithm == "R3"
    assert strict.properties.order == Order.STRICT


@pytest.mark.parametrize(("name", "algorithm"), [("R3", "R3"), ("R4", "R4"), ("R2d", "R2d")])
def test_elements_become_one_stream(name: str, algorithm: str) -> None:
    kind = KINDS[name]
    for seed in range(15):
        dice = random.Random(seed)
        whole = events(dice, kind)
        inputs = []
        for _ in range(3):
            own = [each for each in copy(dice, kind, whole) if each.kind != STABLE or each.end != NEVER]
            inputs.append([batch_of(own[place : place + 5]) for place in range(0, len(own), 5)])
        stables: Any = ("each", "last")[seed % 2]
        merged = merge(inputs, algorithm=algorithm, key=None if name == "R4" else True, check="full", stables=stables)
        found = merged.read_all()
        assert table_of(elements_of(found.to_batches())).events == Counter(whole)
        assert merged.stats().check_seconds > 0
        told = tidelog.reconstitute(found)
        ends = [NEVER if end is None else end for end in told.column("valid_to").to_pylist()]
        starts, sizes = told.column("valid_from").to_pylist(), told.column("size").to_pylist()
        assert Counter(zip(sizes, starts, ends, strict=True)) == Counter(whole)


def test_an_input_that_fails_leaves() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield ONE.slice(0, 2).to_batches()[0]
        raise OSError("gone")

    merged = tidelog.merge({"bad": failing(), "good": ONE}, time="ts", key=True, order="rising")
    assert merged.read_all().equals(ONE)
    stats = merged.stats()
    assert [each.name for each in stats.inputs] == ["good"]
    assert str(stats.failures["bad"]) == "gone"
    assert merged.phase("bad") == "left"
    with pytest.raises(OSError, match="gone"):
        tidelog.merge([failing()], time="ts", key=True, order="rising").read_all()


@pytest.mark.parametrize("concurrent", [False, True])
def test_an_input_that_is_dead_from_the_beginning_leaves(concurrent: bool) -> None:
    def dead() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise OSError("no signal")

    merged = tidelog.merge({"dead": dead(), "good": ONE}, time="ts", key=True, order="rising", concurrent=concurrent)
    assert merged.read_all().equals(ONE)
    if not concurrent:  # else the other one may have been complete before
        assert str(merged.stats().failures["dead"]) == "no signal"
    for call in (
        lambda: tidelog.merge([dead(), dead()], time="ts"),
        lambda: tidelog.reconstitute(dead()),
        lambda: list(from_changes(dead())),
    ):
        with pytest.raises(OSError, match="no signal"):
            call()


@pytest.mark.parametrize("concurrent", [False, True])
def test_what_is_for_the_whole_program_is_no_failure_of_an_input(concurrent: bool) -> None:
    def leaving() -> Iterator[pa.Table]:
        yield ONE.slice(0, 1)
        raise SystemExit(3)

    merged = tidelog.merge([Source(leaving(), schema=ONE.schema)], time="ts", key=True, concurrent=concurrent)
    with pytest.raises(SystemExit):
        merged.read_all()


def test_an_interrupt_is_noticed_while_nothing_comes() -> None:
    released: SimpleQueue[None] = SimpleQueue()

    def waiting() -> Iterator[pa.Table]:
        released.get()
        yield ONE

    with tidelog.merge([Source(waiting(), schema=SCHEMA)], time="ts", key=True, concurrent=True) as merged:
        with pytest.raises(Interrupted), an_interrupt():
            next(merged)
        released.put(None)
        assert merged.read_all().equals(ONE)


def test_an_input_leaves_while_its_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread takes what makes room for a last batch just when whoever lets the input go has seen it there."""

    class Room(SimpleQueue[bool]):
        def empty(self) -> bool:
            is_empty = super().empty()
            if self.qsize() == 1:
                self.get()
            return is_empty

        def get(self, block: bool = True, timeout: float | None = None) -> bool:
            assert not block or not super().empty(), "waits for ever"
            return super().get(block, timeout)

        def get_nowait(self) -> bool:
            return self.get(block=False)

    reading = AtOnce()
    monkeypatch.setattr("tidelog.merging.reading.SimpleQueue", Room)
    monkeypatch.setattr("tidelog.threads.start", lambda job: None)
    reading.add("a", iter([]))
    reading.remove("a")
    assert reading.next() is None


def test_cut_over_and_jump_start() -> None:
    """The old input leaves once the new one, which has no events before its join time, has joined."""
    batches = [ONE.slice(row, 1).to_batches()[0] for row in range(4)]
    with tidelog.merge({"old": batches[:3]}, time="ts", key=True, order="rising") as merged:
        found = [next(merged)]
        assert merged.attach(ONE.slice(2), "new", join=4) == "new"
        assert merged.phase("new") == "pending"
        while merged.phase("new") == "pending":
            found.append(next(merged))
        merged.detach("old")
        found += list(merged)
    assert pa.Table.from_batches(found).equals(ONE)
    assert merged.stats().reached == FOREVER


def test_inputs_that_only_leave_complete_nothing() -> None:
    merged = tidelog.merge([Source(ONE, ends="leaves", delay=2)], time="ts", key=True)
    assert merged.read_all().num_rows == 4
    assert merged.stats().reached == 5
    pending = tidelog.merge([Source(ONE, join=100)], time="ts", key=True, order="rising")
    assert pending.read_all().num_rows == 0
    forced = tidelog.merge({"a": Source(ONE, join=100)}, time="ts", key=True, order="rising")
    forced.force_join("a")
    assert forced.read_all().num_rows == 4


def test_an_input_that_ends_without_a_row_has_only_left(caplog: pytest.LogCaptureFixture) -> None:
    for nothing in (ONE.slice(0, 0), []):
        merged = tidelog.merge({"none": nothing, "all": ONE}, time="ts", key=True)
        assert merged.read_all().equals(ONE)
        assert merged.phase("none") == "left"
    assert "has ended without a row" in caplog.text
    assert tidelog.merge([ONE.slice(0, 0)] * 2, time="ts", key=True).read_all().num_rows == 0


def test_columns_may_stand_in_any_order() -> None:
    other = ONE.select(["value", "ts", "sensor"])
    for inputs in ([ONE, other], [other, ONE]):
        found = tidelog.merge(inputs, time="ts", key=True, delay=0).read_all()
        assert found.select(ONE.column_names).equals(ONE)


def test_inputs_that_are_no_copies_are_found_out() -> None:
    other = rows((1, "a", 0.5), (2, "b", 9.0), (4, "a", 2.5), (7, "b", 0.25))
    merged = tidelog.merge([ONE, other], time="ts", key="sensor", order="rising", check="full")
    with pytest.raises(DisagreementError, match=r"input 'input 1': its events with the start 2 .* input 'input 0'"):
        merged.read_all()
    assert tidelog.merge([ONE, other], time="ts", key="sensor", order="rising").read_all().equals(ONE)
    twice = rows((1, "a", 0.5), (1, "a", 0.75))
    for order in ("rising", "none"):
        with pytest.raises(RepeatedKeyError, match="another event of a key"):
            tidelog.merge([twice], time="ts", key="sensor", order=order).read_all()
    with pytest.raises(OrderError, match="input 'input 0'"):
        tidelog.merge([ONE.take([1, 0])], time="ts", key=True, order="rising").read_all()


def test_rows_before_a_conflict_come_out() -> None:
    good, bad = rows((1, "a", 0.5)), rows((2, "b", 1.5), (2, "b", 2.5))
    merged = tidelog.merge(
        {"a": [good, bad], "b": [ONE.slice(0, 1), ONE.slice(1)]}, time="ts", key="sensor", order="rising"
    )
    found = [next(merged)]
    with pytest.raises(RepeatedKeyError):
        list(merged)
    merged.detach("a")
    assert pa.Table.from_batches([*found, *merged]).num_rows == 4


def test_what_cannot_be_merged_is_refused() -> None:
    with pytest.raises(InputError, match="found no inputs"):
        tidelog.merge([])
    with pytest.raises(InputError, match="no time is named"):
        tidelog.merge([ONE])
    with pytest.raises(SchemaError, match="no column 'tz'"):
        tidelog.merge([ONE], time="tz", key=True)
    with pytest.raises(InputError, match="found int as an input"):
        tidelog.merge([5], time="ts")
    with pytest.raises(InputError, match="give a schema"):
        tidelog.merge([[]], time="ts")
    with pytest.raises(InputError, match="found order 'up'"):
        tidelog.merge([ONE], time="ts", order="up")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no policy 'lasy'; did you mean 'lazy'"):
        tidelog.merge([ONE], time="ts", policy="lasy")
    with pytest.raises(InputError, match="tells every event once and at once; choose R3 or R4"):
        tidelog.merge([ONE], time="ts", key=True, algorithm="R2d", policy="aggressive")
    with pytest.raises(InputError, match="two inputs 'x'"):
        tidelog.merge([Source(ONE, "x"), Source(ONE, "x")], time="ts")
    with pytest.raises(SchemaError, match="found two columns 'k'; expected each name once"):
        tidelog.merge([pa.table([[1], ["a"], ["b"]], names=["ts", "k", "k"])], time="ts", key=True)
    with pytest.raises(InputError, match="found stables 'first'; expected one of 'each', 'last'"):
        tidelog.merge([ONE], time="ts", key=True, stables="first")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="found check 'all'"):
        tidelog.merge([ONE], time="ts", key=True, check="all")  # type: ignore[arg-type]
    merged = tidelog.merge([[ONE.to_batches()[0], ONE.drop_columns("value").to_batches()[0]]], time="ts", key=True)
    with pytest.raises(MergeError, match="lacks the column 'value'"):
        list(merged)
    with pytest.raises(InputError, match="there was an input"):
        merged.attach(ONE, "input 0")
    with pytest.raises(NotFoundError):
        merged.detach("nobody")
    with pytest.raises(InputError, match="found ends 'gone'; expected one of 'complete', 'leaves'"):
        Source(ONE, ends="gone")  # type: ignore[arg-type]
    source, batches = Source(ONE), iter(ONE.to_batches())
    for twice in ([source, source], [batches, batches]):
        with pytest.raises(InputError, match="found data that input 'input 0' reads already"):
            tidelog.merge(twice, time="ts", key=True)
    other = ONE.set_column(1, "sensor", ONE["sensor"].dictionary_encode())
    with pytest.raises(SchemaError, match=r"column 'sensor' of input 'input 1' has the type dict.*; expected string"):
        tidelog.merge([ONE, other], time="ts", key=True)
    with pytest.raises(SchemaError, match="input 'input 1' has a column 'more', which the first input does not have"):
        tidelog.merge([ONE, ONE.append_column("more", ONE["ts"])], time="ts", key=True)
    with pytest.raises(SchemaError, match=r"times of timestamp\[s\]; expected int64, as of the first input"):
        tidelog.merge([ONE, ONE.set_column(0, "ts", ONE["ts"].cast(pa.timestamp("s")))], time="ts", key=True)
    untyped = pa.table({"kind": ["insert"], "valid_from": [1], "valid_to": [2], "old_valid_to": [None]})
    with pytest.raises(SchemaError, match="column 'old_valid_to' of input 'input 0' has the type null; expected int64"):
        tidelog.merge([untyped], key=True)
    elements = untyped.set_column(3, "old_valid_to", pa.array([None], pa.int64()))
    with pytest.raises(SchemaError, match=r"column 'kind' .* has the type double; expected texts"):
        tidelog.merge([elements.set_column(0, "kind", pa.array([1.0]))], key=True)
    for given in ({"inputs": [elements], "delay": 5}, {"inputs": [Source(elements, delay=5)]}):
        with pytest.raises(InputError, match=r"found a delay .*; the stables among them say how far"):
            tidelog.merge(**given, key=True)  # type: ignore[arg-type]
    merged.close()
    with pytest.raises(ClosedError, match="the merge is closed"):
        merged.attach(ONE, "late")
    nulls = pa.table({"ts": pa.array([None], pa.int64()), "sensor": ["a"], "value": [1.0]})
    with pytest.raises(MergeError, match="nulls in 'ts'"):
        tidelog.merge([nulls], time="ts", key=True).read_all()


@pytest.mark.parametrize(
    "policy", ["fraction 0.5", "lagging 3", "conservative", "half-frozen", "leader-by-unfrozen", "exact"]
)
def test_policies_by_name(policy: str) -> None:
    for key in (True, None):
        with nullcontext() if key else pytest.warns(RepeatsWarning):
            merged = tidelog.merge([ONE, ONE], time="ts", key=key, policy=policy, delay=1)
        assert merged.stats().algorithm == ("R3" if key else "R4")
        assert tidelog.reconstitute(merged).num_rows == 4
    for wrong in ("fraction", "fraction 2", "lagging", "exact 3"):
        with pytest.raises(InputError, match="expected"):
            tidelog.merge([ONE], time="ts", policy=wrong)


def test_what_comes_out_is_arrow_for_others() -> None:
    merged = tidelog.merge([ONE], time="ts", key=True)
    assert pa.table(merged).equals(ONE)
    assert SHAPE.time == "valid_from"


@pytest.mark.parametrize("algorithm", ["R2", "R2d", "R3"])
def test_two_events_of_a_key_behind_the_output_are_found_by_comparing(algorithm: str) -> None:
    """Of what is settled nothing is remembered, so that a second event of a key is like any that comes late."""
    twice = pa.table([[1, 1], ["a", "a"], [0.5, 9.5]], schema=ONE.schema)
    found = []
    for check in ("inputs", "full"):
        inputs = [[ONE.slice(0, 3), ONE.slice(3)], [twice, ONE.slice(2)]]
        merged = tidelog.merge(
            inputs,
            time="ts",
            key="sensor",
            order="rising",
            algorithm=algorithm,
            check=check,  # type: ignore[arg-type]
        )
        if check == "full":
            with pytest.raises(DisagreementError, match="start 1"):
                merged.read_all()
        else:
            found = merged.read_all()
    assert len(found) >= 4


def test_attaching_what_is_wrong_changes_nothing() -> None:
    """The name is free, and so are the rows, where they can be read again."""
    merged = tidelog.merge({"old": [ONE.slice(row, 1) for row in range(4)]}, time="ts", key=True, order="rising")
    found = [next(merged)]
    other = ONE.set_column(2, "value", ONE["ts"])
    for wrong, error, message in [
        ({"data": ONE, "join": "soon"}, TimeError, "found 'soon'"),
        ({"data": Source(ONE, delay=-1)}, TimeError, "found the duration -1"),
        ({"data": other}, SchemaError, "column 'value' of input 'new' has the type int64; expected double"),
        ({"data": ONE.append_column("more", ONE["ts"])}, SchemaError, "input 'new' has a column 'more'"),
        ({"data": ONE.drop_columns("sensor")}, SchemaError, "input 'new' has no column 'sensor'"),
        (
            {"data": tidelog.merge([ONE], time="ts", key=True, algorithm="R3")},
            SchemaError,
            "'new' has the columns kind",
        ),
    ]:
        with pytest.raises(error, match=message):
            merged.attach(name="new", **wrong)  # type: ignore[arg-type]
    merged.attach(ONE.select(["sensor", "value", "ts"]), "new")
    merged.detach("old")
    assert pa.Table.from_batches([*found, *merged]).equals(ONE)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": 3}, "found 3 .int. for the name of an input; expected a text"),
        ({"same_ties": "yes"}, "found 'yes' .str. for same_ties; expected True or False"),
        ({"inserts_only": 1}, "found 1 .int. for inserts_only; expected True or False"),
        ({"properties": "rising"}, "found 'rising' .str. for properties; expected tidelog.merging.Properties"),
        ({"schema": ["ts"]}, r"for schema; expected a pyarrow\.Schema"),
    ],
)
def test_promises_that_are_none_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Source(ONE, **wrong)


def test_columns_are_no_batches() -> None:
    with pytest.raises(InputError, match="found dict as an input; expected Arrow data, or an iterable of batches"):
        tidelog.merge([{"ts": [1], "sensor": ["a"], "value": [0.5]}], time="ts", key=True)


def test_frames_of_polars_are_merged() -> None:
    """Their texts are views, also those in lists, of which Arrow cannot choose rows."""
    whole = polars.DataFrame({"ts": range(8), "text": list("abcdefgh"), "list": [["x"], [], None, ["y", None]] * 2})
    for algorithm in ("R2d", "R3"):
        inputs = [Source(whole[[0, 1, 5, 7]], ends="leaves"), whole[[7, 1, 3, 2, 0, 4, 6, 5]]]
        found = tidelog.merge(inputs, time="ts", key=True, algorithm=algorithm).read_all()
        if algorithm == "R3":
            found = tidelog.reconstitute(found).rename_columns({"valid_from": "ts"}).drop_columns("valid_to")
        assert found.sort_by("ts").to_pylist() == whole.to_dicts()


def test_an_event_that_is_sent_again_and_revised_is_no_disagreement() -> None:
    """With a key it is one event, which ends where it was said to last."""
    columns = ["kind", "valid_from", "valid_to", "old_valid_to", "p"]
    types = pa.schema(zip(columns, [pa.string(), *[pa.int64()] * 3, pa.string()], strict=True))

    def told(*elements: tuple[Any, ...]) -> pa.Table:
        return pa.table([list(each) for each in zip(*elements, strict=True)], schema=types)

    end = ("stable", 20, None, None, None)
    whole = told(("insert", 5, 12, None, "x"), end)
    copies = [
        told(("insert", 5, 9, None, "x"), ("insert", 5, 9, None, "x"), ("adjust", 5, 12, 9, "x"), end),
        told(("insert", 5, 9, None, "x"), ("adjust", 5, 5, 9, "x"), ("insert", 5, 12, None, "x"), end),
        told(("insert", 5, 9, None, "x"), ("insert", 5, 12, None, "x"), end),
        told(("insert", 5, 9, None, "x"), ("stable", 7, None, None, None), ("adjust", 5, 12, 9, "x"), end),
    ]
    for each in copies:
        for inputs in ([each, whole], [whole, each]):
            merged = tidelog.merge(inputs, key=True, check="full").read_all()
            assert tidelog.reconstitute(merged).to_pylist() == [{"valid_from": 5, "valid_to": 12, "p": "x"}]
    for wrong in (
        told(("insert", 5, 12, None, "x"), ("adjust", 5, 5, 12, "x"), end),
        told(("insert", 5, 12, None, "x"), ("adjust", 5, 13, 12, "x"), end),
        told(("insert", 5, 12, None, "x"), ("insert", 6, 9, None, "x"), end),
    ):
        with pytest.raises(DisagreementError, match="they are no copies of one stream"):
            tidelog.merge([whole, wrong], key=True, check="full").read_all()


def test_an_attached_input_has_the_delay_of_all_and_not_that_of_another() -> None:
    late = rows((9, "a", 0.5), (2, "b", 1.5))
    first = Source([ONE.slice(0, 1)], delay=0, ends="leaves")
    for delay, dropped in ((None, 0), (7, 0), (6, 1)):
        merged = tidelog.merge({"first": first}, time="ts", key=True, delay=delay)
        merged.attach(Source(late, ends="leaves"), "second")
        assert merged.read_all().num_rows == 3 - dropped


def test_the_least_time_there_is() -> None:
    """R0 has no word for it, so that it is refused there."""
    first = pa.table([[-(2**63), 5], ["a", "b"], [0.5, 1.5]], schema=ONE.schema)
    for order in ("none", "rising"):
        assert tidelog.merge([first, first], time="ts", key=True, order=order).read_all().equals(first)
    with pytest.raises(MergeError, match="an event at the least time there is, which R0 cannot tell from none"):
        tidelog.merge([first, first], time="ts", key=True, order="strict").read_all()
