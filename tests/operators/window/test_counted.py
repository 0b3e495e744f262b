"""Windows of so many rows, against windows row by row."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from operators.cases import dicts, rows, shape
from operators.window.models import AGGREGATES, count_windows
from tidelog.model.errors import InputError
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.window.counted import CountWindows


@pytest.mark.parametrize("by", [(), ("k",)], ids=str)
@pytest.mark.parametrize(("size", "slide"), [(1, 1), (5, 5), (5, 1), (7, 3), (3, 8), (40, 7), (100, 1)])
def test_count_windows(size: int, slide: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(20)
    of = shape()
    for count in (0, 1, 70):
        batch = rows(of, dice, count, jitter=6)
        make = partial(CountWindows, of, size, slide, AGGREGATES, by)
        found = OperatorConformance(make).check([batch], dice, lateness=6, rounds=2)
        assert found == count_windows(dicts(in_order(of, batch)), size, slide, by)


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="size of a window"):
        CountWindows(shape(), 0, 1, {})
    with pytest.raises(InputError, match="slide of a window"):
        CountWindows(shape(), 1, 0, {})
