"""Columns made without Arrow's own conversions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelog.model.arrays import boolean_column


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1001])
def test_truth_values(count: int) -> None:
    values = np.random.default_rng(count).random(count) < 0.5
    column = boolean_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values.tolist(), pa.bool_()))


def test_every_other_truth_value() -> None:
    values = np.array([True, True, False, True, False, False])[::2]
    assert boolean_column(values).to_pylist() == [True, False, False]
