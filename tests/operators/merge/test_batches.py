"""Merges of batches give what the reference gives, element by element, wherever batches are cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from operators.merge.copies import KINDS, copy, events
from support.profiles import scaled
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.counting.engine import Counted
from tidelog.operators.merge.batches.engine import BatchMerge, Disordered, Keyed, Ordered, Policy, Rows, rows_of
from tidelog.operators.merge.codes import BEFORE, STABLE
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.reference import policies
from tidelog.operators.merge.reference.counted import R4
from tidelog.operators.merge.reference.driver import Merge
from tidelog.operators.merge.reference.keyed import R3
from tidelog.operators.merge.reference.ordered import R0, R1, R2, R2D, R2DDup, R2Dup
from tidelog.operators.state import State

RUNS = scaled(60)

PAIRS: dict[str, tuple[str, Callable[[], Merge], Callable[[], BatchMerge]]] = {
    "R0": ("R0", R0, lambda: Ordered(codes.ONE)),
    "R1": ("R1", R1, lambda: Ordered(codes.SAME_ORDER)),
    "R2": ("R2", R2, lambda: Ordered(codes.DISTINCT)),
    "R2dup": ("R2dup", R2Dup, lambda: Ordered(codes.COUNTED)),
    "R2d": ("R2d", R2D, Disordered),
    "R2ddup": ("R2ddup", R2DDup, lambda: Disordered(counted=True)),
    "R4 with keys": ("R3", R4, Counted),
}

POLICIES: dict[str, tuple[Callable[[], policies.Policy], Policy]] = {
    "lazy": (policies.Lazy, Policy()),
    "aggressive": (policies.Aggressive, Policy(codes.AGGRESSIVE)),
    "fully frozen": (policies.FullyFrozen, Policy(codes.FULLY_FROZEN)),
    "half frozen": (policies.HalfFrozen, Policy(codes.HALF_FROZEN)),
    "open ended": (policies.OpenEnded, Policy(codes.OPEN_ENDED)),
    "leader": (policies.FollowLeader, Policy(codes.LEADER)),
    "by start": (policies.LeaderByStart, Policy(codes.LEADER_BY_START)),
    "by unfrozen": (policies.LeaderByUnfrozen, Policy(codes.LEADER_BY_UNFROZEN)),
    "fraction": (lambda: policies.Fraction(0.5), Policy(codes.FRACTION, share=0.5)),
    "lagging": (lambda: policies.Lagging(5), Policy(codes.LAGGING, delay=5)),
    "exact": (policies.Exact, Policy(codes.EXACT)),
}


def _pair(by_element: Callable[[policies.Policy], Merge], by_batch: Callable[[Policy], BatchMerge], name: str) -> Any:
    make, policy = POLICIES[name]
    return lambda: by_element(make()), lambda: by_batch(policy)


for _name in POLICIES:
    PAIRS[f"R3 {_name}"] = ("R3", *_pair(R3, Keyed, _name))
    PAIRS[f"R4 {_name}"] = ("R4", *_pair(R4, Counted, _name))


def found(rows: Rows) -> list[Element]:
    return [
        Element(kind, None if kind == STABLE else payload, start, end, old)
        for kind, payload, start, end, old, _ in rows.T.tolist()
    ]


def restarted(merge: BatchMerge, make: Callable[[], BatchMerge]) -> BatchMerge:
    state = merge.snapshot()
    fresh = make()
    fresh.restore(
        State(json.loads(json.dumps(state.core)), {k: pa.py_buffer(bytes(v)) for k, v in state.chunks.items()})
    )
    return fresh


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_elements_come_out(name: str) -> None:
    """P12 and P13: with gaps, inputs that join and leave, and snapshots in between."""
    needs, make_reference, make = PAIRS[name]
    kind = KINDS[needs]
    for seed in range(RUNS):
        dice = random.Random(seed)
        whole = events(dice, kind, count=dice.choice((12, 12, 60)), span=dice.choice((24, 60)))
        one, other = make_reference(), make()
        waiting: dict[str, list[Element]] = {}
        for number in range(dice.randint(1, 4)):
            one.attach(str(number))
            other.attach(str(number))
            waiting[str(number)] = copy(dice, kind, [each for each in whole if dice.random() < 0.95])
        while any(waiting.values()):
            own = dice.choice([each for each, left in waiting.items() if left])
            size = dice.choice((1, 3, 10, 40))
            batch, waiting[own] = waiting[own][:size], waiting[own][size:]
            expected = [out for each in batch for out in one.push(own, each)]
            assert found(other.push(own, rows_of(batch))) == expected
            if len(one.inputs) < 7 and dice.random() < 0.15:
                fresh, join = str(len(one.inputs)), dice.choice((BEFORE, dice.randint(0, 40)))
                one.attach(fresh, join)
                other.attach(fresh, join)
                waiting[fresh] = copy(dice, kind, whole, join)
            if len(waiting) > 1 and dice.random() < 0.1:
                gone = dice.choice(list(waiting))
                one.detach(gone)
                other.detach(gone)
                del waiting[gone]
            pending = [each for each, known in one.inputs.items() if known.phase == "pending"]
            if pending and dice.random() < 0.1:
                forced = dice.choice(pending)
                assert found(other.force_join(str(forced))) == one.force_join(forced)
            if dice.random() < 0.1:
                other = restarted(other, make)
            assert other.max_stable == one.max_stable
            assert other.size == one.size
            for each in other.names:
                assert other.phase(each) == one.inputs[each].phase
                assert other.counters(each) == one.inputs[each].counters
