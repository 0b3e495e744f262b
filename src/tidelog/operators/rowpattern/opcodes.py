"""Numbers that programs and kernels of row patterns share."""

from __future__ import annotations

from typing import Final

# -- instructions of a pattern: each has an operation and two operands ------------------------------------------------

FAIL: Final = 0
MATCH: Final = 1
"""A row for which the condition of a variable (second operand) holds; then the first operand."""
SPLIT: Final = 2
"""The first operand, and if that leads to no match, the second."""
START: Final = 3
"""Only at the beginning of a partition; then the first operand."""
END: Final = 4
"""Only at the end of a partition; then the first operand."""
ACCEPT: Final = 5

# -- how the condition of a variable is found -------------------------------------------------------------------------

TRUE: Final = 0
MASK: Final = 1
"""A truth value for each row is there."""
CODE: Final = 2
"""A mask, and besides it code over the match so far."""
ASKED: Final = 3
"""A mask, and besides it whoever runs the kernel is asked."""

# -- strategies -------------------------------------------------------------------------------------------------------

CONTIGUOUS: Final = 0
NEXT: Final = 1
ANY: Final = 2

# -- where the search goes on behind a match --------------------------------------------------------------------------

PAST_LAST: Final = 0
TO_NEXT: Final = 1
TO_FIRST: Final = 2
TO_LAST: Final = 3

# -- why the kernel returns -------------------------------------------------------------------------------------------

DONE: Final = 0
ASK: Final = 1
"""The condition of a variable is to be told."""
MORE_PATH: Final = 2
MORE_STACK: Final = 3
MORE_MATCHES: Final = 4
MORE_ROWS: Final = 5
MORE_MARKS: Final = 6
"""Arrays are too small; the kernel goes on where it was, with larger ones."""
SKIP_MISSING: Final = 7
"""The variable to skip to has no row in a match."""
SKIP_NOWHERE: Final = 8
"""The row to skip to is the first one of the match."""
TOO_LONG: Final = 9
"""A match has more rows than allowed."""
TOO_MANY: Final = 10
"""So many steps that there is no end in sight."""
INEXACT: Final = 11
"""Code came to a number that it cannot hold."""

# -- places in the registers of the kernel ----------------------------------------------------------------------------

PARTITION: Final = 0
BEGIN: Final = 1
"""The first row of the attempt."""
PHASE: Final = 2
PC: Final = 3
DEPTH: Final = 4
POSITION: Final = 5
STACK: Final = 6
MATCHES: Final = 7
ROWS: Final = 8
VARIABLE: Final = 9
ANSWER: Final = 10
STEPS: Final = 11
MARKED: Final = 12
"""Whether steps that failed are remembered."""
ATTEMPT: Final = 13
FLOOR: Final = 14
"""The first attempt whose marks count."""
FIRST_MATCH: Final = 15
"""How many matches there were before the attempt."""
FIRST_ROWS: Final = 16
DECIDED: Final = 17
"""How far the attempts of a partition have looked: a time."""
NUMBER: Final = 18
"""The number of the match, from 1 on, that the partition is at."""
TARGET: Final = 19
"""Where the search goes on, while rows before it are looked through."""
FAR: Final = 20
"""The last row that the attempt has looked at."""
BASE: Final = 21
"""The first row that marks are kept of."""
LAST_EMPTY: Final = 22
"""The row of the last match without rows."""
OPEN: Final = 23
"""How many rows the preferred way of the attempt had that time has cut off; 0 if there is none."""
CURRENT: Final = 24
"""The row whose frame is searched."""
BARREN: Final = 25
"""No match begins before this row, unless it looks at rows before its first one."""
SPENT: Final = 26
"""The steps of attempts since the last match, without those of the attempt under way."""
ORIGIN: Final = 27
"""The first row of the first of these attempts."""
REGISTERS: Final = 28

# -- phases -----------------------------------------------------------------------------------------------------------

NEW_PARTITION: Final = 0
NEW_START: Final = 1
RUNNING: Final = 2
ANSWERED: Final = 3
MOVING: Final = 4

# -- what a search is told --------------------------------------------------------------------------------------------

STRATEGY: Final = 0
IS_ALL: Final = 1
"""Whether all matches are wanted."""
WITHIN: Final = 2
"""How far apart the first and last row may be; -1 for any distance."""
SKIP: Final = 3
ENTRY: Final = 4
MOST_ROWS: Final = 5
MOST_STEPS: Final = 6
AHEAD: Final = 7
"""How many rows behind a row its conditions look at."""
CAN_MARK: Final = 8
"""Whether conditions depend on rows alone, so that a step that failed will always fail."""
WITH_UNMATCHED: Final = 9
WITH_TIMES: Final = 10
"""Whether it is wanted when matches became certain."""
END_TIME: Final = 11
"""When what only the end decides becomes certain."""
IS_FILTERED: Final = 12
"""Whether it is known which rows may be first."""
MARKS: Final = 13
"""How many instructions take rows."""
STATES: Final = 14
"""How many states of continuations there are; 1 where they do not matter."""
IS_FORCED: Final = 15
"""Whether the rows of matches are given."""
WITH_TIMEOUTS: Final = 16
"""Whether partial matches that time has cut off are wanted."""
IS_SEEKING: Final = 17
"""Whether the match of a frame may begin behind its first row."""
BEHIND: Final = 18
"""How many rows before a match its conditions look at, if all frames end with their partition; else -1."""
PARAMETERS: Final = 19

# -- kinds of records -------------------------------------------------------------------------------------------------

MATCHED: Final = 0
UNMATCHED: Final = 1
TIMED_OUT: Final = 2
"""A partial match, where there is no match."""

# -- what is known of a match so far: slots ---------------------------------------------------------------------------

LAST_ROW: Final = 0
FIRST_ROW: Final = 1
COUNT: Final = 2
COUNT_INTEGER: Final = 3
COUNT_FLOAT: Final = 4
SUM_INTEGER: Final = 5
SUM_FLOAT: Final = 6
LEAST_INTEGER: Final = 7
MOST_INTEGER: Final = 8
LEAST_FLOAT: Final = 9
MOST_FLOAT: Final = 10

# -- code of conditions: each step has an operation and two operands --------------------------------------------------

INTEGER_AT: Final = 0
"""The value of an integer column at the row that a term finds."""
FLOAT_AT: Final = 1
INTEGER_CONSTANT: Final = 2
FLOAT_CONSTANT: Final = 3
NULL_CONSTANT: Final = 4
INTEGER_SLOT: Final = 5
"""The value of a slot; NULL if another slot, a count, is zero."""
FLOAT_SLOT: Final = 6
AVERAGE_SLOT: Final = 7
"""A sum of floats by a count."""
LABEL_AT: Final = 8
"""Of the row that a term finds, the constant for its variable; the second operand names that of the first one."""
TO_FLOAT: Final = 9
ADD_INTEGER: Final = 10
SUBTRACT_INTEGER: Final = 11
MULTIPLY_INTEGER: Final = 12
ADD_FLOAT: Final = 13
SUBTRACT_FLOAT: Final = 14
MULTIPLY_FLOAT: Final = 15
DIVIDE_FLOAT: Final = 16
COMPARE_INTEGER: Final = 17
"""By the first operand: 0 equal, 1 less, 2 less or equal; the second negates."""
COMPARE_FLOAT: Final = 18
DISTINCT_INTEGER: Final = 19
DISTINCT_FLOAT: Final = 20
AND: Final = 21
OR: Final = 22
NOT: Final = 23
IS_NULL: Final = 24
IS_TRUE: Final = 25
"""Whether it is what the first operand says; the second negates."""
MATCH_NUMBER: Final = 26
NEGATE_INTEGER: Final = 27
NEGATE_FLOAT: Final = 28
AVERAGE_INTEGER: Final = 29
"""A sum of integers by a count."""
CHECK_RANGE: Final = 30
"""The number has to be between two constants, of which the first operand names the lower one."""

# -- terms of code: each finds a row of the match ---------------------------------------------------------------------

TERM_SLOT: Final = 0
TERM_SET: Final = 1
TERM_IS_LAST: Final = 2
TERM_LOGICAL: Final = 3
TERM_PHYSICAL: Final = 4
TERM_WIDTH: Final = 5
