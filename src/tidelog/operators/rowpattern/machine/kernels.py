"""The machine that looks for matches.

It goes through a program (:mod:`.program`) step by step, prefers what the program prefers, and comes back to the other
way where a way leads to no match. All that it knows stands in arrays, so it can stop anywhere, be given larger arrays,
rows or an answer, and go on.
"""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, called, f64, i32, i64, inlined, kernel, u8, u64
from tidelog.operators.rowpattern.conditions.kernels import UNKNOWN, WRONG, bound, evaluated
from tidelog.operators.rowpattern.opcodes import (
    ACCEPT,
    AHEAD,
    ANSWER,
    ANSWERED,
    ANY,
    ASK,
    ASKED,
    ATTEMPT,
    BARREN,
    BASE,
    BEGIN,
    BEHIND,
    CAN_MARK,
    CODE,
    CONTIGUOUS,
    CURRENT,
    DECIDED,
    DEPTH,
    DONE,
    END,
    END_TIME,
    ENTRY,
    FAR,
    FIRST_MATCH,
    FIRST_ROWS,
    FLOOR,
    INEXACT,
    IS_ALL,
    IS_FILTERED,
    IS_FORCED,
    IS_SEEKING,
    LAST_EMPTY,
    MARKED,
    MARKS,
    MASK,
    MATCH,
    MATCHED,
    MATCHES,
    MORE_MARKS,
    MORE_MATCHES,
    MORE_PATH,
    MORE_ROWS,
    MORE_STACK,
    MOST_ROWS,
    MOST_STEPS,
    MOVING,
    NEW_PARTITION,
    NEW_START,
    NEXT,
    NUMBER,
    OPEN,
    ORIGIN,
    PARTITION,
    PAST_LAST,
    PC,
    PHASE,
    POSITION,
    ROWS,
    RUNNING,
    SKIP,
    SKIP_MISSING,
    SKIP_NOWHERE,
    SPENT,
    SPLIT,
    STACK,
    START,
    STATES,
    STEPS,
    STRATEGY,
    TARGET,
    TIMED_OUT,
    TO_FIRST,
    TO_NEXT,
    TOO_LONG,
    TOO_MANY,
    TRUE,
    UNMATCHED,
    VARIABLE,
    WITH_TIMEOUTS,
    WITH_TIMES,
    WITH_UNMATCHED,
    WITHIN,
)

_IN_I32, _IN_I64, _IN_F64, _IN_U8 = array_in(i32), array_in(i64), array_in(f64), array_in(u8)
_OUT_I32, _OUT_I64, _OUT_F64, _OUT_U8 = array_out(i32), array_out(i64), array_out(f64), array_out(u8)


@inlined
def _latest(time: Any, within: Any) -> Any:
    """The last time that is not farther from another one than allowed, as far as there are such."""
    last = i64(0x7FFFFFFFFFFFFFFF)
    return last if time > last - within else time + within


@inlined
def _framed(frame: Any, current: Any, high: Any, end: Any, is_closed: Any) -> Any:
    """The first row of a frame, its end as far as it is there, that of known conditions, and whether it is whole."""
    if frame <= high:
        return current, frame, frame, True
    return current, high, end, is_closed


@inlined
def _holds(variable: Any, pc: Any, row: Any, depth: Any, conditions: Any, masks: Any, answers: Any, code_cuts: Any,
           code: Any, terms: Any, sets: Any, slot_kinds: Any, slot_sets: Any, slot_columns: Any, slot_filters: Any,
           slots: Any, float_slots: Any, path_rows: Any, path_variables: Any, low: Any, high: Any, skips: Any,
           integers: Any, integers_valid: Any, floats: Any, floats_valid: Any, constants: Any, float_constants: Any,
           number: Any, stack: Any, float_stack: Any, nulls: Any) -> Any:  # fmt: skip
    """Whether a row may be bound to a variable as row ``depth`` of a match; the row is put into the path for it."""
    kind = conditions[variable]
    if kind == TRUE:
        return i64(1)
    if kind == MASK:
        return i64(masks[variable, row])
    if masks[variable, row] == 0:
        return i64(0)
    if kind == ASKED:
        return i64(answers[variable])
    path_rows[depth] = row
    path_variables[depth] = variable
    if not bound(slot_kinds, slot_sets, slot_columns, slot_filters, sets, slots, float_slots, depth, row, variable,
                  integers, integers_valid, floats, floats_valid):  # fmt: skip
        return i64(WRONG)
    return evaluated(code, code_cuts[variable], code_cuts[variable + 1], terms, sets, slots, float_slots,
                      path_variables, path_rows, depth, low, high, skips, integers, integers_valid, floats,
                      floats_valid, constants, float_constants, number, stack, float_stack, nulls)  # fmt: skip


@called
def _walk(operations: Any, first: Any, second: Any, peek_first: Any, peek_second: Any, masks: Any, end: Any, ways: Any,
          path_pcs: Any, room: Any, pc: Any, depth: Any, position: Any, top: Any, steps: Any) -> Any:  # fmt: skip
    """Go on with an attempt that needs to know nothing but masks, as far as that is simple.

    Gives where it is then, and whether all ways have failed. Every so many steps it stops to be counted.
    """
    fails = False
    while True:
        operation = operations[u64(pc)]
        if operation == SPLIT:
            one = other = i32(-1)
            if position < end:
                one, other = peek_first[u64(pc)], peek_second[u64(pc)]
            if one >= 0 and masks[u64(one), u64(position)] == 0:
                pc = i64(second[u64(pc)])
                operation = i32(MATCH if other >= 0 else SPLIT)  # a way whose first step is told is a row of it
            elif other >= 0 and masks[u64(other), u64(position)] == 0:
                pc = i64(first[u64(pc)])
                operation = i32(MATCH if one >= 0 else SPLIT)
            else:
                if top >= len(ways):
                    break
                ways[u64(top), 0], ways[u64(top), 1], ways[u64(top), 2] = second[u64(pc)], depth, position
                top += 1
                pc = i64(first[u64(pc)])
            if operation == SPLIT:
                continue
        if operation == MATCH:
            if position >= end or depth >= room or (steps + 1) & 0xFF == 0:
                break
            steps += 1
            if masks[u64(second[u64(pc)]), u64(position)] != 0:
                path_pcs[u64(depth)] = pc
                depth += 1
                position += 1
                pc = i64(first[u64(pc)])
            elif top > 0:
                top -= 1
                pc, depth, position = ways[u64(top), 0], ways[u64(top), 1], ways[u64(top), 2]
            else:
                fails = True
                break
        else:
            break
    return pc, depth, position, top, steps, fails


@kernel(
    i64(
        # the program, and what it is told
        _IN_I32, _IN_I32, _IN_I32, _IN_I32, _IN_I32, _IN_I32, array_in(i32, 2), _IN_I64, _IN_U8,
        # conditions
        _IN_I32, array_in(u8, 2), array_in(i32, 2), _IN_U8,
        _IN_I64, array_in(i32, 2), array_in(i32, 2), array_in(u8, 2),
        _IN_I32, _IN_I32, _IN_I32, _IN_I32, array_in(i64, 2), array_in(u8, 2), array_in(f64, 2), array_in(u8, 2),
        _IN_I64, _IN_F64,
        # partitions
        _IN_I64, _IN_I64, _IN_I64, _IN_I64, _IN_I64, _OUT_I32, _IN_I64, _IN_I64, _IN_I64, _IN_U8, _IN_I64, _OUT_I64,
        _OUT_I64, _OUT_I64, _IN_I64,
        # where it is
        _OUT_I64, _OUT_U8, array_out(i64, 2), _OUT_I64, _OUT_I32, _OUT_I32, _OUT_I32, array_out(i64, 2),
        array_out(f64, 2), _OUT_I64, _OUT_F64, _OUT_U8, _OUT_I32, _OUT_U8,
        # what was found
        array_out(i64, 2), _OUT_I64, _OUT_I32,
    )
)  # fmt: skip
def search(
    operations: Any, first: Any, second: Any, mark_numbers: Any, peek_first: Any, peek_second: Any,
    continuations: Any, told: Any, skip_to: Any, conditions: Any, masks: Any,
    jumps: Any, may_begin: Any, code_cuts: Any, code: Any, terms: Any, sets: Any,
    slot_kinds: Any, slot_sets: Any, slot_columns: Any, slot_filters: Any, integers: Any, integers_valid: Any,
    floats: Any, floats_valid: Any, constants: Any, float_constants: Any,
    lows: Any, highs: Any, forced_cuts: Any, forced_rows: Any, stops: Any, seen: Any, frames: Any, begins: Any,
    ends: Any, closed: Any, horizons: Any, resumes: Any, numbers: Any, decisions: Any,
    times: Any,
    registers: Any, answers: Any, ways: Any, path_rows: Any, path_pcs: Any, path_variables: Any, path_states: Any,
    slots: Any, float_slots: Any, stack: Any, float_stack: Any, nulls: Any, marks: Any, covered: Any,
    found: Any, found_rows: Any, found_pcs: Any,
) -> Any:  # fmt: skip
    """Look for the matches of partitions, one behind the other.

    Partition ``p`` has the rows from ``lows[p]`` to ``highs[p]``; its own beginning is row ``begins[p]`` (-1 if that
    is gone), and ``ends[p]`` is the end of the rows whose conditions are known. If it is not closed, there will be more
    rows, none with a time before ``horizons[p]``. The search goes on from row ``resumes[p]``, which becomes the first
    row of which it is not known yet whether it begins a match; ``numbers[p]`` counts matches.

    No attempt begins at row ``stops[p]`` or behind it. If rows that were ``seen`` are to be told, it does not begin at
    one at which that of another partition has begun, and ``seen`` gets the number of the partition, from 1 on.

    If there are ``frames``, each row looks for one match of its own, among itself and the rows behind it up to
    ``frames[row]``, and no condition sees others: one that begins with the row or, if it is seeking, the first one.
    Rows that a match skips look for none.

    If matches are forced, partition ``p`` is asked for a match that begins with row ``resumes[p]`` and has exactly the
    rows from ``forced_cuts[p]`` to ``forced_cuts[p + 1]`` among ``forced_rows``.

    ``found`` gets for each match its partition, first row (with frames, the row whose match it is), the end of its
    rows among ``found_rows``, its kind, its number, and when it was certain; what is wanted besides matches is told in
    the same way. Returns why it has stopped.
    """
    strategy, is_all, within = told[STRATEGY], told[IS_ALL] != 0, told[WITHIN]
    skip, entry, ahead = told[SKIP], told[ENTRY], told[AHEAD]
    most_rows, most_steps = told[MOST_ROWS], told[MOST_STEPS]
    can_mark, with_unmatched, with_times = told[CAN_MARK] != 0, told[WITH_UNMATCHED] != 0, told[WITH_TIMES] != 0
    is_forced, with_timeouts = told[IS_FORCED] != 0, told[WITH_TIMEOUTS] != 0 and told[IS_FORCED] == 0
    has_frames, is_seeking, behind = len(frames) > 0, told[IS_SEEKING] != 0, told[BEHIND]
    keeps_marks = not has_frames or (not is_seeking and behind >= 0)
    peeks = strategy == CONTIGUOUS and not with_times  # which go by the rows that are looked at in order of preference
    has_jumps = len(jumps) > 0
    has_seen = len(seen) > 0
    is_simple = peeks and can_mark and within < 0 and not is_forced
    is_plain = not (is_all or with_unmatched or has_frames) and skip in (PAST_LAST, TO_NEXT)
    is_filtered, mark_count, states = told[IS_FILTERED] != 0, told[MARKS], told[STATES]
    skips = strategy != CONTIGUOUS
    variable_count = len(conditions)
    slot_count = len(slot_kinds)
    has_asked = False
    for variable in range(variable_count):
        has_asked = has_asked or conditions[variable] == ASKED

    partition, begin, phase = registers[PARTITION], registers[BEGIN], registers[PHASE]
    pc, depth, position, top = registers[PC], registers[DEPTH], registers[POSITION], registers[STACK]
    matches, rows, steps = registers[MATCHES], registers[ROWS], registers[STEPS]
    marked, attempt, floor = registers[MARKED] != 0, registers[ATTEMPT], registers[FLOOR]
    first_match, first_rows, decided = registers[FIRST_MATCH], registers[FIRST_ROWS], registers[DECIDED]
    number, target, far, base = registers[NUMBER], registers[TARGET], registers[FAR], registers[BASE]
    last_empty, opened = registers[LAST_EMPTY], registers[OPEN]
    current, barren = registers[CURRENT], registers[BARREN]
    spent, origin = registers[SPENT], registers[ORIGIN]
    asked = i64(0)
    status = i64(-1)
    low, high, end, stop, is_closed = i64(0), i64(0), i64(0), i64(0), True
    if partition < len(lows):
        low, high, end = lows[partition], highs[partition], ends[partition]
        stop = min(end, stops[partition])
        is_closed = closed[partition] != 0
        if has_frames and current < high:
            stop = high
            low, high, end, is_closed = _framed(frames[current], current, high, end, is_closed)

    while status < 0:
        if phase == NEW_PARTITION:
            if partition >= len(lows):
                status = i64(DONE)
                break
            low, high, end = lows[partition], highs[partition], ends[partition]
            is_closed = closed[partition] != 0
            stop = min(end, stops[partition])
            begin = resumes[partition]
            current, barren = begin, begin
            if has_frames:
                stop = high
            number, decided = numbers[partition], decisions[partition]
            marked, spent = False, i64(0)
            last_empty = i64(-1)
            phase = i64(NEW_START)
        if phase == MOVING:  # rows that begin no match any more
            if with_unmatched:
                while begin < target:
                    if covered[begin] == 0 and begin != last_empty:
                        if matches >= found.shape[1]:
                            status = i64(MORE_MATCHES)
                            break
                        found[0, matches], found[1, matches], found[2, matches] = partition, begin, rows
                        found[3, matches], found[4, matches], found[5, matches] = UNMATCHED, number, decided
                        matches += 1
                    begin += 1
                if status >= 0:
                    break
            begin = target
            phase = i64(NEW_START)
        if phase == NEW_START and has_frames:
            if not is_seeking:
                current = begin
            if current < stop:
                low, high, end, is_closed = _framed(frames[current], current, highs[partition], ends[partition],
                                                    closed[partition] != 0)  # fmt: skip
                marked = marked and keeps_marks
                if 0 <= behind <= begin - current:
                    begin = max(begin, barren)
                if begin >= high and is_closed:  # nothing is found in the frame
                    current += 1
                    begin = current
                    continue
                if begin >= high:  # there may be more rows
                    stop = current
            if current >= stop:
                resumes[partition], numbers[partition], decisions[partition] = current, number, decided
                partition += 1
                phase = i64(NEW_PARTITION)
                continue
            if is_filtered and may_begin[begin] == 0:
                if 0 <= behind <= begin - current:
                    barren = begin + 1
                begin += 1
                continue
        elif phase == NEW_START:
            if is_filtered and not with_unmatched:
                while begin < stop and may_begin[begin] == 0:
                    begin += 1
            if begin < stop and has_seen:
                if seen[begin] != 0:
                    stop = begin
                else:
                    seen[begin] = partition + 1
            if begin >= stop:
                resumes[partition], numbers[partition], decisions[partition] = begin, number, decided
                partition += 1
                phase = i64(NEW_PARTITION)
                continue
            if with_times:
                reached = begin + ahead
                decided = max(decided, times[reached] if reached < high else told[END_TIME])
            if is_filtered and may_begin[begin] == 0:
                target = begin + 1
                phase = i64(MOVING)
                continue
        if phase == NEW_START:
            first_match, first_rows = matches, rows
            pc, depth, position, top = entry, i64(0), begin, i64(0)
            steps, far, opened = i64(0), begin, i64(0)
            origin = begin if spent == 0 else origin
            attempt += 1
            if within >= 0 or is_all or not marked:
                floor = attempt
            path_states[0] = 1 if begin == begins[partition] else 0
            if has_asked:
                answers[:] = UNKNOWN
            phase = i64(RUNNING)
        if phase == ANSWERED:
            answers[registers[VARIABLE]] = registers[ANSWER]
            phase = i64(RUNNING)

        # One attempt, until something is decided.
        fails = False
        while True:
            if is_simple and not marked:
                room = min(i64(len(path_pcs)) - 2, most_rows)
                pc, depth, position, top, steps, fails = _walk(operations, first, second, peek_first, peek_second,
                                                               masks, end, ways, path_pcs, room, pc, depth, position,
                                                               top, steps)  # fmt: skip
                far = max(far, position)
                if fails:
                    break
                has_room = matches < found.shape[1] and rows + depth <= len(found_rows)
                if is_plain and operations[pc] == ACCEPT and depth > 0 and has_room:
                    path_rows[depth - 1] = position - 1
                    for place in range(depth):
                        found_rows[u64(rows + place)] = begin + place
                        found_pcs[u64(rows + place)] = path_pcs[u64(place)]
                    rows += depth
                    found[0, matches], found[1, matches], found[2, matches] = partition, begin, rows
                    found[3, matches], found[4, matches], found[5, matches] = MATCHED, number, decided
                    matches += 1
                    number += 1
                    break
                if operations[pc] == ACCEPT:  # before that nobody looks at the path, which may be long
                    for place in range(depth):
                        path_rows[place] = begin + place
                        path_variables[place] = second[path_pcs[place]]
            operation = operations[pc]
            if operation == SPLIT:
                is_near = position < end
                if is_near and within >= 0 and depth > 0:
                    is_near = times[position] <= _latest(times[path_rows[0]], within)
                if peeks and is_near:  # a way whose first row does not fit is none
                    tested = peek_first[pc]
                    if tested >= 0 and masks[tested, position] == 0:
                        pc = i64(second[pc])
                        continue
                    tested = peek_second[pc]
                    if tested >= 0 and masks[tested, position] == 0:
                        pc = i64(first[pc])
                        continue
                if top >= len(ways):
                    status = i64(MORE_STACK)
                    break
                ways[top, 0], ways[top, 1], ways[top, 2] = second[pc], depth, position
                top += 1
                pc = i64(first[pc])
                continue
            if operation == MATCH:
                steps += 1
                if steps & 0xFF == 0 and spent + steps > 1024 + 32 * (far - origin) and not marked:
                    needed = (high - begin) * mark_count * states
                    if can_mark and needed <= most_steps:
                        if len(marks) < needed:
                            registers[ANSWER] = needed
                            status = i64(MORE_MARKS)
                            break
                        marks[:needed] = 0
                        marked, base, attempt, opened = True, begin, i64(1), i64(0)
                        floor = attempt
                        pc, depth, position, top = entry, i64(0), begin, i64(0)
                        matches, rows, number = first_match, first_rows, numbers[partition] if is_all else number
                        continue
                    if steps > most_steps + 64 * (far - begin):
                        status = i64(TOO_MANY)
                        break
                if depth + 2 >= len(path_rows):
                    status = i64(MORE_PATH)
                    break
                if top >= len(ways):
                    status = i64(MORE_STACK)
                    break
                variable = i64(second[pc])
                takes = is_late = False
                while True:  # under other strategies than CONTIGUOUS rows are skipped
                    if has_jumps and depth > 0 and position < end:
                        which = path_states[depth] if strategy == NEXT else variable
                        position = min(i64(jumps[which, position]), end)
                    if marked:
                        mark = (position - base) * mark_count + mark_numbers[pc]
                        if states > 1:
                            mark = mark * states + path_states[depth]
                        if position < end:
                            if marks[mark] >= floor:
                                fails = True
                                break
                            marks[mark] = attempt
                    latest = i64(0x7FFFFFFFFFFFFFFF)
                    if within >= 0 and depth > 0:
                        latest = _latest(times[path_rows[0]], within)
                    reach = begin + most_rows
                    if skips and position >= reach and reach < high and (within < 0 or times[reach] <= latest):
                        status = i64(TOO_LONG)
                        break
                    if position >= end and (position >= high or within < 0 or times[position] <= latest):
                        if is_closed or (position >= high and horizons[partition] > latest):
                            fails = True
                            is_late = within >= 0 and depth > 0
                            if with_times:
                                decided = max(decided, min(latest, told[END_TIME]) if is_closed else latest)
                        else:
                            status = i64(DONE)  # of this partition, for now
                        break
                    if within >= 0 and depth > 0 and times[position] > latest:
                        fails = is_late = True
                        if with_times:
                            decided = max(decided, latest)
                        break
                    if position > far:
                        far = position
                    if is_forced:
                        at = forced_cuts[partition] + depth
                        if at >= forced_cuts[partition + 1] or position > forced_rows[at]:
                            fails = True
                            break
                    if with_times:
                        reached = position + ahead
                        decided = max(decided, times[reached] if reached < high else told[END_TIME])
                    holds = _holds(variable, pc, position, depth, conditions, masks, answers, code_cuts, code, terms,
                                   sets, slot_kinds, slot_sets, slot_columns, slot_filters, slots, float_slots,
                                   path_rows, path_variables, low, high, skips, integers, integers_valid, floats,
                                   floats_valid, constants, float_constants, number, stack, float_stack,
                                   nulls)  # fmt: skip
                    if holds == UNKNOWN:
                        asked = variable
                        status = i64(ASK)
                        break
                    if holds == WRONG:
                        status = i64(INEXACT)
                        break
                    if holds == 1:
                        takes = not is_forced or position == forced_rows[forced_cuts[partition] + depth]
                        fails = not takes
                        break
                    if not skips or depth == 0:
                        fails = True
                        break
                    if strategy == NEXT:
                        state = path_states[depth]
                        for other in range(variable_count):
                            if other == variable or continuations[state, other] < 0:
                                continue
                            holds = _holds(other, pc, position, depth, conditions, masks, answers, code_cuts, code,
                                           terms, sets, slot_kinds, slot_sets, slot_columns, slot_filters, slots,
                                           float_slots, path_rows, path_variables, low, high, skips, integers,
                                           integers_valid, floats, floats_valid, constants, float_constants, number,
                                           stack, float_stack, nulls)  # fmt: skip
                            if holds == 0:
                                continue
                            if holds == UNKNOWN:
                                asked = i64(other)
                                status = i64(ASK)
                            elif holds == WRONG:
                                status = i64(INEXACT)
                            fails = True
                            break
                        if fails:
                            break
                    position += 1
                    if has_asked:
                        answers[:] = UNKNOWN
                if is_late and with_timeouts and opened == 0 and matches == first_match:
                    # The rows of the preferred way that time has cut off; a match would take their place.
                    if matches >= found.shape[1]:
                        status = i64(MORE_MATCHES)
                    elif rows + depth > len(found_rows):
                        registers[ANSWER] = rows + depth
                        status = i64(MORE_ROWS)
                    else:
                        opened = depth
                        for place in range(depth):
                            found_rows[rows + place] = path_rows[place]
                            found_pcs[rows + place] = path_pcs[place]
                if status >= 0:
                    fails = False
                    break
                if takes:
                    if depth >= most_rows:
                        status = i64(TOO_LONG)
                        break
                    fine = True
                    if conditions[variable] != CODE and slot_count:
                        fine = bound(slot_kinds, slot_sets, slot_columns, slot_filters, sets, slots, float_slots,
                                      depth, position, variable, integers, integers_valid, floats,
                                      floats_valid)  # fmt: skip
                    if not fine:
                        status = i64(INEXACT)
                        break
                    if strategy == ANY and depth > 0:
                        ways[top, 0], ways[top, 1], ways[top, 2] = pc, depth, position + 1
                        top += 1
                    path_rows[depth] = position
                    path_pcs[depth] = pc
                    path_variables[depth] = variable
                    if strategy == NEXT:
                        path_states[depth + 1] = continuations[path_states[depth], variable]
                    depth += 1
                    position += 1
                    pc = i64(first[pc])
                    if has_asked:
                        answers[:] = UNKNOWN
                    continue
            elif operation == ACCEPT:
                is_wanted = depth > 0 or not is_all
                if is_forced:
                    is_wanted = depth == forced_cuts[partition + 1] - forced_cuts[partition]
                if is_wanted:
                    if matches >= found.shape[1]:
                        status = i64(MORE_MATCHES)
                        break
                    if rows + depth > len(found_rows):
                        registers[ANSWER] = rows + depth
                        status = i64(MORE_ROWS if rows + depth - first_rows <= max(most_steps, depth) else TOO_MANY)
                        break
                    for place in range(depth):
                        found_rows[rows + place] = path_rows[place]
                        found_pcs[rows + place] = path_pcs[place]
                    rows += depth
                    found[0, matches], found[2, matches] = partition, rows
                    found[1, matches] = current if has_frames else begin
                    found[3, matches], found[4, matches], found[5, matches] = MATCHED, number, decided
                    matches += 1
                    number += 1
                    if not is_all or strategy == NEXT:
                        break
                fails = True
            elif operation == START:
                if depth == 0 and position == begins[partition]:
                    pc = i64(first[pc])
                    continue
                fails = True
            elif operation == END:
                if position == high and is_closed:
                    if with_times:
                        decided = max(decided, told[END_TIME])
                    pc = i64(first[pc])
                    continue
                if position == high:
                    status = i64(DONE)
                    break
                if with_times and position < high:
                    decided = max(decided, times[position])
                fails = True
            else:
                fails = True
            # Back to the last other way.
            if top == 0:
                break
            top -= 1
            pc, depth, position = ways[top, 0], ways[top, 1], ways[top, 2]
            if has_asked:
                answers[:] = UNKNOWN
            fails = False

        asked_variable = asked
        asked = i64(0)
        if status == DONE:  # the partition waits for rows
            matches, rows = first_match, first_rows
            status = i64(-1)
            number = numbers[partition] if is_all else number
            resumes[partition], decisions[partition] = current if has_frames else begin, decided
            numbers[partition] = number
            partition += 1
            phase = i64(NEW_PARTITION)
            continue
        if status >= 0:
            registers[VARIABLE] = asked_variable
            break
        if is_forced:
            partition += 1
            phase = i64(NEW_PARTITION)
            continue
        phase = i64(MOVING)
        target = begin + 1
        if opened > 0 and fails and matches == first_match:
            rows += opened
            found[0, matches], found[1, matches], found[2, matches] = partition, begin, rows
            found[3, matches], found[4, matches], found[5, matches] = TIMED_OUT, number, decided
            matches += 1
        if is_all:
            numbers[partition] = number
            for place in range(first_match, matches):  # they come out together
                found[5, place] = decided
            if with_unmatched:
                for place in range(first_rows, rows):
                    covered[found_rows[place]] = 1
            continue
        if fails:
            if not has_frames and within < 0:  # what is marked then is of use to later attempts
                spent += steps
            if 0 <= behind <= begin - current:
                barren = begin + 1
            continue
        spent = i64(0)
        # A match.
        if has_frames:
            target = current + 1
        if marked and within < 0:
            for place in range(depth):
                at = path_rows[place] if place == 0 or not skips else path_rows[place - 1] + 1
                while at <= path_rows[place]:
                    mark = (at - base) * mark_count + mark_numbers[path_pcs[place]]
                    if states > 1:
                        mark = mark * states + path_states[place]
                    marks[mark] = 0
                    at += 1
        if depth == 0:
            last_empty, current = begin, target
            continue
        if with_unmatched:
            for place in range(depth):
                covered[path_rows[place]] = 1
        if skip == PAST_LAST:
            target = path_rows[depth - 1] + 1
        elif skip != TO_NEXT:
            place = i64(0)
            step = i64(1)
            if skip != TO_FIRST:
                place, step = depth - 1, i64(-1)
            while 0 <= place < depth and skip_to[path_variables[place]] == 0:
                place += step
            if place < 0 or place >= depth:
                status = i64(SKIP_MISSING)
                break
            if place == 0:
                status = i64(SKIP_NOWHERE)
                break
            target = path_rows[place]
        current = target

    registers[PARTITION], registers[BEGIN], registers[PHASE] = partition, begin, phase
    registers[PC], registers[DEPTH], registers[POSITION], registers[STACK] = pc, depth, position, top
    registers[MATCHES], registers[ROWS], registers[STEPS] = matches, rows, steps
    registers[MARKED], registers[ATTEMPT], registers[FLOOR] = i64(marked), attempt, floor
    registers[FIRST_MATCH], registers[FIRST_ROWS], registers[DECIDED] = first_match, first_rows, decided
    registers[NUMBER], registers[TARGET], registers[FAR], registers[BASE] = number, target, far, base
    registers[LAST_EMPTY], registers[OPEN] = last_empty, opened
    registers[CURRENT], registers[BARREN] = current, barren
    registers[SPENT], registers[ORIGIN] = spent, origin
    return status
