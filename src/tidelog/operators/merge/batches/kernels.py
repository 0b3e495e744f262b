"""Kernels of logical merge: a batch of elements of one input at a time.

Elements are columns of an array, see :mod:`tidelog.operators.merge.codes`. Nodes, the payloads and starts that are
known, stand in any order in ``nodes``, and are found by ``slots``, a hash table of their places plus one. A node is
free if its payload is negative; ``free`` has the places of those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, called, f64, i64, inline, inlined, kernel, void
from tidelog.operators.merge.codes import (
    ADJUST,
    AGGRESSIVE,
    BEFORE,
    CAUSE,
    CHECK,
    CLAMPS,
    CONFLICT,
    COUNT,
    COUNTED,
    DISTINCT,
    DONE,
    END,
    EXACT,
    FALLBACKS,
    FRACTION,
    FREE,
    FULL,
    FULLY_FROZEN,
    GIVEN,
    HALF_FROZEN,
    INSERT,
    JOIN,
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
    MAX_START,
    MOVED,
    NEVER,
    NEWEST,
    NUMBER,
    OLD,
    ONE,
    OPEN_ENDED,
    OUT_STABLE,
    PAYLOAD,
    PHASE,
    REACHED,
    REPEATED_KEYS,
    SAME_ORDER,
    STABLE,
    START,
    TOP,
    UNFROZEN,
)

_OUT = array_out(i64)
_WIDE = array_out(i64, 2)
_IN = array_in(i64, 2)

_N_START, _N_PAYLOAD, _N_OUT, _N_AIM = 0, 1, 2, 3


@inlined
def _home(start: Any, payload: Any, mask: Any) -> Any:
    mixed = np.uint64(start) * np.uint64(0x9E3779B185EBCA87) ^ np.uint64(payload) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x165667B19E3779F9)
    return i64(mixed >> np.uint64(20)) & mask


@inlined
def find_slot(start: Any, payload: Any, nodes: Any, slots: Any) -> Any:
    """The slot of a node, or the empty one where it would be."""
    mask = len(slots) - 1
    slot = _home(start, payload, mask)
    while slots[slot] != 0:
        node = slots[slot] - 1
        if nodes[_N_START, node] == start and nodes[_N_PAYLOAD, node] == payload:
            break
        slot = (slot + 1) & mask
    return slot


@inlined
def new_node(start: Any, payload: Any, slot: Any, nodes: Any, ends: Any, slots: Any, free: Any, merge: Any) -> Any:
    """A node for a payload and a start, at a slot that is empty."""
    if merge[FREE] > 0:
        merge[FREE] -= 1
        node = free[merge[FREE]]
    else:
        node = merge[TOP]
        merge[TOP] += 1
    nodes[_N_START, node] = start
    nodes[_N_PAYLOAD, node] = payload
    nodes[_N_OUT, node] = BEFORE
    for column in range(ends.shape[1]):
        ends[node, column] = BEFORE
    slots[slot] = node + 1
    return node


@called
def drop_node(node: Any, nodes: Any, slots: Any, free: Any, merge: Any) -> None:
    """Free a node, and move those back that stand behind it in the hash table because of it."""
    mask = len(slots) - 1
    hole = find_slot(nodes[_N_START, node], nodes[_N_PAYLOAD, node], nodes, slots)
    slots[hole] = 0
    place = (hole + 1) & mask
    while slots[place] != 0:
        other = slots[place] - 1
        home = _home(nodes[_N_START, other], nodes[_N_PAYLOAD, other], mask)
        if ((place - home) & mask) >= ((place - hole) & mask):
            slots[hole] = slots[place]
            slots[place] = 0
            hole = place
        place = (place + 1) & mask
    nodes[_N_PAYLOAD, node] = -1
    free[merge[FREE]] = node
    merge[FREE] += 1


@inlined
def emit(kind: Any, payload: Any, start: Any, end: Any, old: Any, row: Any, out: Any, count: Any) -> Any:
    """Put an element behind those that came out."""
    out[KIND, count] = kind
    out[PAYLOAD, count] = payload
    out[START, count] = start
    out[END, count] = end
    out[OLD, count] = old
    out[CAUSE, count] = row
    return count + 1


@inlined
def _set(node: Any, end: Any, row: Any, nodes: Any, merge: Any, out: Any, count: Any) -> Any:
    """Have the output end an event there, unless its stable forbids it; returns how many elements there are now."""
    before, start, payload = nodes[_N_OUT, node], nodes[_N_START, node], nodes[_N_PAYLOAD, node]
    if end == before:
        return count
    stable = merge[OUT_STABLE]
    if before == BEFORE or end == BEFORE:
        if start < stable:
            return count
        if before == BEFORE:
            count = emit(INSERT, payload, start, end, BEFORE, row, out, count)
        else:
            count = emit(ADJUST, payload, start, start, before, row, out, count)
    else:
        if start < stable and (end < stable or before < stable):
            return count
        count = emit(ADJUST, payload, start, end, before, row, out, count)
    nodes[_N_OUT, node] = end
    return count


@called
def _follow(node: Any, own: Any, policy: Any, nodes: Any, ends: Any, inputs: Any, merge: Any) -> Any:
    """The end that the output must follow if an input moves it on."""
    end = ends[node, own]
    reached = merge[MAX_STABLE]
    if nodes[_N_START, node] >= reached:
        return end
    if end == BEFORE:
        inputs[own, FALLBACKS] += 1
        best = -1
        for other in range(len(inputs)):
            if ends[node, other] == BEFORE:
                continue
            if best < 0:
                best = other
                continue
            one = (i64(inputs[other, PHASE] == JOINED), inputs[other, REACHED], -inputs[other, NUMBER])
            if one > (i64(inputs[best, PHASE] == JOINED), inputs[best, REACHED], -inputs[best, NUMBER]):
                best = other
        end = nodes[_N_OUT, node] if best < 0 else ends[node, best]
    if end != BEFORE and end < reached and policy != FULLY_FROZEN:
        inputs[own, CLAMPS] += 1
        end = reached
    return end


@inlined
def _is_bare(node: Any, nodes: Any, ends: Any) -> Any:
    """Whether a node is on no input, nor in the output."""
    if nodes[_N_OUT, node] != BEFORE:
        return False
    for column in range(ends.shape[1]):  # noqa: SIM110  # kernels have no any()
        if ends[node, column] != BEFORE:
            return False
    return True


@called
def leads(own: Any, start: Any, is_insert: Any, policy: Any, inputs: Any, merge: Any) -> Any:
    """Whether an input is the leader when it tells of an event."""
    if inputs[own, PHASE] == JOINED:
        leader = merge[LEADS]
        takes_over = leader < 0 or inputs[leader, PHASE] == LEFT
        if policy == LEADER_BY_START and is_insert and (merge[NEWEST] == BEFORE or start > merge[NEWEST]):
            merge[NEWEST] = start
            takes_over = True
        elif policy == LEADER_BY_UNFROZEN and not takes_over:
            takes_over = inputs[own, UNFROZEN] > inputs[leader, UNFROZEN]
        if takes_over:
            merge[LEADS] = own
    return merge[LEADS] == own


@inlined
def _told(node: Any, own: Any, row: Any, is_insert: Any, policy: Any, share: Any, nodes: Any, ends: Any, inputs: Any,
          merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    """What a policy does at once about an event that an input has told of."""
    end = ends[node, own]
    if policy == AGGRESSIVE:
        return _set(node, end, row, nodes, merge, out, count)
    if policy in (LEADER, LEADER_BY_START, LEADER_BY_UNFROZEN):
        if leads(own, nodes[_N_START, node], is_insert, policy, inputs, merge):
            return _set(node, end, row, nodes, merge, out, count)
        return count
    if not is_insert or policy in (FULLY_FROZEN, HALF_FROZEN, OPEN_ENDED):
        return count
    if nodes[_N_OUT, node] != BEFORE:
        return count
    if policy == FRACTION:
        attached, having = 0, 0
        for column in range(len(inputs)):
            if inputs[column, PHASE] != LEFT:
                attached += 1
                having += ends[node, column] != BEFORE
        if having < np.ceil(share * attached):
            return count
    return _set(node, end, row, nodes, merge, out, count)


@called
def count_unfrozen(nodes: Any, ends: Any, nothing: Any, inputs: Any, merge: Any) -> None:
    """How many unfrozen events each input has: in ``ends`` one, or as many as it says where ``nothing`` is zero."""
    for column in range(len(inputs)):
        inputs[column, UNFROZEN] = 0
    for node in range(merge[TOP]):
        if nodes[_N_PAYLOAD, node] >= 0 and nodes[_N_START, node] >= merge[MAX_STABLE]:
            for column in range(len(inputs)):
                if ends[node, column] != nothing:
                    inputs[column, UNFROZEN] += 1 if nothing != 0 else ends[node, column]


@inline
def in_order(todo: Any, nodes: Any) -> Any:
    """Nodes by start and payload."""
    starts = np.empty(len(todo), np.int64)
    payloads = np.empty(len(todo), np.int64)
    for place in range(len(todo)):
        payloads[place] = nodes[_N_PAYLOAD, todo[place]]
    first = np.argsort(payloads, kind="mergesort")
    for place in range(len(todo)):
        starts[place] = nodes[_N_START, todo[first[place]]]
    second = np.argsort(starts, kind="mergesort")
    found = np.empty(len(todo), np.int64)
    for place in range(len(todo)):
        found[place] = todo[first[second[place]]]
    return found


@inline
def _sweep(time: Any, own: Any, row: Any, policy: Any, nodes: Any, ends: Any, slots: Any, free: Any, todo: Any,
           inputs: Any, merge: Any, out: Any, count: Any) -> Any:  # fmt: skip
    """Make the output right for a stable of an input; returns how many elements there are now."""
    due = 0
    first_kept = time
    if policy == LEADER:
        merge[LEADS] = own
    for node in range(merge[TOP]):
        if nodes[_N_PAYLOAD, node] < 0:
            continue
        start, before = nodes[_N_START, node], nodes[_N_OUT, node]
        if start >= time:
            if policy == LEADER:
                if ends[node, own] != before:
                    nodes[_N_AIM, node] = ends[node, own]
                    todo[due] = node
                    due += 1
                elif _is_bare(node, nodes, ends):
                    drop_node(node, nodes, slots, free, merge)
            continue
        end = _follow(node, own, policy, nodes, ends, inputs, merge)
        aim = before
        if end == BEFORE:
            aim = BEFORE
        elif policy == FULLY_FROZEN:
            if end < time or time == NEVER:
                aim = end
        elif policy == LEADER or (policy == EXACT and start >= merge[MAX_STABLE]):
            aim = end
        elif before == BEFORE:
            aim = NEVER if policy == OPEN_ENDED and end >= time else end
        elif end != before and (end < time or before < time):
            aim = end
        is_done = end == BEFORE or end < time or (policy == FULLY_FROZEN and time == NEVER)
        if aim != before:
            nodes[_N_AIM, node] = aim
            todo[due] = node
            due += 1
            if not is_done:
                first_kept = min(first_kept, start)
        elif is_done:
            drop_node(node, nodes, slots, free, merge)
        else:
            first_kept = min(first_kept, start)
    if due > 0:
        order = in_order(todo[:due], nodes)
        for place in range(due):
            node = order[place]
            start, aim = nodes[_N_START, node], nodes[_N_AIM, node]
            count = _set(node, aim, row, nodes, merge, out, count)
            if start >= time:
                if _is_bare(node, nodes, ends):
                    drop_node(node, nodes, slots, free, merge)
            elif aim < time or (policy == FULLY_FROZEN and time == NEVER):
                drop_node(node, nodes, slots, free, merge)
    if time == NEVER:
        for node in range(merge[TOP]):
            nodes[_N_PAYLOAD, node] = -1
        slots[:] = 0
        merge[TOP] = 0
        merge[FREE] = 0
    merge[MAX_STABLE] = time
    if policy == LEADER_BY_UNFROZEN:
        count_unfrozen(nodes, ends, i64(BEFORE), inputs, merge)
    stable = first_kept if policy == FULLY_FROZEN and time < NEVER else time
    if stable > merge[OUT_STABLE]:
        merge[OUT_STABLE] = stable
        count = emit(STABLE, 0, BEFORE, stable, BEFORE, row, out, count)
    return count


@kernel(i64(_IN, i64, i64, i64, f64, i64, i64, _WIDE, _WIDE, _OUT, _OUT, _OUT, _WIDE, _OUT, _WIDE, _OUT))
def merge_keyed(rows: Any, row: Any, own: Any, policy: Any, share: Any, delay: Any, stops: Any, nodes: Any, ends: Any,
                slots: Any, free: Any, todo: Any, inputs: Any, merge: Any, out: Any, places: Any) -> Any:  # fmt: skip
    """R3 of the rows of one input, from ``row`` on.

    ``places`` gets the next row and the number of elements in ``out``. Returns why it stopped; with ``stops`` it does
    where the merge has moved on.
    """
    count = 0
    size = rows.shape[1]
    while row < size:
        kind, payload, start, end = rows[KIND, row], rows[PAYLOAD, row], rows[START, row], rows[END, row]
        if kind == STABLE:
            if count + merge[TOP] - merge[FREE] + 1 > out.shape[1]:
                places[0], places[1] = row, count
                return FULL
            if end > inputs[own, REACHED]:
                inputs[own, REACHED] = end
            if inputs[own, PHASE] == JOINED and end > merge[MAX_STABLE]:
                time = end - delay if policy == LAGGING and end != NEVER else end
                if time > merge[MAX_STABLE]:
                    count = _sweep(
                        time, own, row, policy, nodes, ends, slots, free, todo, inputs, merge, out, count
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
            elif end > start:
                node = new_node(start, payload, slot, nodes, ends, slots, free, merge)
                ends[node, own] = end
                inputs[own, UNFROZEN] += 1
                count = _told(node, own, row, True, policy, share, nodes, ends, inputs, merge, out, count)
        else:
            if kind == INSERT and ends[node, own] != BEFORE and ends[node, own] != end:
                inputs[own, REPEATED_KEYS] += 1
            if start >= merge[MAX_STABLE]:
                inputs[own, UNFROZEN] += i64(end > start) - i64(ends[node, own] != BEFORE)
            ends[node, own] = end if end > start else i64(BEFORE)
            count = _told(node, own, row, kind == INSERT, policy, share, nodes, ends, inputs, merge, out, count)
            if kind == ADJUST and _is_bare(node, nodes, ends):
                drop_node(node, nodes, slots, free, merge)
        row += 1
    places[0], places[1] = row, count
    return DONE


@called
def _clear(nodes: Any, slots: Any, merge: Any) -> None:
    """Forget all nodes; none was dropped before."""
    mask = len(slots) - 1
    for node in range(merge[TOP]):
        slot = _home(nodes[_N_START, node], nodes[_N_PAYLOAD, node], mask)
        while slots[slot] != 0:  # to the end of the run, of which others have emptied what is missing
            slots[slot] = 0
            slot = (slot + 1) & mask
    merge[TOP] = 0


@inlined
def _is_another(node: Any, own: Any, check: Any, ends: Any) -> Any:
    """Whether an input has had another event of a node; where only keys are compared, its column has their hashes."""
    if check == BEFORE:
        return False
    if ends[node, own] == 0:
        ends[node, own] = check
    return ends[node, own] != check


@kernel(i64(_IN, i64, i64, i64, i64, _WIDE, _WIDE, _OUT, _OUT, _WIDE, _OUT, _WIDE, _OUT))
def merge_ordered(rows: Any, row: Any, own: Any, ties: Any, stops: Any, nodes: Any, ends: Any, slots: Any, free: Any,
                  inputs: Any, merge: Any, out: Any, places: Any) -> Any:  # fmt: skip
    """R0, R1, R2 and R2dup, by ``ties``, of the rows of one joined input; else as :func:`merge_keyed`.

    Nodes are the payloads of the newest start, where these are needed; with their ends as starts if they are counted.
    """
    count = 0
    size = rows.shape[1]
    while row < size:
        if count + 1 > out.shape[1]:
            places[0], places[1] = row, count
            return FULL
        kind, payload, start, end = rows[KIND, row], rows[PAYLOAD, row], rows[START, row], rows[END, row]
        has_moved = False
        if kind == STABLE:
            if end > inputs[own, REACHED]:
                inputs[own, REACHED] = end
            if end > merge[MAX_STABLE]:
                merge[MAX_STABLE] = end
                count = emit(STABLE, 0, BEFORE, end, BEFORE, row, out, count)
                has_moved = True
        elif end > start:
            if start < merge[MAX_STABLE] or start < merge[MAX_START]:
                inputs[own, LATE] += 1
            elif (ties in (SAME_ORDER, COUNTED)) and start < inputs[own, JOIN]:
                pass
            else:
                has_moved = start > merge[MAX_START]
                if has_moved:
                    merge[MAX_START] = start
                    merge[GIVEN] = 0
                    if ties == SAME_ORDER:
                        for column in range(len(inputs)):
                            inputs[column, COUNT] = 0
                    elif ties != ONE:
                        _clear(nodes, slots, merge)
                is_new = False
                if ties == ONE:
                    is_new = has_moved
                elif ties == SAME_ORDER:
                    is_new = inputs[own, COUNT] == merge[GIVEN]
                    merge[GIVEN] += is_new
                    inputs[own, COUNT] += 1
                else:
                    second = end if ties == COUNTED else i64(0)
                    slot = find_slot(second, payload, nodes, slots)
                    node = slots[slot] - 1
                    if node < 0:
                        node = new_node(second, payload, slot, nodes, ends, slots, free, merge)
                        nodes[_N_OUT, node] = 0
                        for column in range(ends.shape[1]):
                            ends[node, column] = 0
                        is_new = ties == DISTINCT
                    if ties == DISTINCT and _is_another(node, own, rows[CHECK, row], ends):
                        places[0], places[1] = row, count
                        return CONFLICT
                    if ties == COUNTED:
                        ends[node, own] += 1
                        is_new = ends[node, own] > nodes[_N_OUT, node]
                        nodes[_N_OUT, node] += is_new
                if is_new:
                    count = emit(INSERT, payload, start, end, BEFORE, row, out, count)
        row += 1
        if has_moved and stops:
            places[0], places[1] = row, count
            return MOVED
    places[0], places[1] = row, count
    return DONE


@inlined
def _with_end(payload: Any, end: Any) -> Any:
    """A number for a payload and an end."""
    mixed = (np.uint64(payload) ^ np.uint64(end) * np.uint64(0x9E3779B185EBCA87)) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x165667B19E3779F9)
    return i64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(1))


@kernel(i64(_IN, i64, i64, i64, i64, _WIDE, _WIDE, _OUT, _OUT, _WIDE, _OUT, _WIDE, _OUT))
def merge_disordered(rows: Any, row: Any, own: Any, ties: Any, stops: Any, nodes: Any, ends: Any, slots: Any, free: Any,
                     inputs: Any, merge: Any, out: Any, places: Any) -> Any:  # fmt: skip
    """R2d and R2ddup, by ``ties``, of the rows of one input; as :func:`merge_keyed`.

    Where events are counted, nodes stand for payloads and ends.
    """
    count = 0
    size = rows.shape[1]
    while row < size:
        if count + 1 > out.shape[1]:
            places[0], places[1] = row, count
            return FULL
        kind, payload, start, end = rows[KIND, row], rows[PAYLOAD, row], rows[START, row], rows[END, row]
        row += 1
        if kind == STABLE:
            if end > inputs[own, REACHED]:
                inputs[own, REACHED] = end
            if inputs[own, PHASE] == JOINED and end > merge[MAX_STABLE]:
                merge[MAX_STABLE] = end
                for node in range(merge[TOP]):
                    if nodes[_N_PAYLOAD, node] >= 0 and nodes[_N_START, node] < end:
                        drop_node(node, nodes, slots, free, merge)
                count = emit(STABLE, 0, BEFORE, end, BEFORE, row - 1, out, count)
                if stops:
                    places[0], places[1] = row, count
                    return MOVED
        elif end > start:
            if start < merge[MAX_STABLE]:
                inputs[own, LATE] += 1
                continue
            known = _with_end(payload, end) if ties == COUNTED else payload
            slot = find_slot(start, known, nodes, slots)
            node = slots[slot] - 1
            is_new = node < 0
            if is_new:
                node = new_node(start, known, slot, nodes, ends, slots, free, merge)
                nodes[_N_OUT, node] = 0
                for column in range(ends.shape[1]):
                    ends[node, column] = 0
            if ties == COUNTED:
                ends[node, own] += 1
                is_new = ends[node, own] > nodes[_N_OUT, node]
                nodes[_N_OUT, node] += is_new
            elif _is_another(node, own, rows[CHECK, row - 1], ends):
                places[0], places[1] = row - 1, count
                return CONFLICT
            if is_new:
                count = emit(INSERT, payload, start, end, BEFORE, row - 1, out, count)
    places[0], places[1] = row, count
    return DONE


@kernel(void(_WIDE, _OUT, i64))
def index_nodes(nodes: Any, slots: Any, count: Any) -> None:
    """Put the first nodes into an empty hash table."""
    for node in range(count):
        slots[find_slot(nodes[_N_START, node], nodes[_N_PAYLOAD, node], nodes, slots)] = node + 1
