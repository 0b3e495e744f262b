"""Arrow columns as NumPy arrays that share their memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """The values of a 64-bit column without nulls (integers or timestamps), not copied."""
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.empty(0, np.int64)
    return np.frombuffer(content, np.int64, len(column), column.offset * 8)
