"""Kernels that look up what earlier rows said of an event, row by row.

Nodes are as in the kernels of merges: found by a number of 63 bits for a payload and, where that is part of the key, a
start; 64 more bits tell if two payloads have the same number. Events of a node are a list of entries, where there may
be several.
"""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, called, i64, kernel
from tidelog.merging.adapting.codes import (
    ADD,
    CLOSE,
    DELETE,
    FINALIZE,
    INSERTED,
    MODIFY,
    NOTHING,
    OPEN,
    SAME_NUMBER,
    UNKNOWN,
)
from tidelog.operators.merge.batches.kernels import drop_node, find_slot, new_node
from tidelog.operators.merge.codes import ADJUST, BEFORE, DONE, ENTRY_FREE, ENTRY_TOP, INSERT, NEVER, TOP

_IN = array_in(i64)
_OUT = array_out(i64)
_WIDE = array_out(i64, 2)

_N_START, _N_PAYLOAD, _N_FIRST, _N_CHECK = 0, 1, 2, 3
_N_END = _N_FIRST
"""Where a node is one event: its end."""
_E_NEXT, _E_START, _E_END = 0, 1, 2


@called
def _new_entry(start: Any, following: Any, entries: Any, unused: Any, merge: Any) -> Any:
    """An entry of an event that has no end, before another one in its list."""
    if merge[ENTRY_FREE] > 0:
        merge[ENTRY_FREE] -= 1
        entry = unused[merge[ENTRY_FREE]]
    else:
        entry = merge[ENTRY_TOP]
        merge[ENTRY_TOP] += 1
    entries[_E_NEXT, entry] = following
    entries[_E_START, entry] = start
    entries[_E_END, entry] = NEVER
    return entry


@called
def _drop_entry(entry: Any, unused: Any, merge: Any) -> None:
    unused[merge[ENTRY_FREE]] = entry
    merge[ENTRY_FREE] += 1


@kernel(i64(_IN, _IN, _IN, _IN, _IN, _WIDE, _WIDE, _OUT, _OUT, _OUT, _OUT, _OUT))
def find_old_ends(kinds: Any, payloads: Any, checks: Any, starts: Any, finishes: Any, nodes: Any, ends: Any,
                  slots: Any, free: Any, merge: Any, olds: Any, places: Any) -> Any:  # fmt: skip
    """The ends so far of events that are modified; ``places`` gets the row at which it stopped, and it returns why."""
    for row in range(len(kinds)):
        kind, payload, start, end = kinds[row], payloads[row], starts[row], finishes[row]
        places[0] = row
        olds[row] = BEFORE
        if kind == FINALIZE:
            for node in range(merge[TOP]):
                if nodes[_N_PAYLOAD, node] >= 0 and nodes[_N_END, node] < start:
                    drop_node(node, nodes, slots, free, merge)
            continue
        if kind != ADD and kind != MODIFY:
            return UNKNOWN
        slot = find_slot(start, payload, nodes, slots)
        node = slots[slot] - 1
        if node >= 0 and nodes[_N_CHECK, node] != checks[row]:
            return SAME_NUMBER
        if kind == MODIFY:
            if node < 0:
                return UNKNOWN
            olds[row] = nodes[_N_END, node]
            if end == start:
                drop_node(node, nodes, slots, free, merge)
                continue
        elif node < 0:
            node = new_node(start, payload, slot, nodes, ends, slots, free, merge)
            nodes[_N_CHECK, node] = checks[row]
        nodes[_N_END, node] = end
    return DONE


@kernel(i64(_IN, _IN, _IN, _IN, i64, _WIDE, _WIDE, _OUT, _OUT, _OUT, _WIDE, _OUT, _WIDE, _OUT))
def match_closes(kinds: Any, payloads: Any, checks: Any, times: Any, in_order: Any, nodes: Any, ends: Any, slots: Any,
                 free: Any, merge: Any, entries: Any, unused: Any, found: Any, places: Any) -> Any:  # fmt: skip
    """What each row says: the kind of its element, the start of its event, and the end so far.

    Lists have the latest start first. In order of time, what is before a closed event is over.
    """
    for row in range(len(kinds)):
        kind, payload, time = kinds[row], payloads[row], times[row]
        places[0] = row
        if kind != OPEN and kind != CLOSE:
            return UNKNOWN
        slot = find_slot(i64(0), payload, nodes, slots)
        node = slots[slot] - 1
        if node >= 0 and nodes[_N_CHECK, node] != checks[row]:
            return SAME_NUMBER
        if kind == OPEN:
            if node < 0:
                node = new_node(i64(0), payload, slot, nodes, ends, slots, free, merge)
                nodes[_N_FIRST, node] = -1
                nodes[_N_CHECK, node] = checks[row]
            before, entry = i64(-1), nodes[_N_FIRST, node]
            while entry >= 0 and entries[_E_START, entry] > time:
                before, entry = entry, entries[_E_NEXT, entry]
            if entry >= 0 and entries[_E_START, entry] == time:
                entries[_E_END, entry] = NEVER
            else:
                fresh = _new_entry(time, entry, entries, unused, merge)
                if before < 0:
                    nodes[_N_FIRST, node] = fresh
                else:
                    entries[_E_NEXT, before] = fresh
            found[0, row], found[1, row], found[2, row] = INSERT, time, BEFORE
            continue
        entry = nodes[_N_FIRST, node] if node >= 0 else i64(-1)
        while entry >= 0 and entries[_E_START, entry] >= time:
            entry = entries[_E_NEXT, entry]
        if entry < 0:
            return UNKNOWN
        old = entries[_E_END, entry]
        entries[_E_END, entry] = time
        found[0, row] = ADJUST if old != time else i64(NOTHING)
        found[1, row], found[2, row] = entries[_E_START, entry], old
        if in_order:
            gone = entries[_E_NEXT, entry]
            entries[_E_NEXT, entry] = -1
            while gone >= 0:
                _drop_entry(gone, unused, merge)
                gone = entries[_E_NEXT, gone]
    return DONE


@kernel(i64(_IN, _IN, _IN, _IN, _WIDE, _WIDE, _OUT, _OUT, _OUT, _WIDE, _OUT, _OUT, _OUT))
def match_deletes(kinds: Any, payloads: Any, checks: Any, times: Any, nodes: Any, ends: Any, slots: Any, free: Any,
                  merge: Any, entries: Any, unused: Any, starts: Any, places: Any) -> Any:  # fmt: skip
    """When the event of each row started. Lists have the first start first; ``ends`` has where they end."""
    for row in range(len(kinds)):
        kind, payload, time = kinds[row], payloads[row], times[row]
        places[0] = row
        if kind != INSERTED and kind != DELETE:
            return UNKNOWN
        slot = find_slot(i64(0), payload, nodes, slots)
        node = slots[slot] - 1
        if node >= 0 and nodes[_N_CHECK, node] != checks[row]:
            return SAME_NUMBER
        if kind == INSERTED:
            entry = _new_entry(time, i64(-1), entries, unused, merge)
            if node < 0:
                node = new_node(i64(0), payload, slot, nodes, ends, slots, free, merge)
                nodes[_N_FIRST, node] = entry
                nodes[_N_CHECK, node] = checks[row]
            else:
                entries[_E_NEXT, ends[node, 0]] = entry
            ends[node, 0] = entry
            starts[row] = time
            continue
        if node < 0:
            return UNKNOWN
        entry = nodes[_N_FIRST, node]
        starts[row] = entries[_E_START, entry]
        nodes[_N_FIRST, node] = entries[_E_NEXT, entry]
        _drop_entry(entry, unused, merge)
        if nodes[_N_FIRST, node] < 0:
            drop_node(node, nodes, slots, free, merge)
    return DONE
