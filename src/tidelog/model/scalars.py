"""Single values on their way out, as Python's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

_NO_TIME: Final = -(2**63)
"""What NumPy and pandas take for no time."""


def python_value(scalar: pa.Scalar) -> Any:
    """What users get for a value: Python's own, or a ``numpy.datetime64`` for times and dates that Python has none for.

    These are outside the years 1 to 9999. Every call that takes a time takes that too. The first of all times, which
    NumPy has none for either, is an int of ticks.
    """
    if isinstance(scalar, pa.TimestampScalar) and scalar.value == _NO_TIME:
        return _NO_TIME
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.TimestampScalar):
            return np.datetime64(scalar.value, scalar.type.unit)
        if isinstance(scalar, pa.Date32Scalar):
            return np.datetime64(scalar.value, "D")
        if isinstance(scalar, pa.Date64Scalar):
            return np.datetime64(scalar.value, "ms")
        raise
