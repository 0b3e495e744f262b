"""Numbers of the rows of a log, in one piece of memory that has room for more."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

_LEAST: Final = 1024


class Series:
    """Some numbers for each row: rows go in behind and out in front, each copied a few times at the most.

    Whoever has looked at them looks again after others were put behind: memory is used again.
    """

    def __init__(self, dtype: npt.DTypeLike, height: int = 1) -> None:
        """``height`` is how many numbers there are for each row."""
        self.memory: npt.NDArray[Any] = np.empty((height, _LEAST), dtype)
        """All numbers, and others before and behind them: one line for each number of a row."""
        self.start = 0
        """Where the first row is in it."""
        self._stop = 0

    def __len__(self) -> int:
        return self._stop - self.start

    @property
    def line(self) -> npt.NDArray[Any]:
        """The first number of each row."""
        return self.memory[0, self.start : self._stop]

    @property
    def lines(self) -> npt.NDArray[Any]:
        """All numbers of each row."""
        return self.memory[:, self.start : self._stop]

    def append(self, numbers: npt.NDArray[Any]) -> None:
        """Put rows behind the others: one line, or as many as there are."""
        count = numbers.shape[-1]
        if self._stop + count > self.memory.shape[1]:
            size = len(self)
            memory = self.memory
            if size > self.start or size + count > memory.shape[1]:
                memory = np.empty((len(memory), max(2 * (size + count), _LEAST)), memory.dtype)
            memory[:, :size] = self.lines
            self.memory, self.start, self._stop = memory, 0, size
        self.memory[:, self._stop : self._stop + count] = numbers
        self._stop += count

    def drop(self, count: int) -> None:
        """Forget so many of the first rows."""
        self.start += count
