"""Kernels of what R3 is compared with: an index for each input and one for the output, and Cleanse.

Indexes are those of :mod:`tidelog.operators.merge.batches.kernels`, one behind the other, each with its own payloads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, called, i64, kernel, u8
from tidelog.operators.merge.batches.kernels import drop_node, emit, find_slot, in_order, new_node
from tidelog.operators.merge.codes import (
    ADJUST,
    BEFORE,
    END,
    INSERT,
    KIND,
    MAX_STABLE,
    NEVER,
    OUT_STABLE,
    PAYLOAD,
    STABLE,
    START,
    TOP,
)

_N_START, _N_PAYLOAD = 0, 1
_INDEX = (array_out(i64, 3), array_out(i64, 3), array_out(i64, 2), array_out(i64, 2), array_out(i64, 2))


@called
def _put(index: Any, start: Any, payload: Any, end: Any, nodes: Any, ends: Any, slots: Any, free: Any, merges: Any,
         texts: Any, kept: Any) -> None:  # fmt: skip
    """An end by a key in one index, which has a payload of its own for it."""
    slot = find_slot(start, payload, nodes[index], slots[index])
    if slots[index, slot] == 0:
        node = new_node(start, payload, slot, nodes[index], ends[index], slots[index], free[index], merges[index])
        for place in range(texts.shape[1]):
            kept[index, node, place] = texts[payload, place]
    else:
        node = slots[index, slot] - 1
    ends[index, node, 0] = end


@called
def _get(index: Any, start: Any, payload: Any, nodes: Any, ends: Any, slots: Any) -> Any:
    slot = find_slot(start, payload, nodes[index], slots[index])
    return BEFORE if slots[index, slot] == 0 else ends[index, slots[index, slot] - 1, 0]


@called
def _remove(index: Any, start: Any, payload: Any, nodes: Any, slots: Any, free: Any, merges: Any) -> None:
    slot = find_slot(start, payload, nodes[index], slots[index])
    if slots[index, slot] != 0:
        drop_node(slots[index, slot] - 1, nodes[index], slots[index], free[index], merges[index])


@kernel(i64(array_in(i64, 2), i64, *_INDEX, array_in(u8, 2), array_out(u8, 3), array_out(i64, 2)))
def merge_separately(rows: Any, own: Any, nodes: Any, ends: Any, slots: Any, free: Any, merges: Any, texts: Any,
                     kept: Any, out: Any) -> Any:  # fmt: skip
    """R3 with an index for each input, and behind those one for the output; returns how many elements came out."""
    last = len(nodes) - 1
    merge = merges[last]
    count = 0
    for row in range(rows.shape[1]):
        start, payload, end = rows[START, row], rows[PAYLOAD, row], rows[END, row]
        if rows[KIND, row] != STABLE:
            before = _get(last, start, payload, nodes, ends, slots)
            if before == BEFORE:
                if start < merge[MAX_STABLE] or end <= start:
                    continue
                _put(last, start, payload, end, nodes, ends, slots, free, merges, texts, kept)
                count = emit(INSERT, payload, start, end, BEFORE, row, out, count)
            if end > start:
                _put(own, start, payload, end, nodes, ends, slots, free, merges, texts, kept)
            else:
                _remove(own, start, payload, nodes, slots, free, merges)
            continue
        if end <= merge[MAX_STABLE]:
            continue
        todo = np.empty(merge[TOP], np.int64)
        due = 0
        for node in range(merge[TOP]):
            if nodes[last, _N_PAYLOAD, node] >= 0 and nodes[last, _N_START, node] < end:
                todo[due] = node
                due += 1
        for node in in_order(todo[:due], nodes[last]):
            start, payload, before = nodes[last, _N_START, node], nodes[last, _N_PAYLOAD, node], ends[last, node, 0]
            wanted = _get(own, start, payload, nodes, ends, slots)
            if wanted == BEFORE:
                wanted = start if start >= merge[MAX_STABLE] else before
            if wanted != before and (wanted < end or before < end):
                count = emit(ADJUST, payload, start, wanted, before, row, out, count)
                ends[last, node, 0] = wanted
            if wanted < end or end == NEVER:
                for index in range(last + 1):
                    _remove(index, start, payload, nodes, slots, free, merges)
        merge[MAX_STABLE] = end
        count = emit(STABLE, 0, BEFORE, end, BEFORE, row, out, count)
    return count


@kernel(i64(array_in(i64, 2), i64, *_INDEX, array_in(u8, 2), array_out(u8, 3), array_out(i64, 2)))
def cleanse(rows: Any, own: Any, nodes: Any, ends: Any, slots: Any, free: Any, merges: Any, texts: Any, kept: Any,
            out: Any) -> Any:  # fmt: skip
    """Inserts in order of what is fully frozen, where payload and start are a key; returns how many elements."""
    merge = merges[own]
    count = 0
    for row in range(rows.shape[1]):
        start, payload, end = rows[START, row], rows[PAYLOAD, row], rows[END, row]
        if rows[KIND, row] != STABLE:
            if end > start:
                _put(own, start, payload, end, nodes, ends, slots, free, merges, texts, kept)
            else:
                _remove(own, start, payload, nodes, slots, free, merges)
            continue
        if end <= merge[MAX_STABLE]:
            continue
        merge[MAX_STABLE] = end
        first = NEVER  # the first start that is not certain yet
        todo = np.empty(merge[TOP], np.int64)
        due = 0
        if end < NEVER:
            for node in range(merge[TOP]):
                if nodes[own, _N_PAYLOAD, node] >= 0 and ends[own, node, 0] >= end:
                    first = min(first, nodes[own, _N_START, node])
        for node in range(merge[TOP]):
            if nodes[own, _N_PAYLOAD, node] >= 0 and nodes[own, _N_START, node] < first:
                todo[due] = node
                due += 1
        for node in in_order(todo[:due], nodes[own]):
            start, payload = nodes[own, _N_START, node], nodes[own, _N_PAYLOAD, node]
            count = emit(INSERT, payload, start, ends[own, node, 0], BEFORE, row, out, count)
            drop_node(node, nodes[own], slots[own], free[own], merges[own])
        reached = min(end, first)
        if reached > merge[OUT_STABLE]:
            merge[OUT_STABLE] = reached
            count = emit(STABLE, 0, BEFORE, reached, BEFORE, row, out, count)
    return count
