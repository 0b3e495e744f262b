"""What is known of streams behind operators: each promise is held against rows that come out of several copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Operator
from tidelog.operators.composed import chain
from tidelog.operators.conformance import rows_of
from tidelog.operators.join.asof import AsOfJoin
from tidelog.operators.join.lookup import Lookup
from tidelog.operators.join.partners import TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.merge.choice import choose
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.ports import Input
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.properties import EVENTS, Order, Properties, weakest
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import TimeWindows

OF = shape(seq=False)
COUNT = {"count": "count(*)"}

DISORDERED = EVENTS
RISING = Properties(Order.RISING, inserts_only=True)
DETERMINED = Properties(Order.RISING, inserts_only=True, same_ties=True)
KEYED = Properties(Order.RISING, inserts_only=True, key=("k",))
STRICT = Properties(Order.STRICT, inserts_only=True, same_ties=True, key=())

OPERATORS: dict[str, Callable[[], Operator]] = {
    "filter": lambda: Filter(OF, "n > 0"),
    "projection": lambda: Projection(OF, {"ts": "ts", "name": "k", "y": "x + 1"}),
    "projection without the key": lambda: Projection(OF, {"ts": "ts", "y": "x + 1"}),
    "reorder": lambda: Reorder(OF),
    "windows": lambda: TimeWindows(OF, FixedFrames(10, 5), COUNT),
    "grouped windows": lambda: TimeWindows(OF, FixedFrames(10, 5), COUNT, ["k"]),
    "sessions": lambda: SessionWindows(OF, 2, COUNT),
    "grouped sessions": lambda: SessionWindows(OF, 2, COUNT, ["k"]),
    "lookup": lambda: Lookup(OF, pa.table({"key": ["a", "a", "b"], "v": [1, 2, 3]}), {"k": "key"}),
    "filtered windows": lambda: chain(
        TimeWindows(OF, FixedFrames(10, 5), COUNT, ["k"]),
        Filter(TimeWindows(OF, FixedFrames(10, 5), COUNT, ["k"]).output, "count > 1"),
    ),
    "union": lambda: Union([OF, OF]),
    "as-of join": lambda: AsOfJoin(OF, OF, {"k": "k"}),
    "window join": lambda: WindowJoin(OF, OF, (TimeWindow(3, 1), TimeWindow(3, 1)), {"k": "k"}),
}

CHOSEN = {
    ("filter", "STRICT"): "R0",
    ("filter", "DETERMINED"): "R1",
    ("filter", "KEYED"): "R2",
    ("filter", "RISING"): "R2dup",
    ("filter", "DISORDERED"): "R2ddup",
    ("projection", "KEYED"): "R2",
    ("projection without the key", "KEYED"): "R2dup",
    ("reorder", "DISORDERED"): "R2dup",
    ("windows", "RISING"): "R0",
    ("windows", "DISORDERED"): "R0",
    ("grouped windows", "RISING"): "R2",
    ("grouped windows", "DISORDERED"): "R2",
    ("sessions", "RISING"): "R0",
    ("grouped sessions", "RISING"): "R2",
    ("lookup", "STRICT"): "R1",
    ("lookup", "KEYED"): "R2dup",
    ("filtered windows", "RISING"): "R2",
    ("union", "DETERMINED"): "R1",
    ("union", "KEYED"): "R2dup",
    ("as-of join", "KEYED"): "R2",
    ("as-of join", "STRICT"): "R0",
    ("window join", "KEYED"): "R2dup",
    ("window join", "DETERMINED"): "R1",
}
INPUTS = {"STRICT": STRICT, "DETERMINED": DETERMINED, "KEYED": KEYED, "RISING": RISING, "DISORDERED": DISORDERED}


@pytest.mark.parametrize(("name", "given"), CHOSEN)
def test_the_algorithm_behind_an_operator(name: str, given: str) -> None:
    operator = OPERATORS[name]()
    found = operator.derive([INPUTS[given]] * len(operator.inputs))
    assert choose(found).algorithm == CHOSEN[name, given]


def copies(given: Properties, dice: np.random.Generator, count: int) -> list[pa.RecordBatch]:
    """Copies of one stream that keep its promises, and no others."""
    whole = rows(OF, dice, 60, span=400 if given.order == Order.STRICT else 60)
    kept: dict[object, int] = {}
    for place, row in enumerate(rows_of(OF, [whole])):
        key = (
            (row[0], *(row[OF.schema.get_field_index(name)] for name in given.key)) if given.key is not None else place
        )
        kept.setdefault(key, place)
    whole = whole.take(pa.array(sorted(kept.values())))
    found = []
    for _ in range(count):
        times = OF.times(whole) + (0 if given.order else dice.integers(0, 8, whole.num_rows))
        ties = np.arange(len(times)) if given.is_determined else dice.random(len(times))
        found.append(whole.take(pa.array(np.lexsort((ties, times)))))
    return found


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_promises_are_kept(name: str, given: str) -> None:
    for seed in range(6):
        dice = np.random.default_rng(seed)
        operator = OPERATORS[name]()
        inputs = [copies(INPUTS[given], dice, 2) for _ in operator.inputs]
        promised = operator.derive([INPUTS[given]] * len(operator.inputs))
        found = []
        for number in range(2):
            arrivals = Arrivals(OPERATORS[name](), 8)
            batches = [out for port, own in enumerate(inputs) for out in arrivals.push(port, own[number])]
            found.append([*batches, *arrivals.finish()])
        outputs = [rows_of(operator.output, each) for each in found]
        if name != "as-of join" or promised.key is not None:  # else the last of several rows of one time is any of them
            assert sorted(map(repr, outputs[0])) == sorted(map(repr, outputs[1]))
        if promised.is_determined:
            assert list(map(repr, outputs[0])) == list(map(repr, outputs[1]))
        at = operator.output.schema.get_field_index(operator.output.time)
        times = [row[at] for row in outputs[0]]
        if promised.order:
            assert times == sorted(times)
        if promised.order == Order.STRICT:
            assert len(set(times)) == len(times)
        if promised.key is not None:
            columns = [at, *(operator.output.schema.get_field_index(each) for each in promised.key)]
            keys = [tuple(row[column] for column in columns) for row in outputs[0]]
            assert len(set(keys)) == len(keys)


def test_the_weakest_of_several() -> None:
    found = weakest([STRICT, KEYED, Properties(Order.RISING, inserts_only=True, key=("n",))])
    assert found == Properties(Order.RISING, inserts_only=True, key=("k", "n"))
    assert weakest([KEYED, DETERMINED]).key is None
    assert choose(weakest([KEYED, Properties(key=("k",))])).algorithm == "R3"
    assert choose(Properties()).algorithm == "R4"
    assert choose(Properties(inserts_only=True, key=())).algorithm == "R2d"


@pytest.mark.parametrize(
    ("algorithm", "again"),
    [("R0", "R0"), ("R1", "R1"), ("R2", "R2"), ("R2dup", "R2dup"), ("R2d", "R2d"), ("R3", "R3"), ("R4", "R4")],
)
def test_merges_behind_merges(algorithm: str, again: str) -> None:
    merge = MergeOperator([Input("a", OF)], algorithm)
    assert choose(merge.derive([EVENTS])).algorithm == again


def test_reasons_name_what_is_lacking() -> None:
    told = choose(EVENTS)
    assert told.keeps_repeats
    assert "R2d, for inserts in any order, with a key: not, there is no key" in told.reasons
    assert told.reasons[-1].startswith("R2ddup")


def test_all_inputs_are_looked_at() -> None:
    union = Union([OF, OF])

    def derived(*inputs: Properties) -> Sequence[object]:
        return [union.derive(inputs).same_ties]

    assert derived(DETERMINED, STRICT) == [True]
    assert derived(DETERMINED, RISING) == [False]
