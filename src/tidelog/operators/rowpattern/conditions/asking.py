"""Conditions that no kernel holds, answered exactly, one question of the search at a time.

An answer takes milliseconds, most of which do not depend on how many there are. So what is likely to be asked next is
answered too, and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import EvaluationError
from tidelog.model.arrays import batch_of
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.errors import in_words
from tidelog.operators.rowpattern.matches import Matches
from tidelog.operators.rowpattern.syntax import Strategy

if TYPE_CHECKING:
    from tidelog.operators.rowpattern.conditions.conditions import Evaluated

_MOST_GUESSES: Final = 32
_MOST_ROWS: Final = 1 << 13
"""How many rows all guesses may have."""
_MOST_BYTES: Final = 1 << 24
"""How much is kept."""

_Bindings: TypeAlias = npt.NDArray[np.int32]
_Frame: TypeAlias = tuple[int, int] | None
_Key: TypeAlias = tuple[int, int, _Frame, bytes, bytes]


class Answers:
    """Whether the last of some rows may be bound to a variable, by conditions over one run of rows."""

    def __init__(self, evaluated: Evaluated) -> None:
        self._evaluated = evaluated
        self._known: dict[_Key, bool] = {}
        self._bytes = 0

    def of(self, variable: int, rows: Ints, variables: _Bindings, number: int, frame: _Frame) -> bool:
        """Whether the last row may be, which ``variables`` say it is. The rows before it are those of the match.

        ``frame`` are the rows that the match sees, if these are not all of its partition.
        """
        key = (variable, number, frame, rows.tobytes(), variables.tobytes())
        found = self._known.get(key)
        if found is None:
            # Searches in ranges, and for given rows, number what they look at in another way.
            partition = int(np.searchsorted(self._evaluated.rows.cuts, rows[0], "right")) - 1
            self._find(variable, rows, variables, number, partition, frame)
            found = self._known[key]
        return found

    def _find(
        self, variable: int, rows: Ints, variables: _Bindings, number: int, partition: int, frame: _Frame
    ) -> None:
        asked = [(rows, variables)]
        guesses = self._guessed(variable, rows, variables, partition, frame)
        try:
            found = self._evaluate(variable, asked + guesses, number, partition, frame)
        except EvaluationError:  # of one that perhaps nobody asks for
            guesses = []
            found = self._evaluate(variable, asked, number, partition, frame)
        if self._bytes > _MOST_BYTES:
            self._known, self._bytes = {}, 0
        for (own, bound), holds in zip(asked + guesses, found.tolist(), strict=True):
            self._known[variable, number, frame, own.tobytes(), bound.tobytes()] = holds
            self._bytes += own.nbytes + bound.nbytes + 200

    def _guessed(
        self, variable: int, rows: Ints, variables: _Bindings, partition: int, frame: _Frame
    ) -> list[tuple[Ints, _Bindings]]:
        """What will be asked if the row is taken, and if it is not."""
        last, evaluated = int(rows[-1]), self._evaluated
        end = int(evaluated.rows.cuts[partition + 1]) if frame is None else frame[1]
        count = min(_MOST_GUESSES, _MOST_ROWS // (len(rows) + _MOST_GUESSES), end - last - 1)
        if count <= 0:
            return []
        fits = evaluated.masks[variable, last + 1 : last + 1 + count] != 0
        is_contiguous = evaluated.conditions.query.strategy is Strategy.CONTIGUOUS
        more = count if fits.all() or not is_contiguous else int(np.argmin(fits))
        next_rows = last + 1 + (np.arange(more) if is_contiguous else np.flatnonzero(fits))
        found = [
            (np.append(rows, next_rows[:taken]), np.append(variables, np.full(taken, variable, np.int32)))
            for taken in range(1, len(next_rows) + 1)
        ]
        if is_contiguous and frame is None:  # the search goes on with the next rows
            found += [(rows + 1 + int(step), variables) for step in np.flatnonzero(fits)]
        elif not is_contiguous:  # the row is left out
            found += [(np.append(rows[:-1], row), variables) for row in next_rows]
        return found

    def _evaluate(
        self,
        variable: int,
        asked: list[tuple[Ints, _Bindings]],
        number: int,
        partition: int,
        frame: _Frame,
    ) -> npt.NDArray[np.bool_]:
        evaluated, count = self._evaluated, len(asked)
        rest, condition = evaluated.rests[variable], evaluated.conditions.each[variable]
        assert rest is not None
        assert condition is not None
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows, _ in asked])]).astype(np.int64)
        none = np.zeros(count, np.int64)
        several = Matches(
            evaluated.rows,
            np.full(count, partition),
            np.array([rows[0] for rows, _ in asked]),
            none,
            np.full(count, number),
            none,
            offsets,
            np.concatenate([rows for rows, _ in asked]),
            np.concatenate([bound for _, bound in asked]),
            np.zeros(offsets[-1], np.bool_),
            evaluated.conditions.query.strategy is not Strategy.CONTIGUOUS,
            None if frame is None else (np.full(count, frame[0]), np.full(count, frame[1])),
        )
        columns, fields = [], []
        for name in rest.columns:
            place = int(name[1:])
            value = evaluated.conditions.values.of_term(condition.expression.terms[place], several)
            type_ = condition.expression.types[place]
            columns.append(value if value.type == type_ else value.cast(type_))
            fields.append(pa.field(name, type_))
        try:
            return rest.mask(batch_of(columns, pa.schema(fields), count))
        except EvaluationError as error:
            raise in_words(error, condition.expression) from None
