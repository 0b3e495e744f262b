"""The search of ISEQ: buffers are scanned from their newest situation on, as far as one may still overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, f64, i64, kernel, u8, void
from tidelog.operators.situations.kernels import possible_relations
from tidelog.operators.situations.relations import AFTER, ANY, MET_BY


@kernel(
    void(
        i64,
        i64,
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(u8, 2),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        i64,
        i64,
        array_out(i64),
        array_out(i64, 2),
        array_out(f64, 3),
        array_out(f64, 2),
        array_out(i64),
    )
)
def scan_matches(
    is_early: Any,
    within: Any,
    relations: Any,
    orders: Any,
    triggers: Any,
    times: Any,
    keys: Any,
    cuts: Any,
    change_cuts: Any,
    changes: Any,
    runs: Any,
    carried: Any,
    arena_starts: Any,
    arena_ends: Any,
    layout: Any,
    firsts: Any,
    lasts: Any,
    first_partition: Any,
    end_partition: Any,
    found_rows: Any,
    found: Any,
    seen: Any,
    held: Any,
    progress: Any,
) -> None:
    """Complete matches, as :func:`tidelog.operators.situations.kernels.find_matches` gives them."""
    count = len(relations)
    total = len(layout) >> 1
    rows, change_runs = changes[0], changes[1]
    definitions, run_starts, run_ends = runs[0], runs[1], runs[2]
    low, high = np.zeros(count, np.int64), np.zeros(count, np.int64)
    bases, covers = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts, ends, slots = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = np.zeros(count, np.int64)
    matches = 0
    partition = first_partition
    while partition < end_partition:
        before = matches
        ring = keys[partition] * count
        for own in range(count):
            bases[own], covers[own] = layout[ring + own], layout[total + ring + own] - 1
            low[own], high[own] = firsts[ring + own], lasts[ring + own]
        for place in range(change_cuts[partition], change_cuts[partition + 1]):
            run = change_runs[place]
            own = definitions[run]
            limit = times[rows[place]] - within
            for other in range(count):
                while low[other] < high[other] and arena_starts[bases[other] + (low[other] & covers[other])] < limit:
                    low[other] += 1
            slots[own] = bases[own] + (high[own] & covers[own])
            high[own] += 1
            starts[own], ends[own] = run_starts[run], run_ends[run]
            if run_starts[run] < limit:
                low[own] = high[own]
                continue
            if triggers[own, 1] == 0:
                continue
            order = orders[own]
            step = 1
            at[1] = high[order[1]]
            while step > 0:
                other = order[step]
                at[step] -= 1
                if at[step] < low[other]:
                    step -= 1
                    continue
                slot = bases[other] + (at[step] & covers[other])
                start, end = arena_starts[slot], arena_ends[slot]
                fits = True
                for earlier in range(step):
                    partner = order[earlier]
                    mask = relations[partner, other]
                    if mask == ANY:
                        continue
                    if end < starts[partner] and mask & (AFTER | MET_BY) == 0:
                        at[step] = low[other]  # nor will those that ended before it
                        fits = False
                        break
                    if possible_relations(starts[partner], ends[partner], 0, start, end, 0) & mask == 0:
                        fits = False
                        break
                if not fits:
                    continue
                starts[other], ends[other], slots[other] = start, end, slot
                if step < count - 1:
                    step += 1
                    at[step] = high[order[step]]
                    continue
                if matches == len(found_rows):
                    progress[0], progress[1] = partition, before
                    return
                found_rows[matches] = rows[place]
                for each in range(count):
                    found[matches, each] = slots[each]
                matches += 1
        for own in range(count):
            firsts[ring + own], lasts[ring + own] = low[own], high[own]
        partition += 1
    progress[0], progress[1] = partition, matches
