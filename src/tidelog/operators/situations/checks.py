"""Rules that a query about situations has to keep, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, permutations, product
from typing import Final, TypeAlias

from tidelog.model.errors import did_you_mean
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.relations import ANY, each_of, inverse, relation_of, told
from tidelog.operators.situations.syntax import Definition, Situations

Relations: TypeAlias = tuple[tuple[int, ...], ...]
"""For each pair of situations, by their numbers, the relations that are allowed."""

MOST_SITUATIONS: Final = 12
"""Situations of one pattern: orders of evaluation are chosen among all subsets of them."""


def check_definitions(definitions: Sequence[Definition]) -> None:
    """Raise :class:`SituationError` for names that are there twice and for bounds that nothing fulfils."""
    names: set[str] = set()
    for number, each in enumerate(definitions):
        if each.name.lower() in names:
            raise SituationError(
                f"found two definitions of {each.name}; give one of them another name", "definitions", number
            )
        names.add(each.name.lower())
        if each.least < 0:
            raise SituationError(f"found the least length {each.least}; expected 0 or more", "definitions", number)
        if each.most is not None and each.most < max(each.least, 1):
            raise SituationError(
                f"found a situation {each.name} that lasts at least {each.least} and at the most {each.most} ticks; "
                "expected a longer one at the most",
                "definitions",
                number,
            )
    if not definitions:
        raise SituationError("found no definition of a situation; expected DEFINE name AS condition")


def relations_of(query: Situations) -> Relations:
    """What is allowed between situations. Raises :class:`SituationError` for a pattern that breaks a rule."""
    check_definitions(query.definitions)
    names = [each.name for each in query.definitions]
    if query.within <= 0:
        raise SituationError("found a window of no length; expected WITHIN and a length above zero", "within")
    if len(names) > MOST_SITUATIONS:
        raise SituationError(
            f"found {len(names)} situations in a pattern; at most {MOST_SITUATIONS} can be", "definitions", 12
        )
    known = [[ANY] * len(names) for _ in names]
    for number, each in enumerate(query.constraints):
        for name in (each.first, each.second):
            if name not in names:
                raise SituationError(
                    f"found {name} in PATTERN, which is not defined; {did_you_mean(name, names)}", "constraints", number
                )
        if each.first == each.second:
            raise SituationError(
                f"found a relation of {each.first} to itself; expected one to another situation", "constraints", number
            )
        first, second = names.index(each.first), names.index(each.second)
        both = known[first][second] & each.relations
        if not both:
            raise SituationError(
                f"found constraints of {each.first} and {each.second} that cannot hold together: "
                f"{told(known[first][second])}, and {told(each.relations)}",
                "constraints",
                number,
            )
        known[first][second], known[second][first] = both, inverse(both)
    _check_connected(query, known)
    _check_possible(query, known)
    return tuple(map(tuple, known))


def check_returned(query: Situations) -> None:
    """Raise for columns about situations that are none, and for two of one name."""
    names = [each.name for each in query.definitions]
    seen = {name.lower() for name in query.partition}
    for number, each in enumerate(query.returned):
        for term in each.terms:
            if term.situation not in names:
                raise SituationError(
                    f"found {term.situation} in RETURN, which is not defined; {did_you_mean(term.situation, names)}",
                    "returned",
                    number,
                )
        if each.name.lower() in seen:
            raise SituationError(f"found two columns {each.name}; give one another name", "returned", number)
        seen.add(each.name.lower())


def _check_connected(query: Situations, known: Sequence[Sequence[int]]) -> None:
    reached, waiting = {0}, [0]
    while waiting:
        one = waiting.pop()
        for other, mask in enumerate(known[one]):
            if mask != ANY and other not in reached:
                reached.add(other)
                waiting.append(other)
    for number, each in enumerate(query.definitions):
        if number not in reached or len(query.definitions) == 1:
            raise SituationError(
                f"found no constraints that bind {each.name} to the other situations, so that each of its situations "
                "would be in a match with all others; expected PATTERN to name it, or no such definition",
                "definitions",
                number,
            )


def _check_possible(query: Situations, known: Sequence[Sequence[int]]) -> None:
    """Raise if relations contradict each other by way of third situations."""
    left = [list(row) for row in known]
    changed = True
    while changed:
        changed = False
        for one, middle, other in permutations(range(len(left)), 3):
            allowed = left[one][other] & _composed(left[one][middle], left[middle][other])
            if allowed == left[one][other]:
                continue
            changed = True
            left[one][other], left[other][one] = allowed, inverse(allowed)
            if not allowed:
                names = [query.definitions[each].name for each in (one, other, middle)]
                raise SituationError(
                    f"found a pattern that nothing can fulfil: no relation between {names[0]} and {names[1]} is "
                    f"possible, given those with {names[2]}",
                    "constraints",
                    len(query.constraints) - 1,
                )


@cache
def _composed(first: int, second: int) -> int:
    """What may hold between A and C if ``first`` holds between A and B, and ``second`` between B and C."""
    table = _table()
    found = 0
    for one, other in product(each_of(first), each_of(second)):
        found |= table[one, other]
    return found


@cache
def _table() -> dict[tuple[int, int], int]:
    """Composition of single relations, from all that three intervals can be to each other."""
    intervals = list(combinations(range(6), 2))
    found: dict[tuple[int, int], int] = {}
    for a, b, c in product(intervals, repeat=3):
        key = relation_of(a, b), relation_of(b, c)
        found[key] = found.get(key, 0) | relation_of(a, c)
    return found
