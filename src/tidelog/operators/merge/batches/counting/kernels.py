"""Kernels of R4: nodes as in the kernels of the other algorithms, with lists of counted ends.

An entry says how many events of a node end at a time, on an input or in the output. The entries of a node are a list,
whose first one stands where others have the end in the output; there are totals for each input in ``ends``, and that
of the output where others have what is aimed at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, called, f64, i64, inline, inlined, kernel
from tidelog.operators.merge.batches.kernels import (
    count_unfrozen,
    drop_node,
    emit,
    find_slot,
    in_order,
    leads,
    new_node,
)
from tidelog.operators.merge.codes import (
    ADJUST,
    AGGRESSIVE,
    BEFORE,
    CLAMPS,
    DONE,
    END,
    ENTRY_FREE,
    ENTRY_TOP,
    EXACT,
    FALLBACKS,
    FRACTION,
    FREE,
    FULL,
    FULLY_FROZEN,
    HALF_FROZEN,
    INSERT,
    JOINED,
    KIND,
    LAGGING,
    LATE,
    LEADER,
    LEADER_BY_START,
    LEADER_BY_UNFROZEN,
    LEADS,
    LEFT,
    MAX_STABLE,
    MOVED,
    NEVER,
    NUMBER,
    OLD,
    OPEN_ENDED,
    OUT_STABLE,
    PAYLOAD,
    PHASE,
    REACHED,
    STABLE,
    START,
    TOP,
    TOTAL,
    UNFROZEN,
    UNKNOWN_ENDS,
)

_OUT = array_out(i64)
_WIDE = array_out(i64, 2)
_IN = array_in(i64, 2)

_N_START, _N_PAYLOAD, _N_FIRST, _N_TOTAL = 0, 1, 2, 3
_E_NEXT, _E_INPUT, _E_END, _E_COUNT = 0, 1, 2, 3
_OUTPUT = -1


@inlined
def _entry(node: Any, column: Any, end: Any, nodes: Any, entries: Any) -> Any:
    entry = nodes[_N_FIRST, node]
    while entry >= 0 and (entries[_E_INPUT, entry] != column or entries[_E_END, entry] != end):
        entry = entries[_E_NEXT, entry]
    return entry


@inlined
def _count_of(node: Any, column: Any, end: Any, nodes: Any, entries: Any) -> Any:
    entry = _entry(node, column, end, nodes, entries)
    return entries[_E_COUNT, entry] if entry >= 0 else i64(0)


@called
def _more(node: Any, column: Any, end: Any, nodes: Any, ends: Any, entries: Any, unused: Any, merge: Any) -> None:
    """One event more that ends there."""
    entry = _entry(node, column, end, nodes, entries)
    if entry < 0:
        if merge[ENTRY_FREE] > 0:
            merge[ENTRY_FREE] -= 1
            entry = unused[merge[ENTRY_FREE]]
        else:
            entry = merge[ENTRY_TOP]
            merge[ENTRY_TOP] += 1
        entries[_E_NEXT, entry] = nodes[_N_FIRST, node]
        entries[_E_INPUT, entry] = column
        entries[_E_END, entry] = end
        entries[_E_COUNT, entry] = 0
        nodes[_N_FIRST, node] = entry
    entries[_E_COUNT, entry] += 1
    merge[TOTAL] += 1
    if column == _OUTPUT:
        nodes[_N_TOTAL, node] += 1
    else:
        ends[node, column] += 1


@called
def _less(node: Any, column: Any, end: Any, nodes: Any, ends: Any, entries: Any, unused: Any, merge: Any) -> None:
    """One event less that ends there; there is one."""
    entry = _entry(node, column, end, nodes, entries)
    entries[_E_COUNT, entry] -= 1
    merge[TOTAL] -= 1
    if column == _OUTPUT:
        nodes[_N_TOTAL, node] -= 1
    else:
        ends[node, column] -= 1
    if entries[_E_COUNT, entry] == 0:
        before = nodes[_N_FIRST, node]
        if before == entry:
            nodes[_N_FIRST, node] = entries[_E_NEXT, entry]
        else:
            while entries[_E_NEXT, before] != entry:
                before = entries[_E_NEXT, before]
            entries[_E_NEXT, before] = entries[_E_NEXT, entry]
        unused[merge[ENTRY_FREE]] = entry
        merge[ENTRY_FREE] += 1


@called
def _forget(node: Any, nodes: Any, entries: Any, slots: Any, free: Any, unused: Any, merge: Any) -> None:
    entry = nodes[_N_FIRST, node]
    while entry >= 0:
        merge[TOTAL] -= entries[_E_COUNT, entry]
        unused[merge[ENTRY_FREE]] = entry
        merge[ENTRY_FREE] += 1
        entry = entries[_E_NEXT, entry]
    drop_node(node, nodes, slots, free, merge)


@called
def _size_from(node: Any, column: Any, time: Any, nodes: Any, entries: Any) -> Any:
    """How many events end at a time or later."""
    found = 0
    entry = nodes[_N_FIRST, node]
    while entry >= 0:
        if entries[_E_INPUT, entry] == column and entries[_E_END, entry] >= time:
            found += entries[_E_COUNT, entry]
        entry = entries[_E_NEXT, entry]
    return found


@inline
def _ends_of(node: Any, column: Any, first: Any, last: Any, nodes: Any, entries: Any) -> Any:
    """The ends of a node from a time up to another one, ascending, each as often as it is there."""
    size = 0
    entry = nodes[_N_FIRST, node]
    while entry >= 0:
        if entries[_E_INPUT, entry] == column and first <= entries[_E_END, entry] <= last:
            size += entries[_E_COUNT, entry]
        entry = entries[_E_NEXT, entry]
    found = np.empty(size, np.int64)
    place = 0
    entry = nodes[_N_FIRST, node]
    while entry >= 0:
        if entries[_E_INPUT, entry] == column and first <= entries[_E_END, entry] <= last:
            for _ in range(entries[_E_COUNT, entry]):
                found[place] = entries[_E_END, entry]
                place += 1
        entry = entries[_E_NEXT, entry]
    found.sort()
    return found


@inline
def _minus(ours: Any, theirs: Any) -> Any:
    """What is in the one ascending multiset and not in the other."""
    found = np.empty(len(ours), np.int64)
    count, other = 0, 0
    for each in ours:
        while other < len(theirs) and theirs[other] < each:
            other += 1
        if other < len(theirs) and theirs[other] == each:
            other += 1
        else:
            found[count] = each
            count += 1
    return found[:count]


@inline
def _wanted(node: Any, own: Any, nodes: Any, ends: Any, entries: Any, inputs: Any, merge: Any) -> Any:
    """The ends that the output must follow if an input moves it on, ascending."""
    reached = merge[MAX_STABLE]
    if nodes[_N_START, node] >= reached:
        return _ends_of(node, own, BEFORE, NEVER, nodes, entries)
    frozen = _ends_of(node, _OUTPUT, BEFORE, reached - 1, nodes, entries)
    movable = _ends_of(node, _OUTPUT, reached, NEVER, nodes, entries)
    theirs = _ends_of(node, own, reached, NEVER, nodes, entries)
    if len(theirs) != len(movable):
        inputs[own, FALLBACKS] += 1
        best = -1
        for other in range(len(inputs)):
            if other == own or ends[node, other] == 0:
                continue
            if _size_from(node, other, reached, nodes, entries) != len(movable):
                continue
            if best < 0:
                best = other
                continue
            one = (i64(inputs[other, PHASE] == JOINED), inputs[other, REACHED], -inputs[other, NUMBER])
            if one > (i64(inputs[best, PHASE] == JOINED), inputs[best, REACHED], -inputs[best, NUMBER]):
                best = other
        if best >= 0:
            theirs = _ends_of(node, best, reached, NEVER, nodes, entries)
        else:
            inputs[own, CLAMPS] += 1
            missing = len(movable) - len(theirs)
            if missing > 0:
                others = _minus(movable, theirs)
                theirs = np.concatenate((theirs, others[len(others) - missing :]))
            else:
                others = _minus(theirs, movable)
                theirs = _minus(theirs, others[len(others) + missing :])
    found = np.concatenate((frozen, theirs))
    found.sort()
    return found


@inlined
def _add(node: Any, end: Any, row: Any, policy: Any, nodes: Any, ends: Any, entries: Any, unused: Any, merge: Any,
         out: Any, count: Any) -> Any:  # fmt: skip
    _more(node, _OUTPUT, end, nodes, ends, entries, unused, merge)
    if policy == FULLY_FROZEN:  # which tells of it once it is known for good
        return count
    return emit(INSERT, nodes[_N_PAYLOAD, node], nodes[_N_START, node], end, BEFORE, row, out, count)


@inlined
def _move(node: Any, old: Any, end: Any, row: Any, policy: Any, nodes: Any, ends: Any, entries: Any, unused: Any,
          merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    start = nodes[_N_START, node]
    _less(node, _OUTPUT, old, nodes, ends, entries, unused, merge)
    if end > start:
        _more(node, _OUTPUT, end, nodes, ends, entries, unused, merge)
    if policy == FULLY_FROZEN:
        return count
    return emit(ADJUST, nodes[_N_PAYLOAD, node], start, end, old, row, out, count)


@called
def _is_right(node: Any, own: Any, time: Any, policy: Any, nodes: Any, ends: Any, entries: Any, merge: Any) -> Any:
    """Whether the output has of a node what it must have at a stable of an input, so that nothing is to be done."""
    reached = merge[MAX_STABLE]
    first = reached if nodes[_N_START, node] < reached else i64(BEFORE)
    is_exact = policy == LEADER or (policy == EXACT and nodes[_N_START, node] >= reached)
    last = i64(NEVER) if is_exact or (policy == FULLY_FROZEN and time == NEVER) else time - 1
    if _size_from(node, own, first, nodes, entries) != _size_from(node, _OUTPUT, first, nodes, entries):
        return False
    entry = nodes[_N_FIRST, node]
    while entry >= 0:
        end, column = entries[_E_END, entry], entries[_E_INPUT, entry]
        if first <= end <= last and column in (own, _OUTPUT):
            other = i64(_OUTPUT) if column == own else own
            if _count_of(node, other, end, nodes, entries) != entries[_E_COUNT, entry]:
                return False
            if policy == FULLY_FROZEN and end >= reached:  # it is to be told
                return False
        entry = entries[_E_NEXT, entry]
    return True


@inline
def _put_right(node: Any, own: Any, time: Any, row: Any, policy: Any, nodes: Any, ends: Any, entries: Any, unused: Any,
               inputs: Any, merge: Any, out: Any, count: Any, done: Any) -> Any:  # fmt: skip
    """Make the output right by as few elements as can be; ``done`` gets 1 if everything about the node is frozen."""
    start, payload, reached = nodes[_N_START, node], nodes[_N_PAYLOAD, node], merge[MAX_STABLE]
    wanted = _wanted(node, own, nodes, ends, entries, inputs, merge)
    given = _ends_of(node, _OUTPUT, BEFORE, NEVER, nodes, entries)
    if start >= reached:
        missing = len(wanted) - len(given)
        if missing > 0:
            for each in _minus(wanted, given)[:missing]:
                end = i64(NEVER) if policy == OPEN_ENDED and each >= time else each
                count = _add(node, end, row, policy, nodes, ends, entries, unused, merge, out, count)
        elif missing < 0:
            for end in _minus(given, wanted)[:-missing]:
                count = _move(node, end, start, row, policy, nodes, ends, entries, unused, merge, out, count)
        given = _ends_of(node, _OUTPUT, BEFORE, NEVER, nodes, entries)
    if policy == LEADER or (policy == EXACT and start >= reached):
        olds, news = _minus(given, wanted), _minus(wanted, given)
        for place in range(len(olds)):
            old, end = olds[place], news[place]
            count = _move(node, old, end, row, policy, nodes, ends, entries, unused, merge, out, count)
        given = wanted
    first = max(start, reached)
    surplus, lacking = _minus(given, wanted), _minus(wanted, given)
    surplus, lacking = surplus[surplus >= first], lacking[lacking >= first]
    early, later = surplus[surplus < time], surplus[surplus >= time]
    early_lacking, later_lacking = lacking[lacking < time], lacking[lacking >= time]
    both = min(len(early), len(early_lacking))
    for place in range(both):
        old, end = early[place], early_lacking[place]
        count = _move(node, old, end, row, policy, nodes, ends, entries, unused, merge, out, count)
    for place in range(both, len(early)):
        end = later_lacking[place - both] if place - both < len(later_lacking) else i64(NEVER)
        count = _move(node, early[place], end, row, policy, nodes, ends, entries, unused, merge, out, count)
    for place in range(both, min(len(early_lacking), both + len(later))):
        old, end = later[place - both], early_lacking[place]
        count = _move(node, old, end, row, policy, nodes, ends, entries, unused, merge, out, count)
    if policy == FULLY_FROZEN:
        last = i64(NEVER) if time == NEVER else time - 1
        for end in _ends_of(node, _OUTPUT, reached, last, nodes, entries):
            count = emit(INSERT, payload, start, end, BEFORE, row, out, count)
    done[0] = len(wanted) == 0 or wanted[len(wanted) - 1] < time
    return count


@inlined
def _is_bare(node: Any, nodes: Any, ends: Any) -> Any:
    """Whether no event of a node is on an input, or in the output."""
    if nodes[_N_TOTAL, node] != 0:
        return False
    for column in range(ends.shape[1]):  # noqa: SIM110  # kernels have no any()
        if ends[node, column] != 0:
            return False
    return True


@inline
def _mirror(node: Any, own: Any, old: Any, end: Any, row: Any, policy: Any, nodes: Any, ends: Any, entries: Any,
            unused: Any, merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    """Have one event as an input has it, by at most one element, unless the output's stable forbids it.

    It had an end, unless ``old`` is before all times, and has another, unless ``end`` is.
    """
    start, reached = nodes[_N_START, node], merge[MAX_STABLE]
    if end != BEFORE:
        lacks = _count_of(node, _OUTPUT, end, nodes, entries) < _count_of(node, own, end, nodes, entries)
        if not lacks or end < reached:
            return count
    given = _ends_of(node, _OUTPUT, reached, NEVER, nodes, entries)
    surplus = _minus(given, _ends_of(node, own, reached, NEVER, nodes, entries))
    has_surplus = len(surplus) > 0
    instead = surplus[0] if has_surplus else i64(BEFORE)
    for each in surplus:
        if each == old:
            instead = each
    more = nodes[_N_TOTAL, node] - ends[node, own]
    if end == BEFORE:
        if start >= reached and more > 0 and has_surplus:
            return _move(node, instead, start, row, policy, nodes, ends, entries, unused, merge, out, count)
    elif has_surplus and (instead == old or more >= 0):
        return _move(node, instead, end, row, policy, nodes, ends, entries, unused, merge, out, count)
    elif start >= reached and more < 0:
        return _add(node, end, row, policy, nodes, ends, entries, unused, merge, out, count)
    return count


@inline
def _tell(node: Any, own: Any, old: Any, end: Any, is_insert: Any, row: Any, policy: Any, share: Any, nodes: Any,
          ends: Any, entries: Any, unused: Any, inputs: Any, merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    """What a policy does at once about an event that an input has told of; as :func:`_mirror`."""
    start = nodes[_N_START, node]
    if policy == AGGRESSIVE:
        return _mirror(node, own, old, end, row, policy, nodes, ends, entries, unused, merge, out, count)
    if policy in (LEADER, LEADER_BY_START, LEADER_BY_UNFROZEN):
        if leads(own, start, is_insert, policy, inputs, merge):
            return _mirror(node, own, old, end, row, policy, nodes, ends, entries, unused, merge, out, count)
        return count
    if not is_insert or policy in (FULLY_FROZEN, HALF_FROZEN, OPEN_ENDED):
        return count
    if start < merge[MAX_STABLE] or ends[node, own] <= nodes[_N_TOTAL, node]:
        return count
    if policy == FRACTION:
        attached, having = 0, 0
        for column in range(len(inputs)):
            if inputs[column, PHASE] != LEFT:
                attached += 1
                having += ends[node, column] > nodes[_N_TOTAL, node]
        if having < np.ceil(share * attached):
            return count
    return _add(node, end, row, policy, nodes, ends, entries, unused, merge, out, count)


@inline
def _sweep(time: Any, own: Any, row: Any, policy: Any, nodes: Any, ends: Any, slots: Any, free: Any, todo: Any,
           entries: Any, unused: Any, inputs: Any, merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    due = 0
    first_kept = time
    if policy == LEADER:
        merge[LEADS] = own
    for node in range(merge[TOP]):
        if nodes[_N_PAYLOAD, node] < 0 or (nodes[_N_START, node] >= time and policy != LEADER):
            continue
        if not _is_right(node, own, time, policy, nodes, ends, entries, merge):
            todo[due] = node
            due += 1
        elif nodes[_N_START, node] >= time:
            if _is_bare(node, nodes, ends):
                _forget(node, nodes, entries, slots, free, unused, merge)
        elif _size_from(node, own, time, nodes, entries) == 0:
            _forget(node, nodes, entries, slots, free, unused, merge)
        else:
            first_kept = min(first_kept, nodes[_N_START, node])
    if due > 0:
        order = in_order(todo[:due], nodes)
        done = np.zeros(1, np.int64)
        for node in order:
            start = nodes[_N_START, node]
            count = _put_right(
                node, own, time, row, policy, nodes, ends, entries, unused, inputs, merge, out, count, done
            )  # fmt: skip
            if _is_bare(node, nodes, ends) if start >= time else done[0]:
                _forget(node, nodes, entries, slots, free, unused, merge)
            elif start < time:
                first_kept = min(first_kept, start)
    if time == NEVER:
        for node in range(merge[TOP]):
            nodes[_N_PAYLOAD, node] = -1
        slots[:] = 0
        for field in (TOP, FREE, ENTRY_TOP, ENTRY_FREE, TOTAL):
            merge[field] = 0
    merge[MAX_STABLE] = time
    if policy == LEADER_BY_UNFROZEN:
        count_unfrozen(nodes, ends, i64(0), inputs, merge)
    stable = first_kept if policy == FULLY_FROZEN and time < NEVER else time
    if stable > merge[OUT_STABLE]:
        merge[OUT_STABLE] = stable
        count = emit(STABLE, 0, BEFORE, stable, BEFORE, row, out, count)
    return count


@kernel(i64(_IN, i64, i64, i64, f64, i64, i64, _WIDE, _WIDE, _OUT, _OUT, _OUT, _WIDE, _OUT, _WIDE, _OUT, _WIDE, _OUT))
def merge_counted(
    rows: Any,
    row: Any,
    own: Any,
    policy: Any,
    share: Any,
    delay: Any,
    stops: Any,
    nodes: Any,
    ends: Any,
    slots: Any,
    free: Any,
    todo: Any,
    entries: Any,
    unused: Any,
    inputs: Any,
    merge: Any,
    out: Any,
    places: Any,
) -> Any:
    """R4 of the rows of one input, from ``row`` on; as ``merge_keyed``."""
    count = 0
    size = rows.shape[1]
    while row < size:
        kind, payload, start, end = rows[KIND, row], rows[PAYLOAD, row], rows[START, row], rows[END, row]
        if kind == STABLE:
            if count + merge[TOTAL] + 1 > out.shape[1]:
                places[0], places[1] = row, count
                return FULL
            if end > inputs[own, REACHED]:
                inputs[own, REACHED] = end
            if inputs[own, PHASE] == JOINED and end > merge[MAX_STABLE]:
                time = end - delay if policy == LAGGING and end != NEVER else end
                if time > merge[MAX_STABLE]:
                    count = _sweep(
                        time, own, row, policy, nodes, ends, slots, free, todo, entries, unused, inputs, merge, out,
                        count,
                    )  # fmt: skip
                if stops:
                    places[0], places[1] = row + 1, count
                    return MOVED
            row += 1
            continue
        if count + 1 > out.shape[1]:
            places[0], places[1] = row, count
            return FULL
        if kind == INSERT and end <= start:
            row += 1
            continue
        slot = find_slot(start, payload, nodes, slots)
        node = slots[slot] - 1
        if node < 0:
            if start < merge[MAX_STABLE]:
                if kind == INSERT:
                    inputs[own, LATE] += 1
                row += 1
                continue
            if end <= start:
                row += 1
                continue
        is_insert, old = kind == INSERT or node < 0, i64(BEFORE)
        if node < 0:
            node = new_node(start, payload, slot, nodes, ends, slots, free, merge)
            nodes[_N_FIRST, node] = -1
            nodes[_N_TOTAL, node] = 0
            for column in range(ends.shape[1]):
                ends[node, column] = 0
        elif kind == ADJUST:
            old = rows[OLD, row]
            if _count_of(node, own, old, nodes, entries) > 0:
                _less(node, own, old, nodes, ends, entries, unused, merge)
                inputs[own, UNFROZEN] -= start >= merge[MAX_STABLE]
            else:
                inputs[own, UNKNOWN_ENDS] += 1
                is_insert = end > start
        if end > start:
            _more(node, own, end, nodes, ends, entries, unused, merge)
            inputs[own, UNFROZEN] += start >= merge[MAX_STABLE]
        now = end if end > start else i64(BEFORE)
        count = _tell(
            node, own, old, now, is_insert, row, policy, share, nodes, ends, entries, unused, inputs, merge, out, count
        )  # fmt: skip
        if kind == ADJUST and _is_bare(node, nodes, ends):
            _forget(node, nodes, entries, slots, free, unused, merge)
        row += 1
    places[0], places[1] = row, count
    return DONE
