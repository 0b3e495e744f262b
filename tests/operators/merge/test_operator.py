"""The operator gives what the reference gives, of rows of Arrow, in every runtime."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from operators.cases import rows as random_rows
from operators.cases import shape as plain_shape
from operators.merge.arrow import SHAPE, batch_of, elements_of, payload
from operators.merge.copies import KINDS, copy, events
from support.profiles import scaled
from tidelog.model.errors import InputError, NotFoundError, SchemaError
from tidelog.operators.base import FOREVER, Batches, Operator, Shape
from tidelog.operators.conformance import (
    EMBEDDED,
    Case,
    Dice,
    Disk,
    Make,
    OperatorConformance,
    Runtime,
    rows_of,
)
from tidelog.operators.merge import codes
from tidelog.operators.merge.algorithms import ALGORITHMS
from tidelog.operators.merge.batches.engine import Policy
from tidelog.operators.merge.codes import BEFORE, NEVER, STABLE
from tidelog.operators.merge.columns import element_shape
from tidelog.operators.merge.compatibility import check_keyed
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.errors import BehindStableError, MergeError, OrderError, RepeatedKeyError, RevisionError
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.payloads.hashing import hash_rows, numbers_of
from tidelog.operators.merge.ports import Input
from tidelog.operators.merge.reference import policies
from tidelog.operators.merge.reference.counted import R4
from tidelog.operators.merge.reference.driver import Merge
from tidelog.operators.merge.reference.keyed import R3
from tidelog.operators.merge.reference.ordered import R0, R1, R2, R2D, R2DDup, R2Dup
from tidelog.operators.merge.table import Table, table_of

RUNS = scaled(40)

PAIRS: dict[str, tuple[str, Callable[[], Merge], Policy]] = {
    "R0": ("R0", R0, Policy()),
    "R1": ("R1", R1, Policy()),
    "R2": ("R2", R2, Policy()),
    "R2dup": ("R2dup", R2Dup, Policy()),
    "R2d": ("R2d", R2D, Policy()),
    "R2ddup": ("R2ddup", R2DDup, Policy()),
    "R3": ("R3", R3, Policy()),
    "R3 aggressive": ("R3", lambda: R3(policies.Aggressive()), Policy(codes.AGGRESSIVE)),
    "R3 fully frozen": ("R3", lambda: R3(policies.FullyFrozen()), Policy(codes.FULLY_FROZEN)),
    "R3 half frozen": ("R3", lambda: R3(policies.HalfFrozen()), Policy(codes.HALF_FROZEN)),
    "R3 fraction": ("R3", lambda: R3(policies.Fraction(0.5)), Policy(codes.FRACTION, share=0.5)),
    "R4": ("R4", R4, Policy()),
    "R4 exact": ("R4", lambda: R4(policies.Exact()), Policy(codes.EXACT)),
    "R4 fully frozen": ("R4", lambda: R4(policies.FullyFrozen()), Policy(codes.FULLY_FROZEN)),
}


def hashed(value: int) -> int:
    """The number that orders payloads of one start where they come out together."""
    own = payload(value)
    columns = [pa.array([own["p"]]), pa.array([own["size"]])]
    return int(numbers_of(hash_rows(columns, 1))[0])


NUMBERS = {hashed(value): value for value in range(4)}
BY_VALUE = {value: number for number, value in NUMBERS.items()}


def numbered(element: Element) -> Element:
    return element if element.kind == STABLE else element._replace(payload=BY_VALUE[element.payload])


def valued(elements: Sequence[Element]) -> list[Element]:
    """What the reference gave; the stable behind everything is the end of the stream."""
    return [
        each if each.kind == STABLE else each._replace(payload=NUMBERS[each.payload])
        for each in elements
        if each.kind != STABLE or each.end != NEVER
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_elements_come_out_as_of_the_reference(name: str) -> None:
    algorithm, make_reference, policy = PAIRS[name]
    kind = KINDS[algorithm]
    for seed in range(RUNS):
        dice = random.Random(seed)
        whole = events(dice, kind, count=dice.choice((12, 40)), span=dice.choice((24, 40)))
        count = dice.randint(1, 3)
        inputs = [Input(str(number), SHAPE) for number in range(count)]
        disk = Disk()

        def make(inputs: Sequence[Input] = inputs) -> MergeOperator:
            return MergeOperator(inputs, algorithm, policy=policy)

        one, other = make_reference(), make()
        waiting: dict[str, list[Element]] = {}
        for each in inputs:
            one.attach(each.name)
            waiting[each.name] = copy(dice, kind, [event for event in whole if dice.random() < 0.95])
        while any(waiting.values()):
            own = dice.choice([each for each, left in waiting.items() if left])
            size = dice.choice((1, 3, 10, 40))
            part, waiting[own] = waiting[own][:size], waiting[own][size:]
            expected = [out for each in part for out in one.push(own, numbered(each))]
            assert elements_of(other.push(other.port(own), batch_of(part))) == valued(expected)
            if len(one.inputs) < 5 and dice.random() < 0.15:
                fresh, join = str(len(one.inputs)), dice.choice((None, dice.randint(0, 40)))
                one.attach(fresh, BEFORE if join is None else join)
                assert other.attach(fresh, join=join) == len(one.inputs) - 1
                waiting[fresh] = copy(dice, kind, whole, BEFORE if join is None else join)
            if len(waiting) > 1 and dice.random() < 0.1:
                gone = dice.choice(list(waiting))
                one.detach(gone)
                other.detach(gone)
                del waiting[gone]
            pending = [str(each) for each, known in one.inputs.items() if known.phase == "pending"]
            if pending and dice.random() < 0.2:
                assert elements_of(other.force_join(pending[0])) == valued(one.force_join(pending[0]))
            if dice.random() < 0.15:
                state, other = other.snapshot(), make()
                disk.restored(state, other.restore)
            for state in other.states:
                assert state.phase == one.inputs[state.name].phase
                assert state.counters == one.inputs[state.name].counters
                assert state.stable == _told(one.inputs[state.name].stable)
            assert other.reached == _told(one.stable)


def _told(stable: int) -> int | None:
    return None if stable == BEFORE else FOREVER if stable == NEVER else stable


class Unordered(Runtime):
    """Another runtime, of which only is asked which rows come out: of equal starts any input may be the first."""

    keeps_order = False

    def __init__(self, inner: Runtime) -> None:
        self.name = inner.name  # type: ignore[misc]  # one class stands for several
        self._inner = inner

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        return self._inner.run(make, rows, lateness, dice)

    def run_all(self, cases: Sequence[Case], dice: Dice) -> list[Batches]:
        return self._inner.run_all(cases, dice)


RUNTIMES = [Unordered(each) for each in EMBEDDED]
PLAIN = plain_shape(seq=False)


@pytest.mark.parametrize("algorithm", ["R1", "R2", "R2dup", "R2d", "R2ddup"])
@pytest.mark.parametrize("seed", range(4))
def test_plain_events_in_every_runtime(algorithm: str, seed: int) -> None:
    """Copies are in other orders, and have more or less lateness, which none of their rows exceeds."""
    dice = np.random.default_rng(seed)
    own = ALGORITHMS[algorithm]
    whole = random_rows(PLAIN, dice, 60)
    if own.is_keyed:
        taken: dict[tuple[object, ...], int] = {}
        for place, row in enumerate(rows_of(PLAIN, [whole])):
            taken.setdefault(row, place)
        whole = whole.take(pa.array(sorted(taken.values())))
    copies, lateness = [], []
    for number in range(3):
        times = PLAIN.times(whole)
        jitter = 0 if own.is_ordered else 7 * number
        ties = np.arange(len(times)) if algorithm == "R1" else dice.random(len(times))
        order = np.lexsort((ties, times + dice.integers(0, jitter + 1, len(times))))
        copies.append(whole.take(pa.array(order)))
        lateness.append(jitter)

    def make() -> Operator:
        return MergeOperator([Input(str(number), PLAIN) for number in range(3)], algorithm)

    found = OperatorConformance(make, RUNTIMES).check(copies, dice, lateness=lateness)
    assert Counter(found) == Counter(rows_of(PLAIN, [whole]))


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_elements_in_every_runtime(algorithm: str) -> None:
    """What comes out depends on who is first; what it means in the end does not."""

    def make() -> Operator:
        return MergeOperator([Input("a", SHAPE), Input("b", SHAPE)], algorithm)

    kind = KINDS[algorithm]
    for seed in range(8):
        dice = random.Random(seed)
        whole = events(dice, kind)
        copies = [batch_of([each for each in copy(dice, kind, whole) if each.end < NEVER or each.kind != STABLE])] * 2
        for runtime in EMBEDDED:
            found = runtime.run(make, copies, [2**62] * 2, np.random.default_rng(seed))
            assert table_of(elements_of(found)).events == Counter(whole)


def test_nulls_of_any_input_come_out() -> None:
    """Columns may have nulls if those of one of the inputs may, whichever it is."""
    sure = Shape(pa.schema([each.with_nullable(False) for each in PLAIN.schema]), PLAIN.time)
    for output in ("events", "elements"):
        merge = MergeOperator([Input("sure", sure), Input("other", PLAIN)], "R2d", output=output)
        payload = [each for each in merge.output.schema if each.name in PLAIN.schema.names and each.name != PLAIN.time]
        assert all(each.nullable for each in payload)
    assert not any(each.nullable for each in MergeOperator([Input("sure", sure)], "R2d").output.schema)


def test_the_output_is_as_far_as_the_farthest_input() -> None:
    merge = MergeOperator([Input("a", PLAIN, delay=5), Input("b", PLAIN, delay=5)], "R2d")
    batch = random_rows(PLAIN, np.random.default_rng(1), 30, span=100)
    assert sum(each.num_rows for each in merge.push(0, batch)) == 30 - merge.states[0].late
    assert merge.reached == int(PLAIN.times(batch).max()) - 5
    assert merge.states[1].stable is None
    assert not merge.push(1, batch.slice(0, 20))
    assert merge.states[1].counters.late > 0


@pytest.mark.parametrize("algorithm", ["R3", "R4", "R2d"])
def test_stables_of_a_batch_may_count_as_one(algorithm: str) -> None:
    """P12: the same events with fewer elements, and the conditions on tables hold at the end of every batch."""
    kind, sizes = KINDS[algorithm], Counter[str]()
    for seed in range(20):
        dice = random.Random(seed)
        whole = events(dice, kind, count=30, span=40)
        waiting = {name: copy(dice, kind, whole) for name in "abc"}
        known, output = {name: Table() for name in waiting}, Table()
        inputs = [Input(name, SHAPE) for name in waiting]
        each, last = MergeOperator(inputs, algorithm), MergeOperator(inputs, algorithm, stables="last")
        while any(waiting.values()):
            name = dice.choice([name for name, left in waiting.items() if left])
            part, waiting[name] = waiting[name][:12], waiting[name][12:]
            for element_ in part:
                known[name].apply(element_)
            sizes["each"] += sum(batch.num_rows for batch in each.push(each.port(name), batch_of(part)))
            for element_ in elements_of(found := last.push(last.port(name), batch_of(part))):
                output.apply(element_)
            sizes["last"] += sum(batch.num_rows for batch in found)
            assert last.reached == each.reached
            if last.reached == FOREVER:
                output.stable = NEVER
            if algorithm == "R3":
                told = check_keyed(list(known.values()), output)
                assert told is None, told
        assert output.events == Counter(whole)
    assert sizes["last"] < 0.97 * sizes["each"]


def test_payloads_are_kept_once_and_purged_by_stables() -> None:
    merge = MergeOperator([Input("a", SHAPE), Input("b", SHAPE)], "R3")
    highest = 0
    for first in range(0, 40_000, 1000):
        part = [Element(codes.INSERT, value, value, value + 10) for value in range(first, first + 1000)]
        part.append(Element(STABLE, None, BEFORE, first + 900))
        given = merge.push(0, batch_of(part))
        assert sum(each.num_rows for each in given) == 1001
        assert sum(each.num_rows for each in merge.push(1, batch_of(part))) == 0
        highest = max(highest, len(merge._payloads))
    assert highest < 5000
    assert merge.finish() == []
    assert merge.reached == FOREVER


def element(*args: int) -> pa.RecordBatch:
    kind, value, start, end, old = (*args, BEFORE)[:5] if len(args) == 4 else args
    return batch_of([Element(kind, value, start, end, old)])


def test_broken_promises_have_names() -> None:
    merge = MergeOperator([Input("a", SHAPE)], "R2")
    merge.push(0, element(codes.INSERT, 1, 5, 9))
    with pytest.raises(OrderError, match="input 'a': an event that starts at 4 came behind one that starts at 5"):
        merge.push(0, element(codes.INSERT, 1, 4, 9))
    with pytest.raises(RevisionError, match="choose R3 or R4"):
        merge.push(0, element(codes.ADJUST, 1, 5, 7, 9))
    merge.push(0, batch_of([Element(STABLE, None, BEFORE, 8)]))
    with pytest.raises(BehindStableError, match="the time 6, behind its own stable 8"):
        merge.push(0, element(codes.INSERT, 1, 6, 9))
    strict = MergeOperator([Input("a", SHAPE)], "R0")
    strict.push(0, element(codes.INSERT, 1, 5, 9))
    with pytest.raises(OrderError):
        strict.push(0, element(codes.INSERT, 2, 5, 9))
    with pytest.raises(MergeError, match=r"input 'a': row 0 adjusts .* before it starts"):
        merge.push(0, element(codes.ADJUST, 1, 9, 7, 9))
    wrong = element(codes.INSERT, 1, 9, 10).set_column(0, "kind", pa.array(["upsert"]))
    with pytest.raises(MergeError, match="input 'a': row 0 is of kind 'upsert'; expected insert, adjust or stable"):
        merge.push(0, wrong)


def test_inputs_may_be_looked_at_while_they_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread does, for which one is replaced by another one just when it has been found to be there."""
    merge = MergeOperator([Input("a", SHAPE), Input("b", SHAPE)], "R3")
    state = MergeOperator._state

    def replacing(own: MergeOperator, port: Any) -> Any:
        if port.name == "a":
            own.detach("a")
            own.attach("c")
        return state(own, port)

    with monkeypatch.context() as patched:
        patched.setattr(MergeOperator, "_state", replacing)
        assert "b" in [each.name for each in merge.states]
    assert [each.name for each in merge.states] == ["b", "c"]


def test_what_does_not_go_together_is_refused() -> None:
    one = Input("a", SHAPE)
    with pytest.raises(InputError, match="did you mean 'R3'"):
        MergeOperator([one], "R33")
    with pytest.raises(InputError, match="tells every event once and at once; choose R3 or R4"):
        MergeOperator([one], "R2d", policy=Policy(codes.AGGRESSIVE))
    with pytest.raises(InputError, match="output='events'"):
        MergeOperator([one], "R3", output="events")
    with pytest.raises(InputError, match="counts events that are equal"):
        MergeOperator([one], "R4", key=["p"])
    with pytest.raises(SchemaError, match="no column 'q' for a key"):
        MergeOperator([one], "R3", key=["q"])
    with pytest.raises(SchemaError, match="input 'b' has no column 'p', which the first"):
        MergeOperator([one, Input("b", PLAIN)], "R3")
    with pytest.raises(InputError, match="two inputs 'a'"):
        MergeOperator([one, one], "R3")
    with pytest.raises(InputError, match="no delay"):
        Input("a", SHAPE, delay=3)
    with pytest.raises(NotFoundError, match="no input 'c'"):
        MergeOperator([one], "R3").detach("c")


def test_a_key_is_what_events_are_told_by() -> None:
    """Of rows that agree in it the first copy comes out; a row that is sent again is not there twice."""
    merge = MergeOperator([Input("a", PLAIN), Input("b", PLAIN)], "R2d", key=["k"])
    rows = [{"ts": 1, "k": "x", "n": 1, "x": 0.5}, {"ts": 1, "k": "y", "n": 2, "x": 0.5}]
    batch = pa.RecordBatch.from_pylist([*rows, *rows], schema=PLAIN.schema)
    other = pa.RecordBatch.from_pylist([{"ts": 1, "k": "x", "n": 9, "x": 0.5}], schema=PLAIN.schema)
    assert [row for each in merge.push(0, batch) for row in each.to_pylist()] == rows
    assert merge.push(1, other) == []


def test_a_conflict_of_an_input_that_waited_is_its_own() -> None:
    """Whoever lets it join is not to blame; what came out before is given with the next call, also of a snapshot."""
    merge = MergeOperator([Input("a", PLAIN, delay=0), Input("b", PLAIN, join=5)], "R2", key=["k"])
    rows = [{"ts": 6, "k": "x", "n": 1, "x": 0.5}, {"ts": 7, "k": "y", "n": 1, "x": 0.5}, {"ts": 7, "k": "y", "n": 2}]
    assert merge.push(1, pa.RecordBatch.from_pylist(rows, schema=PLAIN.schema)) == []
    with pytest.raises(RepeatedKeyError, match=r"input 'b'.* starts at 7"):
        merge.push(0, pa.RecordBatch.from_pylist([{"ts": 5, "k": "x", "n": 1, "x": 0.5}], schema=PLAIN.schema))
    fresh = MergeOperator([Input("a", PLAIN, delay=0), Input("b", PLAIN, join=5)], "R2", key=["k"])
    Disk().restored(merge.snapshot(), fresh.restore)
    for each in (merge, fresh):
        each.detach("b")
        given = each.push(0, pa.RecordBatch.from_pylist([{"ts": 9, "k": "x", "n": 1, "x": 0.5}], schema=PLAIN.schema))
        assert [row[0] for row in rows_of(PLAIN, given)] == [5, 6, 7, 9]


TYPES: dict[pa.DataType, list[Any]] = {
    pa.dictionary(pa.int16(), pa.string()): ["a", "b", None, "c"],
    pa.list_(pa.int64()): [[1], [], None, [1, 2]],
    pa.struct([("a", pa.int64())]): [{"a": 1}, {"a": None}, None, {"a": 2}],
    pa.timestamp("ms", "Europe/Berlin"): [0, 1, None, 2],
    pa.large_binary(): [b"", b"x", None, b"xy"],
    pa.bool_(): [True, False, None, True],
}


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("time", [pa.int64(), pa.timestamp("us")], ids=str)
def test_payloads_of_any_type(type_: pa.DataType, time: pa.DataType) -> None:
    """Adjusts, which carry payloads that came long ago, and snapshots in between."""
    shape = element_shape(time, [pa.field("v", type_), pa.field("number", pa.int64())])
    values = pa.array(TYPES[type_], type_)
    rng, disk = np.random.default_rng(3), Disk()

    def make() -> MergeOperator:
        return MergeOperator([Input("a", shape), Input("b", shape)], "R3")

    merge, found = make(), []
    for first in range(0, 4000, 500):
        starts = np.arange(first, first + 500)
        ids = rng.integers(0, 4, 500)
        for kind, ends, old in (
            ("insert", starts + 5, None),
            ("adjust", starts + 9, starts + 5),
            ("stable", None, None),
        ):
            at = starts if kind != "stable" else starts[-1:]
            chosen = [values.take(pa.array(ids[: len(at)])), pa.array(at)]
            columns = [pa.array([kind] * len(at)), pa.array(at)]
            columns += [pa.nulls(len(at), pa.int64()) if each is None else pa.array(each) for each in (ends, old)]
            columns = [columns[0], *(each.cast(time) for each in columns[1:])]
            batch = pa.RecordBatch.from_arrays([*columns, *chosen], schema=shape.schema)
            for port in (0, 1):
                found += merge.push(port, batch)
        state, merge = merge.snapshot(), make()
        disk.restored(state, merge.restore)
    whole = pa.Table.from_batches(found)
    adjusts = whole.filter(pc.equal(whole.column("kind"), "adjust"))
    inserts = whole.filter(pc.equal(whole.column("kind"), "insert"))
    assert (inserts.num_rows, adjusts.num_rows) == (4000, 3994)  # those that end, or ended, before the last stable
    by_number = dict(zip(inserts.column("number").to_pylist(), inserts.column("v").to_pylist(), strict=True))
    for number, value in zip(adjusts.column("number").to_pylist(), adjusts.column("v").to_pylist(), strict=True):
        assert by_number[number] == value
