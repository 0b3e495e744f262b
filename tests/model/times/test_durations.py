from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import INT64_MAX, Clock
from tidelog.model.times.durations import read_duration

SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1}
SECONDS |= {"ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
NANOSECONDS, MILLISECONDS, INTEGER = Clock(pa.timestamp("ns")), Clock(pa.timestamp("ms")), Clock(pa.int64())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("250ms", Fraction(1, 4)),
        ("1d", 86_400),
        ("2w", 1_209_600),
        ("10us", Fraction(1, 100_000)),
        ("10μs", Fraction(1, 100_000)),
        ("5ns", Fraction(1, 200_000_000)),
        ("0s", 0),
        (" 90 min ", 5400),
        ("+1s", 1),
    ],
)
def test_reads_texts(text: str, seconds: Fraction) -> None:
    assert read_duration(text) == seconds


parts = st.tuples(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(SECONDS)), st.sampled_from(["", " "]))


@given(st.lists(parts, min_size=1, max_size=4))
def test_parts_of_a_text_add_up(found: list[tuple[object, str, str]]) -> None:
    text = "".join(f"{number}{unit}{space}" for number, unit, space in found)
    assert read_duration(text) == sum(Fraction(str(number)) * SECONDS[unit] for number, unit, _ in found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "m",
        "5 minutes",
        "5mo",
        "1y",
        "1M",
        "5S",
        "1h30",
        "1h,30m",
        "h1",
        "1e3s",
        ".5s",
        "5.s",
        "--5s",
        "1h-5m",
        "٥m",
    ],
)
def test_refuses_other_texts(text: str) -> None:
    with pytest.raises(TimeError, match="no duration; expected numbers with units, such as '250ms'"):
        read_duration(text)


@given(st.timedeltas())
def test_reads_timedeltas(length: timedelta) -> None:
    assert read_duration(length) == Fraction(length // timedelta(microseconds=1), 10**6)


@given(st.integers(-(2**62), 2**62))
def test_reads_pandas_timedeltas_to_the_nanosecond(nanoseconds: int) -> None:
    assert read_duration(pd.Timedelta(nanoseconds, "ns")) == Fraction(nanoseconds, 10**9)


@given(st.integers(-(2**62), 2**62), st.sampled_from(["W", "D", "h", "m", "s", "ms", "us", "ns"]), st.integers(1, 5))
def test_reads_numpy_timedeltas(count: int, unit: str, multiple: int) -> None:
    assert read_duration(np.timedelta64(count, (unit, multiple))) == count * multiple * Fraction(SECONDS[unit.lower()])


def test_reads_arrow_durations() -> None:
    assert read_duration(pa.scalar(1500, pa.duration("ms"))) == Fraction(3, 2)


@pytest.mark.parametrize("value", [np.timedelta64(1, "M"), np.timedelta64(1, "Y")])
def test_refuses_units_without_a_fixed_length(value: object) -> None:
    with pytest.raises(TimeError, match="no fixed length"):
        read_duration(value)


@pytest.mark.parametrize(
    "value", [None, pd.NaT, np.timedelta64("NaT", "us"), 1.5, datetime(2024, 1, 1), 5, b"5m", True]
)
def test_refuses_other_values(value: object) -> None:
    with pytest.raises(TimeError, match="no duration"):
        read_duration(value)


def test_a_clock_counts_its_ticks() -> None:
    assert NANOSECONDS.duration("1h30m") == 5400 * 10**9
    assert MILLISECONDS.duration(timedelta(seconds=2)) == 2000
    assert MILLISECONDS.duration(7) == MILLISECONDS.duration(np.int8(7)) == 7
    assert MILLISECONDS.duration(np.timedelta64(7, "s")) == 7000
    assert INTEGER.duration(7) == INTEGER.duration("7") == 7


def test_parts_of_a_tick_are_refused() -> None:
    with pytest.raises(
        TimeError, match="not a whole number of milliseconds; expected a multiple of the stream's unit, 1ms"
    ):
        MILLISECONDS.duration("1.0005s")


def test_lengths_must_not_be_negative_and_may_have_to_be_positive() -> None:
    assert NANOSECONDS.duration("0s") == 0
    for value in (-1, "-5m", timedelta(-1)):
        with pytest.raises(TimeError, match="of at least zero"):
            NANOSECONDS.duration(value)
    for value in (0, "0s", -1):
        with pytest.raises(TimeError, match="longer than zero"):
            NANOSECONDS.duration(value, positive=True)


def test_lengths_beyond_63_bits_are_refused() -> None:
    assert INTEGER.duration(INT64_MAX) == INT64_MAX
    for each, value in ((INTEGER, INT64_MAX + 1), (NANOSECONDS, "20000w")):
        with pytest.raises(TimeError, match="expected at most"):
            each.duration(value)


@pytest.mark.parametrize("value", ["5m", timedelta(1), 1.5, True, None])
def test_integer_columns_know_no_units(value: object) -> None:
    with pytest.raises(TimeError, match="tells no unit"):
        INTEGER.duration(value)


def test_a_number_without_a_unit_is_no_text() -> None:
    with pytest.raises(TimeError, match="expected numbers with units"):
        NANOSECONDS.duration("5")
