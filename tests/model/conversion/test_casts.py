"""Casts against exact arithmetic: every pair of types, values on and around every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.conversion import casts
from tidelog.model.conversion.casts import cast, first_invalid
from tidelog.model.conversion.families import CONVERTIBLE, Family, refusal
from tidelog.model.conversion.misfit import Misfit

INTEGERS = {
    **{pa.type_for_alias(f"int{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{pa.type_for_alias(f"uint{bits}"): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(38, 19), pa.decimal128(3, 3)]
WIDE_DECIMALS = [pa.decimal32(6, 2), pa.decimal64(15, 4), pa.decimal256(50, 5), pa.decimal256(76, 20)]

EDGES = sorted(
    {
        sign * (2**power + step)
        for power in (7, 8, 11, 15, 16, 24, 31, 32, 53, 54, 62, 63, 64)
        for step in (-1, 0, 1)
        for sign in (-1, 1)
    }
    | {0, 1, -1, 5, 999, 1000, 10**5, 2**54 + 2}
)
FRACTIONS = [
    Fraction(1, 2),
    Fraction(-1, 4),
    Fraction(1, 100),
    Fraction(12345, 1000),
    Fraction(1, 1000),
    Fraction(3, 2**30),
    2 + Fraction(1, 2**40),
]


def holds(type_: pa.DataType, number: Fraction) -> bool:
    """Whether a numeric type has this very number."""
    if type_ in INTEGERS:
        return number.denominator == 1 and INTEGERS[type_][0] <= number <= INTEGERS[type_][1]
    if type_ in FLOATS:
        with np.errstate(over="ignore"):
            rounded = float(FLOATS[type_](float(number)))
        return math.isfinite(rounded) and Fraction(rounded) == number
    unscaled = number * 10**type_.scale
    return unscaled.denominator == 1 and abs(unscaled) < 10**type_.precision


def exact(value: Any) -> Fraction | None:
    return None if value is None else Fraction(value)


def array_of(type_: pa.DataType, numbers: list[Fraction | None]) -> pa.Array:
    if type_ in INTEGERS:
        return pa.array([None if n is None else int(n) for n in numbers], type_)
    if type_ in FLOATS:
        return pa.array([None if n is None else FLOATS[type_](float(n)) for n in numbers], type_)
    return pa.array([None if n is None else Decimal(n.numerator) / Decimal(n.denominator) for n in numbers], type_)


def sources() -> list[pa.DataType]:
    return [*INTEGERS, *FLOATS, *DECIMALS, *WIDE_DECIMALS]


def targets() -> list[pa.DataType]:
    return [*INTEGERS, pa.float32(), pa.float64(), *DECIMALS]


@pytest.mark.parametrize("source", sources(), ids=str)
@pytest.mark.parametrize("target", targets(), ids=str)
def test_numbers_stay_the_same_or_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    if refusal(source, target):
        return
    numbers = [Fraction(n) for n in EDGES if holds(source, Fraction(n))] + [n for n in FRACTIONS if holds(source, n)]
    fitting = [n for n in numbers if holds(target, n)]
    assert [exact(value) for value in cast(array_of(source, [*fitting, None]), target).to_pylist()] == [*fitting, None]
    for number in numbers:
        if not holds(target, number):
            with pytest.raises(Misfit, match="found") as caught:
                cast(array_of(source, [None, Fraction(0), number, number]), target)
            assert caught.value.row == 2


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_slices_and_garbage_under_nulls_do_not_matter(source: pa.DataType) -> None:
    low, high = INTEGERS[source]
    values = np.array([high, low, 1, high, 2], source.to_pandas_dtype())
    array = pa.array(values, source, mask=np.array([False, True, False, True, False])).slice(1)
    for target in targets():
        if not holds(target, Fraction(2)):
            continue
        assert [exact(v) for v in cast(array, target).to_pylist()] == [None, 1, None, 2]


def test_floats_that_are_no_numbers_stay_in_floats_only() -> None:
    specials = [math.inf, -math.inf, math.nan]
    for source in FLOATS:
        for target in (pa.float32(), pa.float64()):
            result = cast(pa.array([FLOATS[source](x) for x in specials], source), target).to_pylist()
            assert result[:2] == specials[:2]
            assert math.isnan(result[2])
        for special in specials:
            with pytest.raises(Misfit, match=str(special)):
                cast(pa.array([FLOATS[source](special)], source), pa.int64())


def test_nan_in_integers_has_a_hint() -> None:
    with pytest.raises(Misfit, match=r"nan.*null for missing values"):
        cast(pa.array([1.0, math.nan]), pa.int64())


ALLOWED = {
    ("bool", "bool"),
    *(("integer", to) for to in ("integer", "float", "decimal", "timestamp")),
    *(("float", to) for to in ("float", "integer")),
    ("decimal", "decimal"),
    *(("timestamp", to) for to in ("timestamp", "date")),
    *(("date", to) for to in ("timestamp", "date")),
    ("string", "string"),
    ("binary", "binary"),
}
SAMPLES = {
    "bool": [pa.bool_()],
    "integer": list(INTEGERS),
    "float": [pa.float16(), pa.float32(), pa.float64()],
    "decimal": [pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(9, 2)],
    "timestamp": [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", "UTC")],
    "date": [pa.date32(), pa.date64()],
    "string": [pa.string(), pa.large_string(), pa.string_view()],
    "binary": [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)],
    "other": [
        pa.time32("s"),
        pa.duration("s"),
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.uuid(),
        pa.month_day_nano_interval(),
    ],
}


@pytest.mark.parametrize("source_family", SAMPLES)
def test_families_decide_what_is_convertible(source_family: str) -> None:
    for target_family, target_types in SAMPLES.items():
        for source in SAMPLES[source_family]:
            for target in target_types:
                if source == target or target_family == "other":
                    continue
                reason = refusal(source, target)
                zoned_to_date = target_family == "date" and getattr(source, "tz", None) is not None
                assert (reason is None) == ((source_family, target_family) in ALLOWED and not zoned_to_date), (
                    source,
                    target,
                )
                if pa.types.is_primitive(source) and not pa.types.is_duration(source):
                    assert (refusal(pa.dictionary(pa.int8(), source), target) is None) == (reason is None)
                assert refusal(pa.null(), target) is None


def test_every_convertible_pair_has_a_cast() -> None:
    assert set(casts._CASTS) | {(Family.BOOL, Family.BOOL)} == CONVERTIBLE


def test_refusals_advise() -> None:
    assert "found type timestamp[us], expected int64; cast it to int64" in str(refusal(pa.timestamp("us"), pa.int64()))
    assert "no column can hold such values" in str(refusal(pa.list_(pa.int8()), pa.int64()))
    assert "declare the column with the type found" in str(refusal(pa.bool_(), pa.int64()))


# Time. The oracle counts in nanoseconds, in Python integers.

TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
INT64 = range(-(2**63), 2**63)
INT32 = range(-(2**31), 2**31)


@given(st.data(), st.sampled_from(sorted(TICKS)), st.sampled_from(sorted(TICKS)))
def test_units_of_time_stay_exact_or_are_refused(data: st.DataObject, source: str, target: str) -> None:
    step = st.sampled_from([1, 1000, 10**6, 10**9])
    limit = 2**63 - 1
    near = st.integers(-3, 3).map(lambda n: limit // (TICKS[source] // TICKS[target] or 1) + n)
    ticks = data.draw(
        st.lists(
            st.none()
            | st.tuples(st.integers(-(10**9), 10**9), step).map(math.prod)
            | near.filter(INT64.__contains__)
            | near.map(lambda n: -n).filter(INT64.__contains__),
            min_size=1,
            max_size=4,
        )
    )
    moments = [None if t is None else Fraction(t * TICKS[source], TICKS[target]) for t in ticks]
    bad = [m is not None and (m.denominator != 1 or int(m) not in INT64) for m in moments]
    array = pa.array(ticks, pa.timestamp(source))
    if any(bad):
        with pytest.raises(Misfit) as caught:
            cast(array, pa.timestamp(target))
        # A step to a coarser unit cannot overflow, one to a finer unit cannot lose: the first bad row is the one.
        assert caught.value.row == bad.index(True)
    else:
        assert cast(array, pa.timestamp(target)).cast(pa.int64()).to_pylist() == moments


@pytest.mark.parametrize(
    ("source", "target", "ticks", "reason"),
    [
        ("us", "s", 1_500_000, r"found 1970-01-01T00:00:01.500000, which is finer than timestamp\[s\] can tell"),
        ("s", "ns", 10**10, r"found 2286-11-20T17:46:40, outside the range of timestamp\[ns\]"),
    ],
)
def test_times_are_named_readably(source: str, target: str, ticks: int, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        cast(pa.array([ticks], pa.timestamp(source)), pa.timestamp(target))


def test_zones_are_labels_of_instants() -> None:
    array = pa.array([1, None], pa.timestamp("us", "Asia/Tokyo"))
    for target in (pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")):
        assert refusal(array.type, target) is None
        result = cast(array, target)
        assert result.type == target
        assert result.cast(pa.int64()).to_pylist() == [1, None]
        assert result.buffers()[1].address == array.buffers()[1].address


def test_times_without_a_zone_enter_utc_only() -> None:
    for source in (pa.timestamp("us"), pa.date32(), pa.dictionary(pa.int8(), pa.timestamp("us"))):
        assert refusal(source, pa.timestamp("us", "UTC")) is None
        assert "assume_timezone" in str(refusal(source, pa.timestamp("us", "Europe/Berlin")))
    assert refusal(pa.int32(), pa.timestamp("us", "Europe/Berlin")) is None
    assert cast(pa.array([7], pa.timestamp("us")), pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == [7]


@given(
    st.lists(st.none() | st.dates(), min_size=1),
    st.sampled_from([pa.date32(), pa.date64()]),
    st.sampled_from(sorted(TICKS)),
)
def test_dates_are_midnights_and_back(days: list[date | None], type_: pa.DataType, unit: str) -> None:
    counts = [None if d is None else (d - date(1970, 1, 1)).days * DAY // TICKS[unit] for d in days]
    array = pa.array(days, type_)
    if any(c is not None and c not in INT64 for c in counts):
        with pytest.raises(Misfit, match="outside the range"):
            cast(array, pa.timestamp(unit))
        return
    midnights = cast(array, pa.timestamp(unit))
    assert midnights.cast(pa.int64()).to_pylist() == counts
    for back in (pa.date32(), pa.date64()):
        assert cast(midnights, back).to_pylist() == days
        assert cast(array, back).to_pylist() == days


@given(st.datetimes(), st.sampled_from([pa.date32(), pa.date64()]))
def test_times_of_day_do_not_become_dates(moment: datetime, target: pa.DataType) -> None:
    array = pa.array([None, moment], pa.timestamp("us"))
    if moment == datetime(moment.year, moment.month, moment.day):
        assert cast(array, target).to_pylist() == [None, moment.date()]
    else:
        with pytest.raises(Misfit, match="not the start of a day") as caught:
            cast(array, target)
        assert caught.value.row == 1


@pytest.mark.parametrize("days", [-(2**31) - 1, 2**31])
def test_days_beyond_32_bits_do_not_become_dates(days: int) -> None:
    for array in (pa.array([days * 86_400], pa.timestamp("s")), pa.array([days * 86_400_000]).view(pa.date64())):
        with pytest.raises(Misfit, match="not the start of a day"):
            cast(array, pa.date32())


def test_date64_with_a_time_of_day_is_refused() -> None:
    with pytest.raises(Misfit, match=r"1970-01-01T00:00:00\.005"):
        cast(pa.array([5]).view(pa.date64()), pa.date32())


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_integers_count_the_unit_of_a_timestamp(ticks: list[int | None]) -> None:
    array = pa.array(ticks, pa.int64())
    result = cast(array, pa.timestamp("ms", "Asia/Tokyo"))
    assert result.cast(pa.int64()).to_pylist() == ticks
    assert result.buffers()[1].address == array.buffers()[1].address
    with pytest.raises(Misfit, match="expected int64 from"):
        cast(pa.array([2**63], pa.uint64()), pa.timestamp("ms"))


# Text and bytes.

SIZES: list[tuple[Callable[[], pa.DataType], ...]] = [
    (pa.string, pa.large_string, pa.string_view),
    (pa.binary, pa.large_binary, pa.binary_view),
]


@given(st.lists(st.none() | st.text(max_size=20)), st.integers(0, 3))
def test_text_and_bytes_change_offsets_only(texts: list[str | None], skip: int) -> None:
    for values, types in zip((texts, [None if t is None else t.encode() for t in texts]), SIZES, strict=True):
        for source in types:
            array = pa.array(values, source()).slice(skip)
            encoded = array.dictionary_encode() if "view" not in str(array.type) else array
            for target in types[:2]:
                assert cast(array, target()).to_pylist() == values[skip:]
                assert cast(encoded, target()).to_pylist() == values[skip:]
    fixed = pa.array([b"abcd", None], pa.binary(4))
    assert cast(fixed, pa.binary()).to_pylist() == [b"abcd", None]


def test_empty_arrays_need_no_offsets() -> None:
    for array in (pa.array([], pa.large_string()), pa.array(["a"], pa.large_string()).slice(1)):
        assert cast(array, pa.string()).to_pylist() == []
    bare = pa.Array.from_buffers(pa.large_string(), 0, [None, None, pa.py_buffer(b"")])
    assert cast(bare, pa.string()).to_pylist() == []


def test_large_strings_become_small_without_copying_text() -> None:
    array = pa.array(["some", "text"], pa.large_string())
    assert cast(array, pa.string()).buffers()[2].address == array.buffers()[2].address


@given(st.lists(st.none() | st.text("abc", max_size=9), min_size=1), st.integers(9, 20))
def test_too_many_bytes_for_small_offsets_are_split(texts: list[str | None], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(casts, "MAX_VARIABLE_BYTES", limit)
        result = cast(pa.array(texts, pa.large_string()), pa.string())
    assert result.to_pylist() == texts
    chunks = result.chunks if isinstance(result, pa.ChunkedArray) else [result]
    assert all(sum(len(t or "") for t in chunk.to_pylist()) <= limit for chunk in chunks)
    for chunk in chunks:
        chunk.validate(full=True)


def test_offsets_far_into_a_large_array_are_moved() -> None:
    # The bytes are never touched, so the array takes no memory to speak of.
    far = np.zeros(2**31 + 100, np.uint8)
    offsets = np.array([0, 2**31 - 10, 2**31 + 5, 2**31 + 5, 2**31 + 100])
    array = pa.Array.from_buffers(pa.large_binary(), 4, [None, pa.py_buffer(offsets), pa.py_buffer(far)])
    assert cast(array.slice(1), pa.binary()).to_pylist() == [bytes(15), b"", bytes(95)]


def test_a_value_beyond_small_offsets_is_refused() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(casts, "MAX_VARIABLE_BYTES", 3)
        with pytest.raises(Misfit, match="longer than 3 bytes; declare the column as large_string") as caught:
            cast(pa.array(["abc", "abcd"], pa.large_string()), pa.string())
    assert caught.value.row == 1


# Dictionaries and nulls.


def test_dictionaries_are_decoded() -> None:
    values = pa.array([1, 2, 1, None]).dictionary_encode()
    assert cast(values, pa.float64()).to_pylist() == [1.0, 2.0, 1.0, None]
    hidden_null = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    assert cast(hidden_null, pa.string()).null_count == 1
    with pytest.raises(Misfit) as caught:
        cast(pa.array([1, 300, 1]).dictionary_encode(), pa.int8())
    assert caught.value.row == 1


@pytest.mark.parametrize(
    "target", [*targets(), pa.timestamp("us", "Asia/Tokyo"), pa.date64(), pa.large_string(), pa.binary()], ids=str
)
def test_nothing_becomes_nulls_of_any_type(target: pa.DataType) -> None:
    result = cast(pa.nulls(3), target)
    assert result.type == target
    assert result.to_pylist() == [None] * 3


def test_the_same_type_is_the_same_array() -> None:
    array = pa.array([1, 2])
    assert cast(array, pa.int64()) is array


@pytest.mark.parametrize("bad", [0, 5, 99])
def test_invalid_utf8_is_found(bad: int) -> None:
    values = [b"fine"] * 100
    assert first_invalid(pa.array(values).view(pa.string())) is None
    values[bad] = b"\xff"
    fault = first_invalid(pa.array(values).view(pa.string()))
    assert fault is not None
    assert fault[0] == bad
    assert "UTF8" in fault[1]
