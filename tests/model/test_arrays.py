"""Columns made without Arrow's own conversions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.arrays import boolean_column, distinct


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1001])
def test_truth_values(count: int) -> None:
    values = np.random.default_rng(count).random(count) < 0.5
    column = boolean_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values.tolist(), pa.bool_()))


def test_every_other_truth_value() -> None:
    values = np.array([True, True, False, True, False, False])[::2]
    assert boolean_column(values).to_pylist() == [True, False, False]


@settings(max_examples=scaled(50))
@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=40), st.booleans())
def test_each_once(values: list[int], is_sorted: bool) -> None:
    given_values = np.array(sorted(values) if is_sorted else values, np.int64)
    assert distinct(given_values).tolist() == sorted(set(values))
    assert distinct(given_values[::2]).tolist() == sorted(set(given_values[::2].tolist()))
