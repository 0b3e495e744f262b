"""Random copies of one stream: the same events in the end, in other orders, with other revisions, at other speeds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.operators.merge.codes import BEFORE, NEVER
from tidelog.operators.merge.elements import Element, adjust, insert, stable, sync_time
from tidelog.operators.merge.table import Event

PAYLOADS = 4


@dataclass(frozen=True)
class Kind:
    """What copies are like, by the names of algorithms."""

    revised: bool = False
    """Wrong ends, removals, events that are not there in the end."""
    disordered: bool = False
    bag: bool = False
    strict: bool = False
    same_ties: bool = False


KINDS = {
    "R0": Kind(strict=True, same_ties=True),
    "R1": Kind(bag=True, same_ties=True),
    "R2": Kind(),
    "R2dup": Kind(bag=True),
    "R2d": Kind(disordered=True),
    "R2ddup": Kind(disordered=True, bag=True),
    "R3": Kind(revised=True, disordered=True),
    "R4": Kind(revised=True, disordered=True, bag=True),
}


def events(dice: random.Random, kind: Kind, count: int = 12, span: int = 24) -> list[Event]:
    """What is there in the end."""
    found: list[Event] = []
    starts = sorted(dice.sample(range(span), min(count, span))) if kind.strict else []
    taken: set[tuple[int, int]] = set()
    for place in range(len(starts) if kind.strict else count):
        start = starts[place] if kind.strict else dice.randrange(span)
        payload = dice.randrange(PAYLOADS)
        if not kind.bag and (payload, start) in taken:
            continue
        taken.add((payload, start))
        end = NEVER if dice.random() < 0.1 else start + dice.randint(1, 12)
        found += [(payload, start, end)] * (dice.randint(1, 3) if kind.bag and dice.random() < 0.4 else 1)
    return found


def copy(dice: random.Random, kind: Kind, whole: Sequence[Event], join: int = BEFORE) -> list[Element]:
    """One copy, up to the stable behind everything; with a join time only events that end at it or later."""
    own = [each for each in whole if each[2] >= join]
    timed: list[tuple[float, float, Element]] = []
    for payload, start, end in own:
        at = float(start)
        if kind.disordered:
            at += dice.random() * 6
        for element in _history(dice, payload, start, end) if kind.revised else [insert(payload, start, end)]:
            timed.append((at, _tie(dice, kind, element), element))
            at += dice.random() * 3
    if kind.revised:
        _add_spurious(dice, whole, timed)
    timed.sort(key=lambda each: each[:2])
    return _with_stables(dice, [each[2] for each in timed])


def _tie(dice: random.Random, kind: Kind, element: Element) -> float:
    return hash((element.payload, element.end)) % 1009 if kind.same_ties else dice.random()


def _history(dice: random.Random, payload: object, start: int, end: int) -> list[Element]:
    found: list[Element] = []
    now = 0  # no event
    for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
        if now and dice.random() < 0.25:
            found.append(adjust(payload, start, now, start))
            now = 0
            continue
        guess = NEVER if dice.random() < 0.2 else start + dice.randint(1, 14)
        if guess == now:
            continue
        found.append(adjust(payload, start, now, guess) if now else insert(payload, start, guess))
        now = guess
    if not now:
        found.append(insert(payload, start, end))
    elif now != end:
        found.append(adjust(payload, start, now, end))
    return found


def _add_spurious(dice: random.Random, whole: Sequence[Event], timed: list[tuple[float, float, Element]]) -> None:
    taken = {(payload, start) for payload, start, _ in whole}
    for _ in range(dice.randrange(4)):
        payload, start = dice.randrange(PAYLOADS), dice.randrange(24)
        if (payload, start) in taken:
            continue
        taken.add((payload, start))
        end, at = start + dice.randint(1, 9), start + dice.random() * 3
        timed.append((at, dice.random(), insert(payload, start, end)))
        timed.append((at + 0.5 + dice.random() * 3, dice.random(), adjust(payload, start, end, start)))


def _with_stables(dice: random.Random, elements: Sequence[Element]) -> list[Element]:
    """Stables at random places, as far as what comes later allows."""
    limits, limit = [], NEVER
    for element in reversed(elements):
        limit = min(limit, sync_time(element))
        limits.append(limit)
    limits.reverse()
    found, last, rate = [], -1, dice.choice((0.05, 0.2, 0.5))
    for element, bound in zip(elements, limits, strict=True):
        if bound > last and dice.random() < rate:
            last = dice.randint(last + 1, bound) if dice.random() < 0.5 else bound
            found.append(stable(last))
        found.append(element)
    return [*found, stable(NEVER)]


def interleaved(dice: random.Random, copies: Sequence[Sequence[Element]]) -> list[tuple[int, Element]]:
    """The elements of all copies with their numbers, each copy in its order, some faster than others."""
    speeds = [dice.choice((1, 1, 3, 9)) for _ in copies]
    places = [0] * len(copies)
    found = []
    left = [number for number, each in enumerate(copies) if each]
    while left:
        number = dice.choices(left, [speeds[each] for each in left])[0]
        for _ in range(dice.randint(1, 4)):
            if places[number] < len(copies[number]):
                found.append((number, copies[number][places[number]]))
                places[number] += 1
        if places[number] == len(copies[number]):
            left.remove(number)
    return found


def counted(whole: Sequence[Event]) -> Counter[Event]:
    """Events with how often they are there."""
    return Counter(whole)
