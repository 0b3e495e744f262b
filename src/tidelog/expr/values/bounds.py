"""How large results may become: functions such as ``repeat`` make gigabytes of a few characters.

A text that a function makes has at most :data:`MOST_BYTES`, or as many as the longest text it was made of. All results
of one function for a batch have at most :data:`BATCH_BYTES`: where it would be more, the batch is evaluated in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError

MOST_BYTES: Final = 1 << 20
"""Of one text that a function makes."""

BATCH_BYTES: Final = 256 << 20
"""Of all texts that a function makes at once."""

RESULT_BYTES: Final = 1 << 30
"""Of all results for a batch."""

Sizes = npt.NDArray[np.int64]


class TooMuch(Exception):
    """The results for a batch are too large to be made at once."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


def too_long(size: int) -> EvaluationError:
    """The error for a text of so many bytes."""
    return EvaluationError(
        f"a text of {size:,} bytes would be the result; functions make texts of up to {MOST_BYTES:,} bytes, or as long "
        "as the longest one they are made of"
    )


def check_size(size: int, longest: int = 0) -> None:
    """Raise :class:`EvaluationError` if a text must not have so many bytes, made of others the longest of which has."""
    if size > max(MOST_BYTES, longest):
        raise too_long(size)


def check_sizes(sizes: Sizes, longest: Sizes | int = 0) -> None:
    """The same for the rows of a batch; raises :class:`TooMuch` if all are too much together."""
    if not len(sizes):
        return
    total = int(sizes.sum())
    if total <= MOST_BYTES:
        return
    wrong = sizes > np.maximum(longest, MOST_BYTES)
    if wrong.any():
        raise too_long(int(sizes[np.argmax(wrong)]))
    check_total(total)


def check_total(size: int) -> None:
    """Raise :class:`TooMuch` if texts of so many bytes must not be made at once."""
    if size > BATCH_BYTES:
        raise TooMuch(size)


def sizes_of(value: Any, length: int) -> Sizes:
    """The bytes of the text in each row of an array, or of the scalar that stands in all; 0 for NULL."""
    if isinstance(value, pa.Scalar):
        return np.full(length, scalar_size(value))
    found: Sizes = pc.fill_null(pc.binary_length(value), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def scalar_size(value: pa.Scalar) -> int:
    """The bytes of one text; 0 for NULL."""
    return pc.binary_length(value).as_py() or 0


def most_of(sizes: Sequence[Sizes]) -> Sizes:
    """The greatest of several sizes in each row."""
    found: Sizes = np.maximum.reduce(list(sizes))
    return found
