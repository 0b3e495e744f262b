"""Code over the match so far, run for one row: helpers of the machine.

They are compiled as parts of the kernels that call them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import called, f64, i64, inlined
from tidelog.operators.rowpattern.opcodes import (
    ADD_FLOAT,
    ADD_INTEGER,
    AND,
    AVERAGE_INTEGER,
    AVERAGE_SLOT,
    CHECK_RANGE,
    COMPARE_FLOAT,
    COMPARE_INTEGER,
    COUNT,
    COUNT_FLOAT,
    COUNT_INTEGER,
    DISTINCT_FLOAT,
    DISTINCT_INTEGER,
    DIVIDE_FLOAT,
    FIRST_ROW,
    FLOAT_AT,
    FLOAT_CONSTANT,
    FLOAT_SLOT,
    INTEGER_AT,
    INTEGER_CONSTANT,
    INTEGER_SLOT,
    IS_NULL,
    IS_TRUE,
    LABEL_AT,
    LAST_ROW,
    LEAST_FLOAT,
    LEAST_INTEGER,
    MATCH_NUMBER,
    MOST_INTEGER,
    MULTIPLY_FLOAT,
    NEGATE_FLOAT,
    NEGATE_INTEGER,
    NOT,
    NULL_CONSTANT,
    OR,
    SUBTRACT_FLOAT,
    SUBTRACT_INTEGER,
    SUM_FLOAT,
    SUM_INTEGER,
    TERM_IS_LAST,
    TERM_LOGICAL,
    TERM_PHYSICAL,
    TERM_SET,
    TERM_SLOT,
    TO_FLOAT,
)

UNKNOWN = 2
"""Neither true nor false: somebody has to be asked."""
WRONG = 3
"""A number that cannot be held."""


@inlined
def _compared(which: Any, left: Any, right: Any) -> Any:
    if which == 0:
        return left == right
    if which == 1:
        return left < right
    return left <= right


@inlined
def _compared_floats(which: Any, left: Any, right: Any) -> Any:
    """NaN equals itself and is above all others."""
    if which == 0:
        return left == right or (left != left and right != right)
    if which == 1:
        return left < right or (right != right and left == left)
    return left <= right or right != right


@called
def row_of(term: Any, terms: Any, sets: Any, slots: Any, variables: Any, rows: Any, depth: Any, low: Any, high: Any,
            skips: Any) -> Any:  # fmt: skip
    """The row that a term finds in a match of ``depth`` + 1 rows, or -1; and its place in the match, or -1."""
    place = slots[depth + 1, terms[term, TERM_SLOT]]
    left = terms[term, TERM_LOGICAL]
    if place >= 0 and left > 0:
        own = terms[term, TERM_SET]
        step = -1 if terms[term, TERM_IS_LAST] else 1
        while left > 0:
            place += step
            while 0 <= place <= depth and sets[own, variables[place]] == 0:
                place += step
            if place < 0 or place > depth:
                return i64(-1), i64(-1)
            left -= 1
    if place < 0:
        return i64(-1), i64(-1)
    offset = i64(terms[term, TERM_PHYSICAL])
    if offset == 0:
        return rows[place], place
    if skips:
        place += offset
        if place < 0 or place > depth:
            return i64(-1), i64(-1)
        return rows[place], place
    row = rows[place] + offset
    if row < low or row >= high:
        return i64(-1), i64(-1)
    place = row - rows[0]
    if place < 0 or place > depth:
        place = i64(-1)
    return row, place


@called
def evaluated(code: Any, begin: Any, end: Any, terms: Any, sets: Any, slots: Any, float_slots: Any, variables: Any,
               rows: Any, depth: Any, low: Any, high: Any, skips: Any, integers: Any, integers_valid: Any, floats: Any,
               floats_valid: Any, constants: Any, float_constants: Any, number: Any, stack: Any, float_stack: Any,
               nulls: Any) -> Any:  # fmt: skip
    """What code comes to: 1 if it is true, 0 if not, or that it cannot be told."""
    top = -1
    for step in range(begin, end):
        operation, first, second = code[step, 0], code[step, 1], code[step, 2]
        if operation <= FLOAT_AT:
            row, _ = row_of(first, terms, sets, slots, variables, rows, depth, low, high, skips)
            top += 1
            nulls[top] = 1
            if row >= 0:
                if operation == INTEGER_AT:
                    nulls[top] = 1 - integers_valid[second, row]
                    stack[top] = integers[second, row]
                else:
                    nulls[top] = 1 - floats_valid[second, row]
                    float_stack[top] = floats[second, row]
        elif operation == INTEGER_CONSTANT:
            top += 1
            nulls[top] = 0
            stack[top] = constants[first]
        elif operation == FLOAT_CONSTANT:
            top += 1
            nulls[top] = 0
            float_stack[top] = float_constants[first]
        elif operation == NULL_CONSTANT:
            top += 1
            nulls[top] = 1
        elif operation == INTEGER_SLOT:
            top += 1
            nulls[top] = 1 if second >= 0 and slots[depth + 1, second] == 0 else 0
            stack[top] = slots[depth + 1, first]
        elif operation == FLOAT_SLOT:
            top += 1
            nulls[top] = 1 if second >= 0 and slots[depth + 1, second] == 0 else 0
            float_stack[top] = float_slots[depth + 1, first]
        elif operation in (AVERAGE_SLOT, AVERAGE_INTEGER):
            top += 1
            count = slots[depth + 1, second]
            nulls[top] = 1 if count == 0 else 0
            if count != 0:
                if operation == AVERAGE_SLOT:
                    float_stack[top] = float_slots[depth + 1, first] / count
                else:
                    float_stack[top] = f64(slots[depth + 1, first]) / count
        elif operation == LABEL_AT:
            row, place = row_of(first, terms, sets, slots, variables, rows, depth, low, high, skips)
            top += 1
            nulls[top] = 1 if place < 0 else 0
            stack[top] = constants[second + variables[place]] if place >= 0 else i64(0)
        elif operation == MATCH_NUMBER:
            top += 1
            nulls[top] = 0
            stack[top] = number
        elif operation == TO_FLOAT:
            float_stack[top] = f64(stack[top])
        elif operation == NEGATE_INTEGER:
            if stack[top] == np.int64(-0x8000000000000000) and nulls[top] == 0:
                return i64(WRONG)
            stack[top] = -stack[top]
        elif operation == NEGATE_FLOAT:
            float_stack[top] = -float_stack[top]
        elif operation == CHECK_RANGE:
            if nulls[top] == 0 and not constants[first] <= stack[top] <= constants[first + 1]:
                return i64(WRONG)
        elif operation == NOT:
            stack[top] = 1 - stack[top]
        elif operation == IS_NULL:
            stack[top] = i64(nulls[top]) if second == 0 else i64(1 - nulls[top])
            nulls[top] = 0
        elif operation == IS_TRUE:
            found = nulls[top] == 0 and stack[top] == first
            stack[top] = i64(1) if found == (second == 0) else i64(0)
            nulls[top] = 0
        elif operation in (AND, OR):
            top -= 1
            decisive = 0 if operation == AND else 1
            one = nulls[top] == 0 and stack[top] == decisive
            other = nulls[top + 1] == 0 and stack[top + 1] == decisive
            if one or other:
                nulls[top] = 0
                stack[top] = decisive
            elif nulls[top] != 0 or nulls[top + 1] != 0:
                nulls[top] = 1
            else:
                stack[top] = 1 - decisive
        elif operation in (DISTINCT_INTEGER, DISTINCT_FLOAT):
            top -= 1
            if nulls[top] != 0 or nulls[top + 1] != 0:
                differs = nulls[top] != nulls[top + 1]
            elif operation == DISTINCT_INTEGER:
                differs = stack[top] != stack[top + 1]
            else:
                differs = not _compared_floats(0, float_stack[top], float_stack[top + 1])
            stack[top] = i64(1) if differs == (second == 0) else i64(0)
            nulls[top] = 0
        else:
            top -= 1
            if nulls[top] != 0 or nulls[top + 1] != 0:
                nulls[top] = 1
                continue
            if operation == COMPARE_INTEGER:
                holds = _compared(first, stack[top], stack[top + 1])
                stack[top] = i64(1) if holds == (second == 0) else i64(0)
            elif operation == COMPARE_FLOAT:
                holds = _compared_floats(first, float_stack[top], float_stack[top + 1])
                stack[top] = i64(1) if holds == (second == 0) else i64(0)
            elif operation == ADD_FLOAT:
                float_stack[top] += float_stack[top + 1]
            elif operation == SUBTRACT_FLOAT:
                float_stack[top] -= float_stack[top + 1]
            elif operation == MULTIPLY_FLOAT:
                float_stack[top] *= float_stack[top + 1]
            elif operation == DIVIDE_FLOAT:
                float_stack[top] /= float_stack[top + 1]
            else:
                left, right = stack[top], stack[top + 1]
                if operation == ADD_INTEGER:
                    made = left + right
                    if ((left ^ made) & (right ^ made)) < 0:
                        return i64(WRONG)
                elif operation == SUBTRACT_INTEGER:
                    made = left - right
                    if ((left ^ right) & (left ^ made)) < 0:
                        return i64(WRONG)
                else:
                    if abs(f64(left) * f64(right)) > 9.2e18:
                        return i64(WRONG)
                    made = left * right
                stack[top] = made
    return i64(1) if nulls[0] == 0 and stack[0] != 0 else i64(0)


@called
def bound(kinds: Any, slot_sets: Any, columns: Any, filters: Any, sets: Any, slots: Any, float_slots: Any, depth: Any,
           row: Any, variable: Any, integers: Any, integers_valid: Any, floats: Any,
           floats_valid: Any) -> Any:  # fmt: skip
    """What is known of a match once a row is bound to a variable as its row ``depth``; false if it cannot be held."""
    fine = True
    for slot in range(len(kinds)):
        before = slots[depth, slot]
        slots[depth + 1, slot] = before
        float_slots[depth + 1, slot] = float_slots[depth, slot]
        if sets[slot_sets[slot], variable] == 0:
            continue
        kind, column = kinds[slot], columns[slot]
        if kind == LAST_ROW:
            slots[depth + 1, slot] = depth
            continue
        if kind == FIRST_ROW:
            if before < 0:
                slots[depth + 1, slot] = depth
            continue
        if filters[slot] >= 0 and (integers_valid[filters[slot], row] == 0 or integers[filters[slot], row] == 0):
            continue
        if kind == COUNT:
            slots[depth + 1, slot] = before + 1
        elif kind == COUNT_INTEGER:
            slots[depth + 1, slot] = before + integers_valid[column, row]
        elif kind == COUNT_FLOAT:
            slots[depth + 1, slot] = before + floats_valid[column, row]
        elif kind == SUM_INTEGER:
            if integers_valid[column, row] != 0:
                value = integers[column, row]
                made = before + value
                if ((before ^ made) & (value ^ made)) < 0:
                    fine = False
                slots[depth + 1, slot] = made
        elif kind == LEAST_INTEGER:
            if integers_valid[column, row] != 0:
                slots[depth + 1, slot] = min(before, integers[column, row])
        elif kind == MOST_INTEGER:
            if integers_valid[column, row] != 0:
                slots[depth + 1, slot] = max(before, integers[column, row])
        elif floats_valid[column, row] != 0:
            real, value_f = float_slots[depth, slot], floats[column, row]
            if kind == SUM_FLOAT:
                float_slots[depth + 1, slot] = real + value_f
            elif _compared_floats(1, value_f, real) if kind == LEAST_FLOAT else _compared_floats(1, real, value_f):
                float_slots[depth + 1, slot] = value_f
    return fine
