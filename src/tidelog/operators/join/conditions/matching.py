"""Running programs for rows of two logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.operators.base import Ints
from tidelog.operators.columns.series import Series
from tidelog.operators.join.conditions import kernels
from tidelog.operators.join.conditions.program import LEFT, RIGHT, Code, Program, values_of

_MASK = (1 << kernels.PLACE_BITS) - 1

Mask = npt.NDArray[np.bool_]


class Matcher:
    """A program, and what it reads of the rows of both logs."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._numbers = [Series(program.dtype, len(program.leaves[side])) for side in (LEFT, RIGHT)]
        self._flags = [Series(np.uint8, len(program.valid[side])) for side in (LEFT, RIGHT)]
        name = {"float64": "f64", "float32": "f32", "int64": "i64"}[program.dtype.name]
        self._match = f"match_{name}"
        self._check = f"check_{name}"

    def append(self, side: int, batch: pa.RecordBatch) -> None:
        """Rows have been put behind those of a log."""
        program = self._program
        numbers = np.empty((len(program.leaves[side]), batch.num_rows), program.dtype)
        for line, leaf in zip(numbers, program.leaves[side], strict=True):
            line[:] = values_of(leaf, batch, program.dtype)
        flags = np.ones((len(program.valid[side]), batch.num_rows), np.uint8)
        for line, names in zip(flags, program.valid[side], strict=True):
            for name in names:
                column = batch.column(name)
                if column.null_count:
                    line &= np.asarray(column.is_valid()).view(np.uint8)
        self._numbers[side].append(numbers)
        self._flags[side].append(flags)

    def drop(self, side: int, count: int) -> None:
        """Rows are gone from the front of a log."""
        self._numbers[side].drop(count)
        self._flags[side].drop(count)

    def match(self, side: int, rows: Ints, firsts: Ints, lasts: Ints, numbers: Ints) -> Ints | None:
        """Pairs of arriving rows and some of their partners for which the program holds; None for a fault.

        ``rows`` are places in the log of a side, those from ``firsts`` to ``lasts`` are in the other one. Pairs are
        one number each: see :func:`unpaired`.
        """
        code, other = self._program.arriving[side], 1 - side
        columns, flags = self._numbers[other], self._flags[other]
        own = np.empty((len(rows), len(code.constants)), self._program.dtype)
        own[:] = code.constants
        leaves = self._numbers[side]
        own[:, : len(leaves.memory)] = leaves.memory[:, rows + leaves.start].T
        truths = np.empty((len(rows), code.truths), np.uint8)
        own_flags = self._flags[side]
        truths[:, : len(own_flags.memory)] = own_flags.memory[:, rows + own_flags.start].T
        vectors, made, words = _room(code, self._program.dtype)
        found = np.empty(int((lasts - firsts).sum()), np.int64)
        start = columns.start
        assert flags.start == start
        size = getattr(kernels, self._match)(
            columns.memory,
            flags.memory,
            own,
            truths,
            firsts + start,
            lasts + start,
            numbers,
            code.uniform,
            code.lines,
            code.result,
            vectors,
            made,
            words,
            found,
        )
        return None if size == kernels.FAULT else found[:size] - start

    def check(self, left: Ints, right: Ints) -> Mask | None:
        """For which pairs the program holds; None for a fault."""
        code = self._program.pairs
        numbers, flags = (
            np.concatenate(
                [np.take(each.lines, rows, axis=1) for each, rows in zip(columns, (left, right), strict=True)]
            )
            for columns in (self._numbers, self._flags)
        )
        vectors, made, _ = _room(code, self._program.dtype)
        truth = np.empty(len(left), np.uint8)
        truths = np.zeros(code.truths, np.uint8)
        fault = getattr(kernels, self._check)(
            numbers, flags, code.constants.copy(), truths, code.lines, code.result, vectors, made, truth
        )
        return None if fault else truth.view(np.bool_)


def unpaired(pairs: Ints) -> tuple[Ints, Ints]:
    """The numbers of arriving rows and the places of their partners."""
    return pairs >> kernels.PLACE_BITS, pairs & _MASK


def _room(code: Code, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    flags = np.empty((code.flags, kernels.BLOCK), np.uint8)
    return np.empty((code.vectors, kernels.BLOCK), dtype), flags, flags.view(np.uint64)
