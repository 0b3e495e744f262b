"""The search for matches: runs the kernel, and gives it what it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.base import Ints
from tidelog.operators.rowpattern import opcodes
from tidelog.operators.rowpattern.conditions.conditions import Conditions, Evaluated
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.machine import kernels
from tidelog.operators.rowpattern.machine.each_once import each_once
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.machine.program import Program, compiled
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.rows import Rows
from tidelog.operators.rowpattern.runs.finding import Runs
from tidelog.operators.rowpattern.syntax import RowPattern, Skip, Strategy
from tidelog.operators.rowpattern.syntax import Rows as Which

_STRATEGIES: Final = {
    Strategy.CONTIGUOUS: opcodes.CONTIGUOUS,
    Strategy.SKIP_TILL_NEXT: opcodes.NEXT,
    Strategy.SKIP_TILL_ANY: opcodes.ANY,
}
_SKIPS: Final = {
    Skip.PAST_LAST_ROW: opcodes.PAST_LAST,
    Skip.TO_NEXT_ROW: opcodes.TO_NEXT,
    Skip.TO_FIRST: opcodes.TO_FIRST,
    Skip.TO_LAST: opcodes.TO_LAST,
}
_STEPS_PER_STATE: Final = 16
_DEEP: Final = 256
_MOST_JUMPS: Final = 64
"""Choices of variables for which it is worth knowing the next row of each."""
_PART: Final = 1 << 20
"""Matches and rows of these that are worth being told before all is found."""
_FOUND: Final = 6
"""What is told of a match."""


class NoRoom(Exception):
    """Matches have more rows than there is room for."""


class Search:
    """Looks for the matches of one query, in any rows."""

    def __init__(self, query: RowPattern, conditions: Conditions) -> None:
        self.query = query
        self.conditions = conditions
        self.is_forward = query.is_all_matches and query.strategy is Strategy.SKIP_TILL_NEXT
        self.program = compiled(query.pattern, query.variables, reluctant=self.is_forward)
        self._runs = Runs.of(query)
        self.expected = (0, 0)
        """How many matches, and rows of these, to make room for."""
        self.skip_to = np.array([name in query.skip_to for name in query.variables], np.uint8)
        self._bindings = compiled(query.pattern, query.variables) if self.is_forward else None

    def run(
        self,
        rows: Rows,
        partitions: Partitions,
        times: Ints | None,
        covered: npt.NDArray[np.uint8],
        *,
        end_time: int | None = None,
    ) -> Matches:
        """The matches that are certain; ``partitions`` is changed. ``end_time`` asks for when they became so.

        Raises :class:`PatternError` if the search cannot go on.
        """
        return self.over(self.conditions.over(rows), partitions, times, covered, end_time=end_time)

    def over(
        self,
        evaluated: Evaluated,
        partitions: Partitions,
        times: Ints | None,
        covered: npt.NDArray[np.uint8],
        *,
        end_time: int | None = None,
        room: int | None = None,
    ) -> Matches:
        """The same, where conditions are evaluated already.

        Raises :class:`NoRoom` if the matches have more rows, in all, than there is ``room`` for.
        """
        before = partitions.numbers.copy()
        by_runs = self._by_runs(evaluated, partitions) if end_time is None and room is None else None
        if by_runs is not None:
            return by_runs
        run = _Run(self, self.program, evaluated, partitions, times, covered, end_time, room)
        return self._chosen(run.matches(), evaluated, partitions, times, before)

    def parts(
        self, rows: Rows, partitions: Partitions, times: Ints | None, covered: npt.NDArray[np.uint8]
    ) -> Iterator[Matches]:
        """What :meth:`run` finds, some at a time, so that not all rows of all matches are in memory at once."""
        evaluated = self.conditions.over(rows)
        by_runs = self._by_runs(evaluated, partitions)
        if by_runs is not None:
            yield by_runs
            return
        run = _Run(self, self.program, evaluated, partitions, times, covered, None, None)
        before = partitions.numbers.copy()
        for found in run.parts():
            yield self._chosen(found, evaluated, partitions, times, before)
            before = partitions.numbers.copy() if self.query.is_all_matches else before

    def _by_runs(self, evaluated: Evaluated, partitions: Partitions) -> Matches | None:
        """The matches, if the pattern is one whose runs tell them."""
        found = None if self._runs is None else self._runs.matches(evaluated, partitions, self.expected)
        if found is not None:
            self.expected = len(found) + len(found) // 8, len(found.places) + len(found.places) // 8
        return found

    def _chosen(
        self, found: Matches, evaluated: Evaluated, partitions: Partitions, times: Ints | None, before: Ints
    ) -> Matches:
        """Of all matches each sequence of rows once, with its preferred binding; ``before`` are the next numbers."""
        if not self.query.is_all_matches:
            return found
        if self._bindings is not None:
            return self._bound(self._bindings, evaluated, partitions, times, found)
        return each_once(found, partitions, before)

    def _bound(
        self, program: Program, evaluated: Evaluated, partitions: Partitions, times: Ints | None, found: Matches
    ) -> Matches:
        """Matches with the same rows, and their preferred bindings."""
        which = np.flatnonzero(found.is_match)
        chosen, own = found.chosen(found.is_match), found.partitions[which]
        forced = Partitions(
            partitions.lows[own],
            partitions.highs[own],
            partitions.begins[own],
            np.ones(len(own), np.uint8),
            np.zeros(len(own), np.int64),
            chosen.starts.copy(),
            chosen.numbers.copy(),
            chosen.decided.copy(),
            chosen.offsets,
            chosen.places,
        )
        covered = np.zeros(len(evaluated.rows), np.uint8)
        bound = _Run(self, program, evaluated, forced, times, covered, None, None).matches()
        variables, excluded, of_match = found.variables.copy(), found.excluded.copy(), found.is_match[found.owners]
        variables[of_match], excluded[of_match] = bound.variables, bound.excluded
        return replace(found, variables=variables, excluded=excluded)


class _Run:
    """One run of the kernel over some rows."""

    def __init__(
        self,
        search: Search,
        program: Program,
        evaluated: Evaluated,
        partitions: Partitions,
        times: Ints | None,
        covered: npt.NDArray[np.uint8],
        end_time: int | None,
        room: int | None,
    ) -> None:
        query = search.query
        self._search, self._program, self._evaluated = search, program, evaluated
        self._partitions, self._covered = partitions, covered
        self._times = times if times is not None else np.empty(0, np.int64)
        kinds, masks = evaluated.kinds, evaluated.masks
        can_mark = bool(np.all(kinds <= opcodes.MASK))
        known = np.maximum(partitions.highs - search.conditions.ahead, partitions.lows)
        self._ends = np.where(partitions.closed, partitions.highs, known)
        self._may_begin = self._beginnings(decides=end_time is not None)
        self._peek_first, self._peek_second = program.peeked(kinds != opcodes.TRUE)
        is_next = query.strategy is Strategy.SKIP_TILL_NEXT
        self._continuations = program.continuations if is_next else np.zeros((1, 1), np.int32)
        self._jumps = np.empty((0, 0), np.int32)
        if query.strategy is not Strategy.CONTIGUOUS:
            allowed = self._continuations >= 0 if is_next else np.eye(len(kinds), dtype=np.bool_)
            if allowed.shape[0] <= _MOST_JUMPS:
                self._jumps = _jumps(masks, allowed)
        told = np.zeros(opcodes.PARAMETERS, np.int64)
        told[opcodes.STRATEGY] = _STRATEGIES[query.strategy]
        told[opcodes.IS_ALL] = query.is_all_matches
        told[opcodes.WITHIN] = -1 if query.within is None else query.within
        told[opcodes.SKIP] = _SKIPS[query.skip]
        told[opcodes.ENTRY] = program.entry
        told[opcodes.MOST_ROWS] = query.limits.match_rows
        told[opcodes.MOST_STEPS] = _STEPS_PER_STATE * query.limits.states
        told[opcodes.AHEAD] = search.conditions.ahead
        told[opcodes.CAN_MARK] = can_mark and not (query.is_all_matches and query.strategy is Strategy.SKIP_TILL_ANY)
        told[opcodes.WITH_UNMATCHED] = query.rows is Which.WITH_UNMATCHED
        told[opcodes.WITH_TIMEOUTS] = query.with_timeouts
        told[opcodes.WITH_TIMES] = end_time is not None
        told[opcodes.END_TIME] = end_time or 0
        told[opcodes.IS_FILTERED] = len(self._may_begin) > 0
        told[opcodes.IS_FORCED] = len(partitions.forced_cuts) > 0
        told[opcodes.MARKS] = int((program.marks >= 0).sum())
        told[opcodes.BEHIND] = -1
        if query.frame is not None:
            told[opcodes.IS_SEEKING] = query.frame.is_seeking
            told[opcodes.BEHIND] = search.conditions.behind if query.frame.is_whole else -1
        told[opcodes.STATES] = len(self._continuations) if is_next else 1
        self._told = told
        self._registers = np.zeros(opcodes.REGISTERS, np.int64)
        self._answers = np.zeros(len(kinds), np.uint8)
        self._ways = np.empty((1024, 3), np.int64)
        self._path_rows = np.empty(1024, np.int64)
        self._path_pcs, self._path_variables = np.empty(1024, np.int32), np.empty(1024, np.int32)
        self._path_states = np.empty(1024, np.int32)
        count = len(evaluated.code.starts)
        self._slots, self._float_slots = np.zeros((1024, count), np.int64), np.zeros((1024, count), np.float64)
        self._slots[0], self._float_slots[0] = evaluated.code.starts, evaluated.code.float_starts
        self._stack, self._float_stack = np.zeros(_DEEP, np.int64), np.zeros(_DEEP, np.float64)
        self._nulls = np.zeros(_DEEP, np.uint8)
        self._marks = np.empty(0, np.int32)
        self._found = np.empty((_FOUND, max(search.expected[0], 256)), np.int64)
        self._room = room
        expected = max(search.expected[1], 1024)
        self._found_rows = np.empty(expected if room is None else min(expected, room), np.int64)
        self._found_pcs = np.empty(len(self._found_rows), np.int32)

    def _beginnings(self, *, decides: bool) -> npt.NDArray[np.uint8]:
        """Which rows may be the first of a match by what is known of them; empty if all may.

        By the row behind them as well, where nobody asks how far the search has looked.
        """
        program, query, evaluated = self._program, self._search.query, self._evaluated
        kinds, masks = evaluated.kinds, evaluated.masks
        firsts = [place for place, name in enumerate(program.variables) if name in program.firsts]
        if program.is_nullable or not firsts or not masks.shape[1]:
            return np.empty(0, np.uint8)
        is_contiguous = query.strategy is Strategy.CONTIGUOUS and query.frame is None
        looks_on = is_contiguous and program.least > 1 and not (decides or query.with_timeouts)
        confined = [
            looks_on and all(kinds[each] != opcodes.TRUE for each in program.seconds[place]) for place in firsts
        ]
        if not all(one or kinds[place] != opcodes.TRUE for one, place in zip(confined, firsts, strict=True)):
            return np.empty(0, np.uint8)
        alone: npt.NDArray[np.uint8] = np.bitwise_or.reduce(masks[firsts], axis=0)
        if not any(confined):
            return alone
        found = np.zeros_like(alone)
        for place in firsts:
            behind = np.bitwise_or.reduce(masks[sorted(program.seconds[place])], axis=0)
            found[:-1] |= masks[place, :-1] & behind[1:]
        found[-1] = alone[-1]
        is_open = self._partitions.closed == 0
        ends, highs = self._ends[is_open], self._partitions.highs[is_open]
        for end, high in set(zip(ends.tolist(), highs.tolist(), strict=True)):  # behind an end nothing is known
            found[max(end - 1, 0) : high] = alone[max(end - 1, 0) : high]
        return found

    def matches(self) -> Matches:
        """Run until all is found that can be."""
        while (status := self._called()) != opcodes.DONE:
            self._help(status)
        return self._rest()

    def parts(self) -> Iterator[Matches]:
        """The same, some at a time: all of one first row together."""
        registers = self._registers
        while (status := self._called()) != opcodes.DONE:
            count, rows = int(registers[opcodes.FIRST_MATCH]), int(registers[opcodes.FIRST_ROWS])
            if status in (opcodes.MORE_MATCHES, opcodes.MORE_ROWS) and count and count + rows >= _PART:
                told = self._told_of(self._found[:, :count].copy(), rows)
                yield replace(told, places=told.places.copy())
                self._forget(count, rows)
            else:
                self._help(status)
        yield self._rest()

    def _forget(self, count: int, rows: int) -> None:
        """Take what was told out of what is found."""
        registers = self._registers
        end = int(registers[opcodes.ROWS] + registers[opcodes.OPEN])
        for each in (self._found_rows, self._found_pcs):
            each[: end - rows] = each[rows:end].copy()
        left = int(registers[opcodes.MATCHES]) - count
        self._found[:, :left] = self._found[:, count : count + left].copy()
        self._found[2, :left] -= rows
        for name, told in (
            *((opcodes.MATCHES, count), (opcodes.FIRST_MATCH, count)),
            *((opcodes.ROWS, rows), (opcodes.FIRST_ROWS, rows)),
        ):
            registers[name] -= told

    def _rest(self) -> Matches:
        """What is found."""
        count, rows = int(self._registers[opcodes.MATCHES]), int(self._registers[opcodes.ROWS])
        self._search.expected = count + count // 8, rows + rows // 8
        return self._told_of(self._found[:, :count], rows)

    def _told_of(self, found: Ints, rows: int) -> Matches:
        """Some matches, which have so many rows together."""
        program, pcs = self._program, self._found_pcs[:rows]
        return Matches(
            self._evaluated.rows,
            found[0],
            found[1],
            found[3],
            found[4],
            found[5],
            np.concatenate([[0], found[2]]),
            self._found_rows[:rows],
            program.second.take(pcs),
            program.excluded.take(pcs) if program.excluded.any() else np.zeros(rows, np.bool_),
            self._search.query.strategy is not Strategy.CONTIGUOUS,
        )

    def _called(self) -> int:
        program, evaluated, parts, code = self._program, self._evaluated, self._partitions, self._evaluated.code
        stops = parts.highs if parts.stops is None else parts.stops
        status: int = kernels.search(
            program.operations,
            program.first,
            program.second,
            program.marks,
            self._peek_first,
            self._peek_second,
            self._continuations,
            self._told,
            self._search.skip_to,
            evaluated.kinds,
            evaluated.masks,
            self._jumps,
            self._may_begin,
            code.cuts,
            code.steps,
            code.terms,
            code.sets,
            code.slot_kinds,
            code.slot_sets,
            code.slot_columns,
            code.slot_filters,
            code.integers,
            code.integers_valid,
            code.floats,
            code.floats_valid,
            code.constants,
            code.float_constants,
            parts.lows,
            parts.highs,
            parts.forced_cuts,
            parts.forced_rows,
            stops,
            parts.seen,
            parts.frames,
            parts.begins,
            self._ends,
            parts.closed,
            parts.horizons,
            parts.resumes,
            parts.numbers,
            parts.decisions,
            self._times,
            self._registers,
            self._answers,
            self._ways,
            self._path_rows,
            self._path_pcs,
            self._path_variables,
            self._path_states,
            self._slots,
            self._float_slots,
            self._stack,
            self._float_stack,
            self._nulls,
            self._marks,
            self._covered,
            self._found,
            self._found_rows,
            self._found_pcs,
        )
        return status

    def _help(self, status: int) -> None:
        """Give the kernel what it needs to go on."""
        registers = self._registers
        if status == opcodes.ASK:
            depth, variable = int(registers[opcodes.DEPTH]), int(registers[opcodes.VARIABLE])
            rows = np.append(self._path_rows[:depth].astype(np.int64), registers[opcodes.POSITION])
            variables = np.append(self._path_variables[:depth], np.int32(variable))
            number, partition = int(registers[opcodes.NUMBER]), int(registers[opcodes.PARTITION])
            frame = self._frame(int(registers[opcodes.CURRENT]), partition)
            registers[opcodes.ANSWER] = self._evaluated.answers.of(variable, rows, variables, number, frame)
            registers[opcodes.PHASE] = opcodes.ANSWERED
        elif status == opcodes.MORE_PATH:
            self._path_rows = _doubled(self._path_rows)
            self._path_pcs, self._path_variables = _doubled(self._path_pcs), _doubled(self._path_variables)
            self._path_states = _doubled(self._path_states)
            self._slots, self._float_slots = _doubled(self._slots), _doubled(self._float_slots)
        elif status == opcodes.MORE_STACK:
            limit = self._search.query.limits.states
            if len(self._ways) >= limit + len(self._path_rows):
                raise PatternError(
                    f"found more than {limit:,} ways to come back to in one match; expected fewer: make the pattern's "
                    "conditions more exact, or raise LIMIT n STATES"
                )
            self._ways = _doubled(self._ways)
        elif status == opcodes.MORE_MATCHES:
            self._found = np.ascontiguousarray(_doubled(self._found.T).T)
        elif status == opcodes.MORE_ROWS:
            least = int(registers[opcodes.ANSWER])
            if self._room is not None and least > self._room:
                raise NoRoom
            self._found_rows, self._found_pcs = _doubled(self._found_rows, least), _doubled(self._found_pcs, least)
        elif status == opcodes.MORE_MARKS:
            self._marks = np.empty(int(registers[opcodes.ANSWER]), np.int32)
        elif status == opcodes.INEXACT:
            self._evaluated.without_code()
            self._answers[:] = 2
        else:
            raise self._error(status)

    def _frame(self, row: int, partition: int) -> tuple[int, int] | None:
        """The rows that the match of a row sees; None for all of its partition."""
        parts = self._partitions
        return (row, int(min(parts.frames[row], parts.highs[partition]))) if len(parts.frames) else None

    def _error(self, status: int) -> PatternError:
        query, name = self._search.query, self._search.query.skip_name
        row = int(self._registers[opcodes.BEGIN])
        if status == opcodes.SKIP_MISSING:
            return PatternError(
                f"AFTER MATCH SKIP TO {name}: found a match, of row {row}, in which no row is bound to {name}; "
                "expected one in every match: skip to another variable, or past the last row"
            )
        if status == opcodes.SKIP_NOWHERE:
            return PatternError(
                f"AFTER MATCH SKIP TO {name}: found {name} bound to the first row of a match, row {row}, so that the "
                "search would not go on; expected it behind that: skip to another variable, or to the next row"
            )
        if status == opcodes.TOO_LONG:
            return PatternError(
                f"found a match of more than {query.limits.match_rows:,} rows, or one that would skip more to be one; "
                "expected fewer: add WITHIN, make the conditions more exact, or raise LIMIT n ROWS"
            )
        return PatternError(
            f"found no end of the ways to match the pattern from row {row} on, after {query.limits.states:,} states; "
            "expected fewer: add WITHIN, avoid nested quantifiers, or raise LIMIT n STATES"
        )


def _jumps(masks: npt.NDArray[np.uint8], allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """From each row the next one that one of some variables may accept, for several choices of variables."""
    count = masks.shape[1]
    found = np.full((len(allowed), count), count, np.int32)
    for place, chosen in enumerate(allowed):
        if chosen.any():
            accepted = np.bitwise_or.reduce(masks[chosen], axis=0) != 0
            rows = np.where(accepted, np.arange(count, dtype=np.int32), np.int32(count))
            found[place] = np.minimum.accumulate(rows[::-1])[::-1]
    return found


def _doubled(array: Any, least: int = 0) -> Any:
    grown = np.zeros((max(2 * len(array), least), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
