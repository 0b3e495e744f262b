"""Merges of batches give what the reference gives, element by element, wherever batches are cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from operators.merge.copies import KINDS, copy, events
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

RUNS = 60

PAIRS: dict[str, tuple[str, Callable[[], Merge], Callable[[], BatchMerge]]] = {
    "R0": ("R0", R0, lambda: Ordered(codes.ONE)),
    "R1": ("R1", R1, lambda: Ordered(codes.SAME_ORDER)),
    "R2": ("R2", R2, lambda: Ordered(codes.DISTINCT)),
    "R2dup": ("R2dup", R2Dup, lambda: Ordered(codes.COUNTED)),
    "R2d": ("R2d", R2D, Disordered),
    "R2ddup": ("R2ddup", R2DDup, lambda: Disordered(counted=True)),
    "R3": ("R3", R3, Keyed),
    "R3 aggressive": ("R3", lambda: R3(policies.Aggressive()), lambda: Keyed(Policy(codes.AGGRESSIVE))),
    "R3 fully frozen": ("R3", lambda: R3(policies.FullyFrozen()), lambda: Keyed(Policy(codes.FULLY_FROZEN))),
    "R3 half frozen": ("R3", lambda: R3(policies.HalfFrozen()), lambda: Keyed(Policy(codes.HALF_FROZEN))),
    "R3 open ended": ("R3", lambda: R3(policies.OpenEnded()), lambda: Keyed(Policy(codes.OPEN_ENDED))),
    "R3 leader": ("R3", lambda: R3(policies.FollowLeader()), lambda: Keyed(Policy(codes.LEADER))),
    "R3 by start": ("R3", lambda: R3(policies.LeaderByStart()), lambda: Keyed(Policy(codes.LEADER_BY_START))),
    "R3 fraction": ("R3", lambda: R3(policies.Fraction(0.5)), lambda: Keyed(Policy(codes.FRACTION, share=0.5))),
    "R3 lagging": ("R3", lambda: R3(policies.Lagging(5)), lambda: Keyed(Policy(codes.LAGGING, delay=5))),
    "R3 exact": ("R3", lambda: R3(policies.Exact()), lambda: Keyed(Policy(codes.EXACT))),
    "R4": ("R4", R4, Counted),
    "R4 exact": ("R4", lambda: R4(exact=True), lambda: Counted(exact=True)),
    "R4 with keys": ("R3", R4, Counted),
}


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
