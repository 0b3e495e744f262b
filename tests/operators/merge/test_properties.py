"""What holds for merges of any copies of one stream, after every element; events being known from the start."""

from __future__ import annotations

import copy as copying
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from operators.merge.copies import KINDS, Kind, copy, events, interleaved
from support.merging import adapters
from support.profiles import scaled
from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, NEVER, STABLE
from tidelog.operators.merge.compatibility import check_counted, check_keyed, disagreement
from tidelog.operators.merge.elements import Element, insert, stable
from tidelog.operators.merge.reference import policies
from tidelog.operators.merge.reference.cleanse import Cleanse
from tidelog.operators.merge.reference.counted import R4
from tidelog.operators.merge.reference.driver import Merge
from tidelog.operators.merge.reference.keyed import R3, SeparateR3
from tidelog.operators.merge.reference.ordered import R0, R1, R2, R2D, R2DDup, R2Dup
from tidelog.operators.merge.table import Event, Table, table_of

RUNS = scaled(300)

MERGES: dict[str, tuple[str, Callable[[], Merge]]] = {
    "R0": ("R0", R0),
    "R1": ("R1", R1),
    "R2": ("R2", R2),
    "R2dup": ("R2dup", R2Dup),
    "R2d": ("R2d", R2D),
    "R2ddup": ("R2ddup", R2DDup),
    "R3 lazy": ("R3", R3),
    "R3 aggressive": ("R3", lambda: R3(policies.Aggressive())),
    "R3 fully frozen": ("R3", lambda: R3(policies.FullyFrozen())),
    "R3 half frozen": ("R3", lambda: R3(policies.HalfFrozen())),
    "R3 open ended": ("R3", lambda: R3(policies.OpenEnded())),
    "R3 leader": ("R3", lambda: R3(policies.FollowLeader())),
    "R3 leader by start": ("R3", lambda: R3(policies.LeaderByStart())),
    "R3 leader by unfrozen": ("R3", lambda: R3(policies.LeaderByUnfrozen())),
    "R3 half of inputs": ("R3", lambda: R3(policies.Fraction(0.5))),
    "R3 lagging": ("R3", lambda: R3(policies.Lagging(5))),
    "R3 exact": ("R3", lambda: R3(policies.Exact())),
    "R3 by input": ("R3", SeparateR3),
    "R4": ("R4", R4),
    "R4 exact": ("R4", lambda: R4(policies.Exact())),
    "R4 with keys": ("R3", R4),
    "R4 aggressive": ("R4", lambda: R4(policies.Aggressive())),
    "R4 fully frozen": ("R4", lambda: R4(policies.FullyFrozen())),
    "R4 half frozen": ("R4", lambda: R4(policies.HalfFrozen())),
    "R4 open ended": ("R4", lambda: R4(policies.OpenEnded())),
    "R4 leader": ("R4", lambda: R4(policies.FollowLeader())),
    "R4 leader by start": ("R4", lambda: R4(policies.LeaderByStart())),
    "R4 leader by unfrozen": ("R4", lambda: R4(policies.LeaderByUnfrozen())),
    "R4 half of inputs": ("R4", lambda: R4(policies.Fraction(0.5))),
    "R4 lagging": ("R4", lambda: R4(policies.Lagging(5))),
}


POLICIES: tuple[Callable[[], policies.Policy], ...] = (
    policies.Lazy,
    policies.Aggressive,
    policies.FullyFrozen,
    policies.HalfFrozen,
    policies.OpenEnded,
    policies.FollowLeader,
    policies.LeaderByStart,
    policies.LeaderByUnfrozen,
    lambda: policies.Fraction(0.5),
    lambda: policies.Lagging(5),
    policies.Exact,
)


def runs(name: str) -> int:
    """Fewer for policies of R4: those are compared with R3 as well."""
    return RUNS if not name.startswith("R4 ") or name in ("R4 exact", "R4 with keys") else RUNS // 3


class Watched:
    """A merge whose output is checked after every element against what inputs have told and what is true."""

    def __init__(self, merge: Merge, kind: Kind, whole: Sequence[Event]) -> None:
        self.merge = merge
        self.inputs: dict[int, Table] = {}
        self.output = Table()
        self.taken: Counter[int] = Counter()
        self.given: Counter[int] = Counter()
        self.removals = 0
        self.adjusts: Counter[tuple[object, int]] = Counter()
        """By payload and start."""
        self.overtaken: Counter[tuple[object, int]] = Counter()
        """How often a stable passed the end that the output had so far."""
        self._kind = kind
        self._truth = Table()
        self._truth.events = Counter(whole)
        self._checked = BEFORE

    def attach(self, number: int, join: int = BEFORE) -> None:
        self.merge.attach(number, join)
        self.inputs[number] = Table()

    def push(self, number: int, element: Element) -> list[Element]:
        self.inputs[number].apply(element)
        self.taken[element.kind] += 1
        before = dict(self.output.events)
        found = self.merge.push(number, element)
        for each in found:
            self.adjusts[each.payload, each.start] += each.kind == ADJUST
            if each.kind == STABLE:
                passed = {event[:2] for event in before if self.output.stable <= event[2] < each.end}
                self.overtaken.update(passed)
                assert each.end > self.output.stable
            self.output.apply(each)
            self.given[each.kind] += 1
            self.removals += each.kind == ADJUST and each.end == each.start
        self.check()
        return found

    def check(self) -> None:
        tables = list(self.inputs.values())
        assert self.output.stable <= max(each.stable for each in tables)
        if not self._kind.disordered:  # inserts are final, so whoever has joined by a start may lack what others had
            assert all(any(event in each.events for each in tables) for event in self.output.events)
        elif not self._kind.bag:
            told = check_keyed(tables, self.output)
            assert told is None, told
        if self.output.stable > self._checked:
            self._checked = self._truth.stable = self.output.stable
            told = check_counted([self._truth], self.output)
            assert told is None, told
        if not isinstance(getattr(self.merge, "policy", None), policies.FollowLeader):  # who takes turns with leaders
            assert self.given[INSERT] <= self.taken[INSERT] + self.taken[ADJUST]
        assert self.given[STABLE] <= self.taken[STABLE]
        assert self.removals <= self.given[INSERT]

    def finished(self) -> None:
        assert self.output.stable == NEVER
        assert self.output.events == self._truth.events
        assert self.merge.size == 0 or isinstance(self.merge, R0 | R1 | R2 | R2Dup)


@pytest.mark.parametrize("name", MERGES)
def test_copies_that_are_whole_become_one(name: str) -> None:
    """P1 to P5, P8, P14."""
    needs, make = MERGES[name]
    kind = KINDS[needs]
    for seed in range(runs(name)):
        dice = random.Random(seed)
        whole = events(dice, kind)
        inputs = [copy(dice, kind, whole) for _ in range(dice.randint(1, 4))]
        watched = Watched(make(), kind, whole)
        for number in range(len(inputs)):
            watched.attach(number)
        for number, element in interleaved(dice, inputs):
            watched.push(number, element)
            if name == "R3 lazy":
                changes = watched.given[INSERT] + watched.given[ADJUST] - watched.removals
                assert changes <= watched.taken[INSERT] + watched.taken[ADJUST]
                assert watched.given[INSERT] <= watched.taken[INSERT]
                assert len(inputs) > 1 or watched.given.total() <= watched.taken.total()
                assert all(count <= 1 + watched.overtaken[key] for key, count in watched.adjusts.items())
            if isinstance(watched.merge, R3) and name == "R3 lazy":
                reached = watched.merge.max_stable
                assert all(each.start >= reached or (each.out or 0) >= reached for each in watched.merge.nodes.values())
        watched.finished()
        for one, other in itertools.combinations(watched.inputs.values(), 2):
            assert disagreement(one, other) is None
        if name == "R3 lazy":
            assert watched.given[INSERT] + watched.given[ADJUST] <= watched.taken[INSERT] + watched.taken[ADJUST]
        if name.endswith("fully frozen"):
            assert not watched.given[ADJUST]
        if name.endswith(("half frozen", "open ended")):
            assert not watched.removals


@pytest.mark.parametrize("name", MERGES)
def test_inputs_join_and_leave(name: str) -> None:
    """P9: once an input has joined, all others may go at any moment."""
    needs, make = MERGES[name]
    kind = KINDS[needs]
    changed = 0
    for seed in range(runs(name)):
        dice = random.Random(1000 + seed)
        whole = events(dice, kind)
        watched = Watched(make(), kind, whole)
        waiting: dict[int, list[Element]] = {}
        for number in range(dice.randint(1, 2)):
            watched.attach(number)
            waiting[number] = copy(dice, kind, whole)
        fresh = len(waiting)
        while any(waiting.values()):
            number = dice.choice([each for each, left in waiting.items() if left])
            watched.push(number, waiting[number].pop(0))
            if fresh < 8 and dice.random() < 0.08:
                join = dice.randint(0, 30)
                watched.attach(fresh, join)
                waiting[fresh] = copy(dice, kind, whole, join)
                fresh += 1
            joined = [each for each, left in waiting.items() if watched.merge.inputs[each].phase == "joined"]
            if len(joined) > 1 and dice.random() < 0.2:
                staying = dice.choice(joined)
                for each in joined:
                    if each != staying:
                        watched.merge.detach(each)
                        del waiting[each]
                        changed += 1
        watched.finished()
    assert changed > runs(name)


@pytest.mark.parametrize("name", MERGES)
def test_what_is_missing_never_breaks_the_contract(name: str) -> None:
    """P1 with gaps: inputs lack some events, so they are no copies; the output still keeps its promises."""
    needs, make = MERGES[name]
    kind = KINDS[needs]
    for seed in range(runs(name)):
        dice = random.Random(2000 + seed)
        whole = events(dice, kind)
        inputs = []
        for _ in range(3):
            own = [each for each in whole if dice.random() < 0.8]
            inputs.append(copy(dice, kind, own))
        merge, output = make(), Table()
        for number in range(3):
            merge.attach(number)
        for number, element in interleaved(dice, inputs):
            for each in merge.push(number, element):
                output.apply(each)
        assert output.stable == NEVER
        assert {each[:2] for each in output.events} <= {each[:2] for each in whole}


def test_one_index_for_all_inputs_gives_what_one_for_each_does() -> None:
    """P6: element by element."""
    kind = KINDS["R3"]
    for seed in range(RUNS):
        dice = random.Random(3000 + seed)
        whole = events(dice, kind)
        own = [each if dice.random() < 0.9 else whole[0] for each in whole]
        inputs = [copy(dice, kind, list(dict.fromkeys(each))) for each in (whole, own, whole)]
        one, other = R3(), SeparateR3()
        for number in range(3):
            one.attach(number)
            other.attach(number)
        for number, element in interleaved(dice, inputs):
            assert one.push(number, element) == other.push(number, element)


@pytest.mark.parametrize("make", POLICIES)
def test_policies_tell_the_same_of_multisets_that_have_each_event_once(make: Callable[[], policies.Policy]) -> None:
    """P6: R4 where payload and start are a key, element by element, with inputs that join late."""
    kind = KINDS["R3"]
    for seed in range(RUNS // 2):
        dice = random.Random(3500 + seed)
        whole = events(dice, kind)
        inputs = [copy(dice, kind, whole) for _ in range(3)]
        one, other = R3(make()), R4(make())
        for merge in (one, other):
            merge.attach(0)
            merge.attach(1)
            merge.attach(2, seed % 9 if seed % 2 else BEFORE)
        for number, element in interleaved(dice, inputs):
            assert one.push(number, element) == other.push(number, element)


def test_a_more_general_algorithm_gives_the_same_events() -> None:
    """P7."""
    ladder: dict[str, list[Callable[[], Merge]]] = {
        "R0": [R1, R2, R2Dup, R2D, R3, R4],
        "R1": [R2Dup, R4],
        "R2": [R2Dup, R2D, R3, R4],
        "R2dup": [R4],
        "R2d": [R3, R4],
    }
    for seed in range(RUNS // 3):
        for needs, makes in ladder.items():
            dice = random.Random(4000 + seed)
            whole = events(dice, KINDS[needs])
            order = interleaved(dice, [copy(dice, KINDS[needs], whole) for _ in range(3)])
            for make in makes:
                merge, output = make(), Table()
                for number in range(3):
                    merge.attach(number)
                for number, element in order:
                    for each in merge.push(number, element):
                        output.apply(each)
                assert output.events == Counter(whole), make


def test_what_is_unwanted_need_not_be_sent() -> None:
    """P10: an input leaves out what is before a horizon that it was told some time ago."""
    skipped = 0
    for seed in range(RUNS):
        for needs, make in (("R3", R3), ("R4", R4), ("R2", R2), ("R1", R1), ("R2d", R2D), ("R2dup", R2Dup)):
            dice = random.Random(5000 + seed)
            kind = KINDS[needs]
            whole = events(dice, kind)
            merge, output = make(), Table()
            for number in range(3):
                merge.attach(number)
            told = [(BEFORE, BEFORE)] * 3
            for number, element in interleaved(dice, [copy(dice, kind, whole) for _ in range(3)]):
                if dice.random() < 0.3:
                    told[number] = merge.progress(), merge.max_stable
                if _is_unwanted(element, *told[number], by_start=not kind.revised):
                    skipped += 1
                    continue
                for each in merge.push(number, element):
                    output.apply(each)
            assert output.events == Counter(whole)
    assert skipped > 1000


def _is_unwanted(element: Element, horizon: int, reached: int, *, by_start: bool) -> bool:
    if element.kind == STABLE:
        return element.end <= reached
    if by_start:
        return element.start < horizon
    return max(element.end, element.old if element.kind == ADJUST else BEFORE) < reached


def test_work_can_be_divided_by_payloads() -> None:
    """P11: elements go to the worker of their payload, stables to all; the whole is as far as the least worker."""
    for seed in range(RUNS):
        for needs, make in (("R3", R3), ("R4", R4), ("R1", R1), ("R2", R2)):
            dice = random.Random(6000 + seed)
            kind = KINDS[needs]
            whole = events(dice, kind)
            workers, channels = [make() for _ in range(3)], []
            for worker in workers:
                worker.attach(0)
                worker.attach(1)
            order = interleaved(dice, [copy(dice, kind, whole) for _ in range(2)])
            for place in range(3):
                own = [each for each in order if each[1].kind == STABLE or each[1].payload % 3 == place]  # type: ignore[operator]
                channels.append(own)
            output = Table()
            while any(channels):
                place = dice.choice([place for place in range(3) if channels[place]])
                number, element = channels[place].pop(0)
                for each in workers[place].push(number, element):
                    if each.kind != STABLE:
                        output.apply(each)
                least = min(worker.stable for worker in workers)
                if least > output.stable:
                    output.apply(stable(least))
            assert output.events == Counter(whole)
            assert output.stable == NEVER


def test_a_replayed_input_does_no_harm_to_r3() -> None:
    """P13: an input comes again from an earlier element on, under the same name."""
    kind = KINDS["R3"]
    for seed in range(RUNS):
        dice = random.Random(7000 + seed)
        whole = events(dice, kind)
        first, second = copy(dice, kind, whole), copy(dice, kind, whole)
        place = dice.randrange(len(first))
        merge, output = R3(), Table()
        merge.attach(0)
        merge.attach(1)
        for number, element in interleaved(dice, [first[:place] + first[max(place - 9, 0) :], second]):
            for each in merge.push(number, element):
                output.apply(each)
        assert output.events == Counter(whole)


def test_a_merge_goes_on_from_a_copy_of_itself() -> None:
    """P13."""
    for name, (needs, make) in MERGES.items():
        dice = random.Random(name)
        kind = KINDS[needs]
        whole = events(dice, kind)
        order = interleaved(dice, [copy(dice, kind, whole) for _ in range(3)])
        merge = make()
        for number in range(3):
            merge.attach(number)
        for number, element in order:
            twin = copying.deepcopy(merge)
            assert merge.push(number, element) == twin.push(number, element)
            merge = twin if dice.random() < 0.5 else merge


def test_cleansed_copies_are_the_same_inserts() -> None:
    """P15, and a merge of cleansed copies by counting alone."""
    for seed in range(RUNS):
        dice = random.Random(8000 + seed)
        kind = KINDS["R4" if seed % 2 else "R3"]
        whole = events(dice, kind)
        found = []
        for _ in range(3):
            cleanse, given = Cleanse(), []
            for element in copy(dice, kind, whole):
                given += cleanse.push(element)
            inserts = [each for each in given if each.kind == INSERT]
            assert [(each.start, each.payload, each.end) for each in inserts] == sorted(
                (start, payload, end) for payload, start, end in whole
            )
            assert all(each.kind != ADJUST for each in given)
            assert table_of(given).events == Counter(whole)
            found.append(given)
        watched = Watched(R1(), KINDS["R1"], whole)
        for number in range(3):
            watched.attach(number)
        for number, element in interleaved(dice, found):
            watched.push(number, element)
        watched.finished()


def test_r4_gives_as_few_elements_as_can_be() -> None:
    """P16, by trying all ways from small multisets of ends to others."""
    time = 4
    bags = [bag for size in range(3) for bag in itertools.combinations_with_replacement((2, 3, 5, 6), size)]
    for have, want in itertools.product(bags, repeat=2):
        merge = R4()
        merge.attach(0)
        merge.attach(1)
        for end in have:
            merge.push(0, insert("p", 1, end))
        for end in want:
            merge.push(1, insert("p", 1, end))
        before = Counter(dict(merge.nodes[1, "p"].out.items()) if merge.nodes else {})
        given = [each for each in merge.push(1, stable(time)) if each.kind != STABLE]
        assert len(given) == _fewest(before, Counter(want), time), (have, want, given)


def _fewest(have: Counter[int], want: Counter[int], time: int) -> int:
    """How many inserts, removals and moves it takes at least to have the wanted number and ends before a time."""
    surplus = sum((Counter({e: c for e, c in have.items() if e < time}) - want).values())
    lacking = sum((Counter({e: c for e, c in want.items() if e < time}) - have).values())
    more = want.total() - have.total()
    found = []
    for moves in range(surplus + lacking + 1):
        for inserts in range(abs(more) + lacking + 1):
            removals = inserts - more
            if removals >= 0 and moves + removals >= surplus and moves + inserts >= lacking:
                found.append(moves + inserts + removals)
    return min(found)


def test_other_models_and_back() -> None:
    """P17."""
    for seed in range(RUNS):
        dice = random.Random(9000 + seed)
        kind = KINDS["R3"]
        whole = events(dice, kind)
        elements = copy(dice, kind, whole)
        assert list(adapters.add_modify_finalize(adapters.as_add_modify_finalize(elements))) == elements
        bag = KINDS["R4"]
        whole = events(dice, bag)
        told = list(adapters.as_changes(copy(dice, bag, whole)))
        starts: dict[object, list[int]] = {}
        found = table_of(adapters.changes(told)).events
        for payload, start, _ in whole:
            starts.setdefault(payload, []).append(start)
        ended = Counter((payload, end) for payload, _, end in whole)
        assert Counter((payload, end) for payload, _, end in found.elements()) == ended
        assert Counter((p, s) for p, s, _ in found.elements()) == Counter((p, s) for p, s, _ in whole)
        apart = _apart(dice)
        opened = adapters.as_open_close(copy(dice, KINDS["R2d"], apart))
        assert table_of(adapters.open_close(opened)).events == Counter(apart)
        shots = [(time, adapters.as_snapshot(whole, time)) for time in range(-1, 40)]
        table = table_of(adapters.snapshots(shots))
        for time, rows in shots:
            assert Counter(adapters.as_snapshot(table.events.elements(), time)) == Counter(rows)  # type: ignore[arg-type]
        plain = [(payload, start) for payload, start, _ in whole]
        expected = Counter((payload, start, start + 1) for payload, start in plain)
        assert table_of(adapters.plain_events(plain, delay=40)).events == expected


def _apart(dice: random.Random) -> list[Event]:
    """Events of which those with the same payload do not touch."""
    found: list[Event] = []
    for payload in range(3):
        time = 0
        for _ in range(dice.randrange(5)):
            start = time + dice.randint(1, 5)
            time = start + dice.randint(1, 5)
            found.append((payload, start, time))
    return found
