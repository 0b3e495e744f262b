"""The operator on copies with real revisions, in batches, with inputs that come and go, and snapshots in between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from operators.merge import aggregated
from operators.merge.arrow import SHAPE, batch_of, elements_of
from support.profiles import scaled
from tidelog.operators.base import Batches
from tidelog.operators.conformance import Disk
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.engine import Policy
from tidelog.operators.merge.codes import ADJUST, BEFORE, NEVER, STABLE
from tidelog.operators.merge.compatibility import check_counted, check_keyed
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.ports import Input
from tidelog.operators.merge.table import Table

RUNS = scaled(20)
POLICIES = {
    "lazy": Policy(),
    "aggressive": Policy(codes.AGGRESSIVE),
    "conservative": Policy(codes.FULLY_FROZEN),
    "half-frozen": Policy(codes.HALF_FROZEN),
    "open-ended": Policy(codes.OPEN_ENDED),
    "leader": Policy(codes.LEADER),
    "leader-by-start": Policy(codes.LEADER_BY_START),
    "leader-by-unfrozen": Policy(codes.LEADER_BY_UNFROZEN),
    "fraction": Policy(codes.FRACTION, share=0.5),
    "lagging": Policy(codes.LAGGING, delay=7),
    "exact": Policy(codes.EXACT),
}


def test_a_third_of_the_elements_are_revisions() -> None:
    dice = random.Random(1)
    kinds: Counter[int] = Counter()
    for _ in range(20):
        own = aggregated.intervals(dice, 200, 1)
        kinds.update(each.kind for each in aggregated.copy(dice, own, 1))
    assert 0.3 < kinds[ADJUST] / kinds.total() < 0.5


class Run:
    """A merge beside tables of what its inputs and its output have told."""

    def __init__(self, algorithm: str, policy: Policy, names: Sequence[str]) -> None:
        self._make = lambda: MergeOperator([Input(name, SHAPE) for name in names], algorithm, policy=policy)
        self.merge = self._make()
        self.inputs = {name: Table() for name in names}
        self.output = Table()
        self._is_keyed = algorithm == "R3"
        self._disk = Disk()
        self._joins: dict[str, int | None] = {}

    def attach(self, name: str, join: int | None) -> None:
        self.merge.attach(name, join=join)
        self.inputs[name] = Table(strict=join is None)
        self._joins[name] = join

    def push(self, name: str, part: Sequence[Element], horizon: int = BEFORE) -> int:
        """Elements that are of no use, by what the input was told at some time, are left out; how many."""
        for each in part:
            self.inputs[name].apply(each)
        kept = [each for each in part if max(each.end, each.old) >= horizon]
        self.take(self.merge.push(self.merge.port(name), batch_of(kept)))
        return len(part) - len(kept)

    def take(self, given: Batches) -> None:
        for each in elements_of(given):
            self.output.apply(each)
        if self.merge.reached is not None and self.merge.reached > NEVER:
            self.output.stable = NEVER
        tables = [self._known(name) for name in self.inputs]
        told = check_keyed(tables, self.output) if self._is_keyed else None
        assert told is None, told

    def _known(self, name: str) -> Table:
        """What an input has told that counts: of events that end before its join time it says nothing."""
        own, join = self.inputs[name], self._joins.get(name)
        if join is None:
            return own
        found = Table()
        found.events = Counter({event: count for event, count in own.events.items() if event[2] >= join})
        found.stable = own.stable
        return found

    def restart(self) -> None:
        state, self.merge = self.merge.snapshot(), self._make()
        self._disk.restored(state, self.merge.restore)


def campaign(seed: int, algorithm: str, policy: Policy, groups: int, *, feedback: bool = False) -> int:
    """A run; how many elements inputs left out that were told that these are of no use."""
    left_out, horizons = 0, dict[str, int]()
    dice = random.Random(seed)
    own = aggregated.intervals(dice, dice.choice((20, 60)), groups)
    truth = Table()
    truth.events = Counter(aggregated.whole(own, groups))
    names = [str(number) for number in range(dice.randint(1, 3))]
    run = Run(algorithm, policy, names)
    waiting = {name: aggregated.copy(dice, own, groups) for name in names}
    lag = {name: dice.choice((1, 1, 4, 12)) for name in names}
    while any(waiting.values()):
        live = [name for name, left in waiting.items() if left]
        name = dice.choices(live, [1 / lag[each] for each in live])[0]
        size = dice.choice((1, 4, 15, 60))
        part, waiting[name] = waiting[name][:size], waiting[name][size:]
        left_out += run.push(name, part, horizons.get(name, BEFORE) if feedback else BEFORE)
        if dice.random() < 0.5:
            horizons |= {each.name: run.merge.horizon(each.name) for each in run.merge.states}
        if run.merge.reached is not None:
            truth.stable = run.output.stable
            told = check_counted([truth], run.output)
            assert told is None, told
        joined = [each.name for each in run.merge.states if each.phase == "joined"]
        if len(run.inputs) < 6 and dice.random() < 0.15:
            fresh, join = str(len(run.inputs)), dice.choice((None, dice.randint(0, 90)))
            run.attach(fresh, join)
            waiting[fresh] = aggregated.copy(dice, own, groups, join=BEFORE if join is None else join)
            lag[fresh] = 1
        if len(joined) > 1 and dice.random() < 0.1:
            gone = dice.choice(joined)
            run.merge.detach(gone)
            waiting.pop(gone, None)
        if dice.random() < 0.15:
            run.restart()
    assert run.output.stable == NEVER
    assert run.output.events == truth.events
    assert run.merge._engine.size == 0
    return left_out


@pytest.mark.parametrize("name", POLICIES)
def test_steps_of_one_group(name: str) -> None:
    for seed in range(RUNS):
        campaign(seed, "R3", POLICIES[name], 1)


@pytest.mark.parametrize("name", POLICIES)
def test_steps_of_groups_that_payloads_do_not_tell_apart(name: str) -> None:
    for seed in range(RUNS // 2):
        campaign(seed, "R4", POLICIES[name], 3)


@pytest.mark.parametrize("name", ["lazy", "aggressive", "half-frozen", "leader", "R4", "R4 conservative", "R4 leader"])
def test_elements_that_are_of_no_use_may_be_left_out(name: str) -> None:
    """P10, whenever inputs are told, and whether or not they were replaced by a snapshot meanwhile."""
    left_out = 0
    for seed in range(RUNS):
        if name.startswith("R4"):
            policy = POLICIES[name.removeprefix("R4").strip() or "lazy"]
            left_out += campaign(seed, "R4", policy, 3, feedback=True)
        else:
            left_out += campaign(seed, "R3", POLICIES[name], 1, feedback=True)
    assert left_out > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_many_runs(seed: int) -> None:
    for each in range(100):
        for policy in POLICIES.values():
            campaign(1000 + 100 * seed + each, "R3", policy, 1)
            campaign(1000 + 100 * seed + each, "R4", policy, 3)


def test_gaps_break_no_promise_of_the_output() -> None:
    """Elements that some copies lack: what comes out keeps its promises, and no event is there that nobody told."""
    for seed in range(RUNS):
        dice = random.Random(seed)
        own = aggregated.intervals(dice, 40, 1)
        merge = MergeOperator([Input(str(number), SHAPE) for number in range(3)], "R3")
        output, told = Table(), set()
        waiting = []
        for _ in range(3):
            elements = aggregated.copy(dice, own, 1)
            waiting.append([each for each in elements if each.kind == STABLE or dice.random() < 0.9])
            told |= {(each.payload, each.start) for each in waiting[-1] if each.kind != STABLE}
        while any(waiting):
            number = dice.choice([number for number, left in enumerate(waiting) if left])
            part, waiting[number] = waiting[number][:9], waiting[number][9:]
            for each in elements_of(merge.push(number, batch_of(part))):
                output.apply(each)
        assert {(payload, start) for payload, start, _ in output.events} <= told
