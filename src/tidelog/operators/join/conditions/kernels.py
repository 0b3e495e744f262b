"""A machine for conditions of pairs of rows: programs of arithmetic, comparisons and logic over vectors.

A program is lines of (operation, result, first operand, second operand). Numbers are in *vectors*: columns first, then
registers; truths in *flags*: columns of 0 and 1 first, then registers. Operands below zero are *constants*, which are
the same for all members of a vector: operand -1 is constant 0, and so on. First operands are vectors, unless all
operands and the result are constants; results of such lines have the numbers of constants.

Nothing is skipped, so that loops are vectors for the processor too. What would be an error (:data:`FAULT`) ends it.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.jit import array_in, array_out, called, f32, f64, i64, kernel, u8, u64
from tidelog.operators.join.conditions.vectors.kernels import (
    ADD_SQUARE,
    AND,
    LESS,
    SQUARE,
    compared_floats,
    compared_floats_with,
    compared_integers,
    compared_integers_with,
    floats,
    floats_with,
    integers,
    integers_with,
    logic,
    logic_with,
    three_squares,
)

BLOCK: Final = 1024
"""Members of a vector at a time: some columns and a register of so many stay in the first cache."""
FAULT: Final = -1
PLACE_BITS: Final = 40
"""A pair is one number: that of the arriving row above, the place of its partner below."""


@called
def _are_three_squares(code: Any, line: Any, width: Any) -> Any:
    """Whether the next three lines are squares of differences of columns and constants that are added up."""
    if line + 3 > len(code) or (code[line, 0] != SQUARE and code[line, 0] != ADD_SQUARE):
        return False
    for other in range(line, line + 3):
        if other > line and (code[other, 0] != ADD_SQUARE or code[other, 1] != code[line, 1]):
            return False
        if code[other, 2] >= width or code[other, 3] >= 0:
            return False
    return True


@called
def _run_floats(
    code: Any,
    columns: Any,
    column_flags: Any,
    first: Any,
    count: Any,
    vectors: Any,
    flags: Any,
    values: Any,
    truths: Any,
) -> Any:
    """Run lines of a program over floats for ``count`` rows of columns from ``first`` on; true for a fault."""
    width, flag_width = len(columns), len(column_flags)
    line = 0
    while line < len(code):
        if _are_three_squares(code, line, width):
            three_squares(
                code[line, 0] == ADD_SQUARE,
                vectors[code[line, 1] - width],
                columns[code[line, 2]][first : first + count],
                columns[code[line + 1, 2]][first : first + count],
                columns[code[line + 2, 2]][first : first + count],
                values[-1 - code[line, 3]],
                values[-1 - code[line + 1, 3]],
                values[-1 - code[line + 2, 3]],
                count,
            )
            line += 3
            continue
        operation, into, left, right = code[line, 0], code[line, 1], code[line, 2], code[line, 3]
        line += 1
        if operation >= AND:
            one_flag = column_flags[left][first : first + count] if left < flag_width else flags[left - flag_width]
            if right < 0:
                logic_with(operation, flags[into - flag_width], one_flag, truths[-1 - right], count)
            else:
                other_flag = (
                    column_flags[right][first : first + count] if right < flag_width else flags[right - flag_width]
                )
                logic(operation, flags[into - flag_width], one_flag, other_flag, count)
            continue
        one = columns[left][first : first + count] if left < width else vectors[left - width]
        if operation >= LESS:
            result = flags[into - flag_width]
            if right < 0:
                compared_floats_with(operation, result, one, values[-1 - right], count)
            else:
                other = columns[right][first : first + count] if right < width else vectors[right - width]
                compared_floats(operation, result, one, other, count)
        elif right < 0:
            if floats_with(operation, vectors[into - width], one, values[-1 - right], count):
                return True
        else:
            other = columns[right][first : first + count] if right < width else vectors[right - width]
            if floats(operation, vectors[into - width], one, other, count):
                return True
    return False


@called
def _prepare_floats(code: Any, values: Any, truths: Any) -> Any:
    """Run the lines of a program that are about constants only; true for a fault."""
    for line in range(len(code)):
        operation, into, left, right = code[line, 0], -1 - code[line, 1], -1 - code[line, 2], -1 - code[line, 3]
        if operation >= AND:
            logic_with(operation, truths[into : into + 1], truths[left : left + 1], truths[right], 1)
        elif operation >= LESS:
            compared_floats_with(operation, truths[into : into + 1], values[left : left + 1], values[right], 1)
        elif floats_with(operation, values[into : into + 1], values[left : left + 1], values[right], 1):
            return True
    return False


@called
def _run_integers(
    code: Any,
    columns: Any,
    column_flags: Any,
    first: Any,
    count: Any,
    vectors: Any,
    flags: Any,
    values: Any,
    truths: Any,
) -> Any:
    """Run lines of a program over integers for ``count`` rows of columns from ``first`` on; true for a fault."""
    width, flag_width = len(columns), len(column_flags)
    for line in range(len(code)):
        operation, into, left, right = code[line, 0], code[line, 1], code[line, 2], code[line, 3]
        if operation >= AND:
            one_flag = column_flags[left][first : first + count] if left < flag_width else flags[left - flag_width]
            if right < 0:
                logic_with(operation, flags[into - flag_width], one_flag, truths[-1 - right], count)
            else:
                other_flag = (
                    column_flags[right][first : first + count] if right < flag_width else flags[right - flag_width]
                )
                logic(operation, flags[into - flag_width], one_flag, other_flag, count)
            continue
        one = columns[left][first : first + count] if left < width else vectors[left - width]
        if operation >= LESS:
            result = flags[into - flag_width]
            if right < 0:
                compared_integers_with(operation, result, one, values[-1 - right], count)
            else:
                other = columns[right][first : first + count] if right < width else vectors[right - width]
                compared_integers(operation, result, one, other, count)
        elif right < 0:
            if integers_with(operation, vectors[into - width], one, values[-1 - right], count):
                return True
        else:
            other = columns[right][first : first + count] if right < width else vectors[right - width]
            if integers(operation, vectors[into - width], one, other, count):
                return True
    return False


@called
def _prepare_integers(code: Any, values: Any, truths: Any) -> Any:
    """Run the lines of a program that are about constants only; true for a fault."""
    for line in range(len(code)):
        operation, into, left, right = code[line, 0], -1 - code[line, 1], -1 - code[line, 2], -1 - code[line, 3]
        if operation >= AND:
            logic_with(operation, truths[into : into + 1], truths[left : left + 1], truths[right], 1)
        elif operation >= LESS:
            compared_integers_with(operation, truths[into : into + 1], values[left : left + 1], values[right], 1)
        elif integers_with(operation, values[into : into + 1], values[left : left + 1], values[right], 1):
            return True
    return False


@called
def _collect(words: Any, flags: Any, count: Any, pair: Any, found: Any, size: Any) -> Any:
    """Add the pairs whose flags are set to those found; the new number of them."""
    for word in range((count + 7) // 8):
        if words[word] != 0:
            for at in range(8 * word, min(8 * word + 8, count)):
                if flags[at]:
                    found[size] = pair + at
                    size += 1
    return size


@called
def _match_floats(
    columns: Any,
    column_flags: Any,
    own: Any,
    own_flags: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    uniform: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    words: Any,
    found: Any,
) -> Any:
    low, high = firsts[0], lasts[0]
    for row in range(len(firsts)):
        low, high = min(low, firsts[row]), max(high, lasts[row])
    faults = False
    for row in range(len(firsts)):
        faults |= _prepare_floats(uniform, own[row], own_flags[row])
    if faults:
        return i64(FAULT)
    size = 0
    for start in range(low, high, BLOCK):
        for row in range(len(firsts)):
            begin, end = max(firsts[row], start), min(lasts[row], start + BLOCK)
            if begin >= end:
                continue
            count = end - begin
            if _run_floats(code, columns, column_flags, begin, count, vectors, flags, own[row], own_flags[row]):
                return i64(FAULT)
            for at in range(count, (count + 7) // 8 * 8):
                flags[result, at] = 0
            size = _collect(words[result], flags[result], count, (numbers[row] << PLACE_BITS) + begin, found, size)
    return i64(size)


@called
def _match_integers(
    columns: Any,
    column_flags: Any,
    own: Any,
    own_flags: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    uniform: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    words: Any,
    found: Any,
) -> Any:
    low, high = firsts[0], lasts[0]
    for row in range(len(firsts)):
        low, high = min(low, firsts[row]), max(high, lasts[row])
    faults = False
    for row in range(len(firsts)):
        faults |= _prepare_integers(uniform, own[row], own_flags[row])
    if faults:
        return i64(FAULT)
    size = 0
    for start in range(low, high, BLOCK):
        for row in range(len(firsts)):
            begin, end = max(firsts[row], start), min(lasts[row], start + BLOCK)
            if begin >= end:
                continue
            count = end - begin
            if _run_integers(code, columns, column_flags, begin, count, vectors, flags, own[row], own_flags[row]):
                return i64(FAULT)
            for at in range(count, (count + 7) // 8 * 8):
                flags[result, at] = 0
            size = _collect(words[result], flags[result], count, (numbers[row] << PLACE_BITS) + begin, found, size)
    return i64(size)


def _match_types(dtype: Any) -> Any:
    flags, ints = array_out(u8, 2), array_in(i64)
    values = array_out(dtype, 2)
    code = array_in(i64, 2)
    return i64(
        values,
        flags,
        values,
        flags,
        ints,
        ints,
        ints,
        code,
        code,
        i64,
        values,
        flags,
        array_out(u64, 2),
        array_out(i64),
    )


def _check_types(dtype: Any) -> Any:
    flags, code = array_out(u8, 2), array_in(i64, 2)
    return i64(
        array_out(dtype, 2),
        flags,
        array_out(dtype),
        array_out(u8),
        code,
        i64,
        array_out(dtype, 2),
        flags,
        array_out(u8),
    )


@kernel(_match_types(f64))
def match_f64(
    columns: Any,
    column_flags: Any,
    own: Any,
    own_flags: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    uniform: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    words: Any,
    found: Any,
) -> Any:
    """Run a program for some arriving rows and the partners each may have.

    ``columns`` and ``column_flags`` are those of partners, of which row ``i`` has places ``firsts[i]`` to ``lasts[i]``;
    ``own`` and ``own_flags`` have a line of constants for each row. ``uniform`` is what is computed of these,
    ``code`` of vectors; ``result`` is the register of flags that tells. ``vectors`` and ``flags`` are room for
    registers, ``words`` is the memory of flags. ``found`` gets pairs, and has room for all. Returns how many there
    are, or :data:`FAULT`.
    """
    return _match_floats(
        columns,
        column_flags,
        own,
        own_flags,
        firsts,
        lasts,
        numbers,
        uniform,
        code,
        result,
        vectors,
        flags,
        words,
        found,
    )


@kernel(_match_types(f32))
def match_f32(
    columns: Any,
    column_flags: Any,
    own: Any,
    own_flags: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    uniform: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    words: Any,
    found: Any,
) -> Any:
    """The same for other numbers."""
    return _match_floats(
        columns,
        column_flags,
        own,
        own_flags,
        firsts,
        lasts,
        numbers,
        uniform,
        code,
        result,
        vectors,
        flags,
        words,
        found,
    )


@kernel(_match_types(i64))
def match_i64(
    columns: Any,
    column_flags: Any,
    own: Any,
    own_flags: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    uniform: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    words: Any,
    found: Any,
) -> Any:
    """The same for other numbers."""
    return _match_integers(
        columns,
        column_flags,
        own,
        own_flags,
        firsts,
        lasts,
        numbers,
        uniform,
        code,
        result,
        vectors,
        flags,
        words,
        found,
    )


@kernel(_check_types(f64))
def check_f64(
    columns: Any,
    column_flags: Any,
    values: Any,
    truths: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    truth: Any,
) -> Any:
    """Run a program for pairs whose columns are all given; ``truth`` gets 1 where it holds. Returns 0 or a fault."""
    for first in range(0, len(truth), BLOCK):
        count = min(BLOCK, len(truth) - first)
        if _run_floats(code, columns, column_flags, first, count, vectors, flags, values, truths):
            return FAULT
        truth[first : first + count] = flags[result, :count]
    return 0


@kernel(_check_types(f32))
def check_f32(
    columns: Any,
    column_flags: Any,
    values: Any,
    truths: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    truth: Any,
) -> Any:
    """The same for other numbers."""
    for first in range(0, len(truth), BLOCK):
        count = min(BLOCK, len(truth) - first)
        if _run_floats(code, columns, column_flags, first, count, vectors, flags, values, truths):
            return FAULT
        truth[first : first + count] = flags[result, :count]
    return 0


@kernel(_check_types(i64))
def check_i64(
    columns: Any,
    column_flags: Any,
    values: Any,
    truths: Any,
    code: Any,
    result: Any,
    vectors: Any,
    flags: Any,
    truth: Any,
) -> Any:
    """The same for other numbers."""
    for first in range(0, len(truth), BLOCK):
        count = min(BLOCK, len(truth) - first)
        if _run_integers(code, columns, column_flags, first, count, vectors, flags, values, truths):
            return FAULT
        truth[first : first + count] = flags[result, :count]
    return 0
