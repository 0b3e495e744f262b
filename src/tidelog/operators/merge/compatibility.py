"""Whether what a merge has given so far fits what its inputs have given: conditions on tables, for tests and alarms.

With L the last stable of the output and L_m that of input m:

* C1: L is at most the largest L_m.
* C2: there is at most one event of each payload and start; a half-frozen one has one like it on some input that is half
  frozen with L <= L_m, or fully frozen with an end from L on; a fully frozen one is, as it is, on some input.
* C3: what is fully frozen on an input is in the output fully frozen, half frozen, or not due, by where L is; what is
  half frozen on the input with the largest L_m has a half-frozen event in the output if L is behind its start.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tidelog.operators.merge.table import Event, Table


def check_keyed(inputs: Sequence[Table], output: Table) -> str | None:
    """What is against C1, C2 or C3, where payload and start are a key; None if nothing is."""
    reached, last = output.stable, max((each.stable for each in inputs), default=output.stable)
    if inputs and reached > last:
        return f"C1: the output is at {reached}, its inputs at {last}"
    given: defaultdict[tuple[object, int], list[tuple[int, int]]] = defaultdict(list)
    for each in inputs:
        for payload, start, end in each.events:
            given[payload, start].append((end, each.stable))
    found: dict[tuple[object, int], int] = {}
    for (payload, start, end), count in output.events.items():
        key = payload, start
        if count > 1 or key in found:
            return f"C2: {key} is more than once in the output"
        found[key] = end
        if end < reached:
            if not any(own == end < limit for own, limit in given[key]):
                return f"C2: {key} ends at {end} for good, and on no input"
        elif start < reached and not any(
            (reached <= limit and start < limit <= own) or (own < limit and reached <= own) for own, limit in given[key]
        ):
            return f"C2: {key} is half frozen in the output, and on no input"
    for key, ends in given.items():
        start = key[1]
        if reached <= start:
            continue
        own_end = found.get(key)
        full = [end for end, limit in ends if end < limit]
        half = [limit for end, limit in ends if start < limit <= end]
        for end in full:
            if end < reached:
                if own_end != end:
                    return f"C3: {key} ends at {end} on an input for good, in the output at {own_end}"
            elif own_end is None or own_end < reached:
                return f"C3: {key} is fully frozen on an input, and no half-frozen one is in the output"
        if not full and half and reached <= max(half) and (own_end is None or own_end < reached):
            return f"C3: {key} is half frozen on an input, and not in the output"
        if not full and half and reached > max(half):
            return f"C3: {key} is half frozen on an input at {max(half)}, behind which the output is, at {reached}"
    return None


def check_counted(inputs: Sequence[Table], output: Table) -> str | None:
    """The same where events may be there several times, in terms of the input that is farthest; None if all is well."""
    reached = output.stable
    leader = max(inputs, key=lambda each: each.stable)
    if reached > leader.stable:
        return f"C1: the output is at {reached}, its inputs at {leader.stable}"
    ours, theirs = _summary(output, reached), _summary(leader, reached)
    return None if ours == theirs else f"found {ours}, expected {theirs}"


def _summary(table: Table, reached: int) -> tuple[Counter[Event], Counter[tuple[object, int]]]:
    """Events that end before a time, and how many there are of those that start before it."""
    frozen: Counter[Event] = Counter()
    started: Counter[tuple[object, int]] = Counter()
    for (payload, start, end), count in table.events.items():
        if start < reached:
            started[payload, start] += count
        if end < reached:
            frozen[payload, start, end] += count
    return frozen, started


def disagreement(one: Table, other: Table) -> str | None:
    """In what two inputs differ that cannot change any more, so that they are not copies of one stream; None if not."""
    reached = min(one.stable, other.stable)
    (ours, our_starts), (theirs, their_starts) = _summary(one, reached), _summary(other, reached)
    if ours != theirs:
        return f"before {reached} one input has {dict(ours - theirs)}, the other {dict(theirs - ours)}"
    if our_starts != their_starts:
        more, less = dict(our_starts - their_starts), dict(their_starts - our_starts)
        return f"of starts before {reached} one input has {more}, the other {less}"
    return None
