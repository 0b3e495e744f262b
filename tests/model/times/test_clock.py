from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidelog.model.errors import TidelogError, TimeError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN, Clock
from tidelog.model.times.interval import Interval

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INTEGER = Clock(pa.int64())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

units = st.sampled_from(sorted(UNITS))
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
naive_datetimes = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
aware_datetimes = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=offsets)


def clock(unit: str, zone: str | None = None) -> Clock:
    return Clock(pa.timestamp(unit, zone))


def exact_seconds(moment: datetime) -> Fraction:
    """By Python's own arithmetic; a naive moment is UTC."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    return Fraction(since // timedelta(microseconds=1), 10**6)


def check_reading(clock: Clock, value: object, seconds: Fraction) -> None:
    """``value`` is the point ``seconds`` after the epoch: bounds round up, instants must be exact."""
    assert clock.unit is not None
    ticks = seconds * UNITS[clock.unit]
    if not INT64_MIN <= math.ceil(ticks) <= INT64_MAX:
        for read in (clock.bound, clock.instant):
            with pytest.raises(TimeError, match=r"range|between"):
                read(value)
        return
    assert clock.bound(value) == math.ceil(ticks)
    if ticks.denominator == 1:
        assert clock.instant(value) == ticks
    else:
        with pytest.raises(TimeError, match="between two"):
            clock.instant(value)


@given(units, naive_datetimes | aware_datetimes, st.sampled_from([None, "UTC", "+00:00"]))
def test_reads_datetimes(unit: str, moment: datetime, zone: str | None) -> None:
    check_reading(clock(unit, zone), moment, exact_seconds(moment))


@given(units, st.dates())
def test_reads_dates_as_midnights(unit: str, day: date) -> None:
    check_reading(clock(unit), day, Fraction((day - date(1970, 1, 1)).days * 86_400))


@given(units, aware_datetimes)
def test_zoned_columns_take_any_zone(unit: str, moment: datetime) -> None:
    check_reading(clock(unit, "Europe/Berlin"), moment, exact_seconds(moment))


def test_a_zone_with_summer_time_is_honoured() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    repeated = datetime(2024, 10, 27, 2, 30, tzinfo=berlin)
    assert clock("s").instant(repeated) == 1_729_989_000
    assert clock("s").instant(repeated.replace(fold=1)) == 1_729_989_000 + 3600


@pytest.mark.parametrize("value", [datetime(2024, 1, 1), date(2024, 1, 1), "2024-01-01", np.datetime64("2024-01-01")])
def test_zoned_columns_refuse_values_without_a_zone(value: object) -> None:
    with pytest.raises(TimeError, match=r"names no time zone.*Europe/Berlin.*'\+01:00'"):
        clock("us", "Europe/Berlin").instant(value)
    assert clock("s", "UTC").instant(value) == clock("s").instant(value) == 1_704_067_200


@given(
    units,
    naive_datetimes,
    st.text("0123456789", max_size=12),
    st.sampled_from("T t"),
    st.sampled_from(["", "Z", "z", "+00:00", "-00:00"])
    | st.from_regex(r"[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?", fullmatch=True),
)
def test_reads_iso_texts(unit: str, moment: datetime, fraction: str, separator: str, zone: str) -> None:
    second = moment.replace(microsecond=0)
    text = second.isoformat(sep=separator) + (f".{fraction}" if fraction else "") + zone
    offset = timedelta(0)
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    seconds = (
        exact_seconds(second)
        - Fraction(offset // timedelta(seconds=1))
        + Fraction(int(fraction or 0), 10 ** len(fraction))
    )
    check_reading(clock(unit), text, seconds)


@given(naive_datetimes)
def test_reads_what_python_prints(moment: datetime) -> None:
    assert clock("us").instant(moment.isoformat()) == clock("us").instant(str(moment)) == clock("us").instant(moment)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("2024-02-29T12", "2024-02-29T12:00:00"),
        ("2024-02-29 12:30", "2024-02-29T12:30:00"),
        ("2024-02-29T12:30:15,5", "2024-02-29T12:30:15.500"),
        ("2024-02-29 12:30:15 +01", "2024-02-29T11:30:15"),
        ("  2024-02-29\n", "2024-02-29"),
    ],
)
def test_reads_shortened_texts(text: str, full: str) -> None:
    assert clock("ms").instant(text) == int(np.datetime64(full, "ms").astype(np.int64))


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2024", "2024-1-1", "20240101", "2024-001", "2024-W01-1", "2024-01-01Z", "2024-01-01T", "12:30"),
        *("2024-01-01T10:30:00.", "2024-01-01T1030", "2024-01-01T10:30+1", "2024-01-01T10:30 CET", "٢٠٢٤-01-01"),
    ],
)
def test_refuses_texts_that_are_not_iso(text: str) -> None:
    with pytest.raises(TimeError, match="no ISO 8601 time; expected a form such as"):
        clock("us").instant(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2023-02-29", "no day of the calendar"),
        ("0000-01-01", "no day of the calendar"),
        ("2024-01-01T24:00", "no time of day"),
        ("2024-06-30T23:59:60Z", "leap seconds"),
        ("2024-01-01T00:00+24:00", "offset between"),
        ("2024-01-01T00:00+01:60", "offset between"),
    ],
)
def test_refuses_points_that_do_not_exist(text: str, reason: str) -> None:
    with pytest.raises(TimeError, match=reason):
        clock("us").instant(text)


NUMPY_UNITS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1} | {
    name: Fraction(1, 1000**power) for power, name in enumerate(["ms", "us", "ns", "ps", "fs", "as"], start=1)
}


@given(units, st.integers(-(2**62), 2**62), st.sampled_from(sorted(NUMPY_UNITS)), st.integers(1, 9))
def test_reads_numpy_datetimes(unit: str, count: int, numpy_unit: str, multiple: int) -> None:
    value = np.datetime64(count, (numpy_unit, multiple))
    check_reading(clock(unit), value, Fraction(count * multiple * NUMPY_UNITS[numpy_unit]))


@pytest.mark.parametrize("text", ["2024", "2024-03", "1969-12"])
def test_reads_numpy_years_and_months(text: str) -> None:
    first_day = date.fromisoformat((text + "-01")[:7] + "-01")
    assert clock("s").instant(np.datetime64(text)) == (first_day - date(1970, 1, 1)).days * 86_400


@pytest.mark.parametrize("unit", ["Y", "M"])
def test_refuses_numpy_years_beyond_the_calendar(unit: str) -> None:
    for count in (-(2**62), -(10**5), 10**6, 2**62):
        with pytest.raises(TimeError, match="expected a year from 1 to 9999"):
            clock("s").instant(np.datetime64(count, unit))


@given(st.integers(-(2**62), 2**62), units)
def test_reads_pandas_timestamps_to_the_nanosecond(nanoseconds: int, unit: str) -> None:
    check_reading(clock(unit), pd.Timestamp(nanoseconds), Fraction(nanoseconds, 10**9))
    berlin = pd.Timestamp(nanoseconds, tz="UTC").tz_convert("Europe/Berlin")
    check_reading(clock(unit, "America/New_York"), berlin, Fraction(nanoseconds, 10**9))


@given(units, st.integers(-(2**60), 2**60), units)
def test_reads_arrow_scalars(unit: str, ticks: int, scalar_unit: str) -> None:
    check_reading(clock(unit), pa.scalar(ticks, pa.timestamp(scalar_unit)), Fraction(ticks, UNITS[scalar_unit]))
    assert clock(unit).instant(pa.scalar(ticks)) == ticks


@given(st.integers(INT64_MIN, INT64_MAX), st.sampled_from([pa.int64(), pa.timestamp("s"), pa.timestamp("ns", "UTC")]))
def test_integers_are_ticks(ticks: int, type_: pa.DataType) -> None:
    assert Clock(type_).instant(ticks) == Clock(type_).bound(np.int64(ticks)) == ticks


@pytest.mark.parametrize("ticks", [INT64_MIN - 1, INT64_MAX + 1])
def test_integers_beyond_64_bits_are_refused(ticks: int) -> None:
    for each in (INTEGER, clock("us")):
        with pytest.raises(TimeError, match=r"outside the range of .* None means unbounded"):
            each.bound(ticks)


def test_the_range_of_a_clock_is_told() -> None:
    with pytest.raises(TimeError, match=r"nanoseconds, 1677-09-21T00:12:43.145224192 to 2262-04-11T23:47:16.854775807"):
        clock("ns").instant(datetime(2300, 1, 1))
    # Rounding up may cross the end.
    with pytest.raises(TimeError, match="outside the range"):
        clock("ns").bound("2262-04-11T23:47:16.8547758071")


@pytest.mark.parametrize(
    "value", [1.5, 10.0, True, np.bool_(True), b"2024-01-01", time(12), timedelta(1), [1], np.timedelta64(1, "s")]
)
@pytest.mark.parametrize("clock", [clock("us"), INTEGER])
def test_refuses_other_values(clock: Clock, value: object) -> None:
    with pytest.raises(TimeError, match=type(value).__name__):
        clock.instant(value)


@pytest.mark.parametrize("value", [pd.NaT, np.datetime64("NaT", "us"), pa.scalar(None, pa.timestamp("us")), pd.NA])
def test_refuses_missing_values(value: object) -> None:
    with pytest.raises(TimeError, match="no point in time"):
        clock("us").instant(value)


def test_none_is_unbounded_but_no_instant() -> None:
    assert clock("us").bound(None) is None
    assert clock("us").interval(None, None) == Interval(None, None)
    with pytest.raises(TimeError, match="None"):
        clock("us").instant(None)


def test_integer_columns_have_no_calendar() -> None:
    assert INTEGER.instant("-42") == -42
    for value in (datetime(2024, 1, 1), "2024-01-01", np.datetime64("2024-01-01")):
        with pytest.raises(TimeError, match="time column is int64 and tells no unit"):
            INTEGER.instant(value)


@given(st.fractions(-100, 100), st.fractions(-100, 100), st.integers(-101, 101))
def test_a_finer_range_selects_the_same_seconds(start: Fraction, end: Fraction, t: int) -> None:
    # Written in nanoseconds, evaluated on a clock of seconds: the ticks inside must be those truly inside.
    start, end = (Fraction(round(each * 10**9), 10**9) for each in (start, end))
    bounds = [np.datetime64(int(each * 10**9), "ns") for each in (start, end)]
    assert clock("s").interval(*bounds).contains(t) == (start <= t < end)


def test_a_reversed_range_is_empty() -> None:
    assert clock("s").interval(20, 10).is_empty


@given(units, st.integers(INT64_MIN, INT64_MAX), st.sampled_from([None, "UTC", "Europe/Berlin"]))
def test_formatted_instants_are_read_back(unit: str, ticks: int, zone: str | None) -> None:
    this = clock(unit, zone)
    text = this.format(ticks)
    assume("since" not in text)
    assert this.instant(text) == ticks


@given(st.integers(INT64_MIN + 1, INT64_MAX))  # the smallest integer is NumPy's NaT
def test_formats_like_numpy(ticks: int) -> None:
    expected = str(np.datetime64(ticks, "ns"))
    assert clock("ns").format(ticks) == expected.removesuffix("." + "0" * 9)


@pytest.mark.parametrize(
    ("type_", "ticks", "text"),
    [
        (pa.int64(), 42, "42"),
        (pa.timestamp("s"), 0, "1970-01-01T00:00:00"),
        (pa.timestamp("ms", "Asia/Tokyo"), -1, "1969-12-31T23:59:59.999Z"),
        (pa.timestamp("s"), 2**62, "4611686018427387904 seconds since 1970-01-01"),
        (pa.timestamp("us"), INT64_MIN, "-9223372036854775808 microseconds since 1970-01-01"),
    ],
)
def test_formats(type_: pa.DataType, ticks: int, text: str) -> None:
    assert Clock(type_).format(ticks) == text


def test_errors_can_be_caught_as_value_errors() -> None:
    for kind in (ValueError, TidelogError):
        with pytest.raises(kind):
            clock("us").instant("tomorrow")
