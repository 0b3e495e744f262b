"""Summaries against plain Python arithmetic on the values."""

from __future__ import annotations

import datetime
import math
import struct
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from support.storage.guarded_memory import GuardedMemory
from tidelog.storage.summary import (
    HAS_BOUNDS,
    HAS_SUM,
    INTEGER_SUM,
    MAX_TRUNCATED,
    MIN_TRUNCATED,
    SUMMARY,
    maximum,
    minimum,
    summarise,
    total,
)

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
INSTANTS = [
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
EDGE_ROWS = [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 4096]


def limits(type: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(type):
        return 0, (1 << type.bit_width) - 1
    return -(1 << type.bit_width - 1), (1 << type.bit_width - 1) - 1


def with_edges(strategy: st.SearchStrategy[Any], edges: list[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(edges) | strategy


@st.composite
def sliced(draw: st.DrawFn, values: st.SearchStrategy[Any], type: pa.DataType) -> pa.Array:
    """An array with an offset, and rows before and behind that must not matter."""
    content = draw(st.lists(values, min_size=draw(st.sampled_from([0, 1, 3, 20])), max_size=90))
    before, behind = draw(st.lists(values, max_size=11)), draw(st.lists(values, max_size=3))
    whole = pa.array(before + content + behind, type)
    return whole.slice(len(before), len(content))


def cut(draw: st.DrawFn, rows: int) -> np.ndarray:
    inner = draw(st.lists(st.integers(0, rows), max_size=3))
    first = draw(st.sampled_from([0, 0, min(inner, default=0)]))
    return np.array(sorted([first, *inner, rows]), np.int64)


def blocks(array: pa.Array, cuts: np.ndarray) -> list[tuple[np.void, list[Any]]]:
    """Summary and non-null Python values of every block; checks what holds for all types."""
    summaries = summarise(array, cuts)
    assert summaries.dtype == SUMMARY
    assert len(summaries) == len(cuts) - 1
    assert not summaries["reserved"].any()
    result = []
    for summary, start, stop in zip(summaries, cuts[:-1], cuts[1:], strict=True):
        block = array.slice(start, stop - start).to_pylist()
        assert summary["nulls"] == sum(value is None for value in block)
        if not summary["flags"] & HAS_BOUNDS:
            assert summary["min"] == summary["max"] == 0
        if not summary["flags"] & HAS_SUM:
            assert not summary["sum"].any()
        result.append((summary, [value for value in block if value is not None]))
    return result


def test_record_is_48_bytes_in_the_documented_order() -> None:
    assert SUMMARY.itemsize == 48
    assert {name: SUMMARY.fields[name][1] for name in SUMMARY.names} == {
        "flags": 0,
        "nulls": 4,
        "nans": 8,
        "reserved": 12,
        "min": 16,
        "max": 24,
        "sum": 32,
    }
    image = summarise(pa.array([-2, None, 5]), np.array([0, 3])).tobytes()
    assert image == struct.pack("<IIIIqqqq", 7, 1, 0, 0, -2, 5, 3, 0)
    image = summarise(pa.array([-2.0, math.nan]), np.array([0, 2])).tobytes()
    assert image == struct.pack("<IIIIdddq", 3, 0, 1, 0, -2.0, -2.0, -2.0, 0)
    image = summarise(pa.array(["b", "longer than eight"]), np.array([0, 2])).tobytes()
    assert image == struct.pack("<IIII8s8sqq", 17, 0, 0, 0, b"b", b"longer t", 0, 0)


class TestIntegers:
    @given(st.data())
    @settings(max_examples=scaled(80))
    def test_bounds_and_exact_sum(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from(INTEGERS))
        low, high = limits(type)
        values = with_edges(st.integers(low, high), [low, low + 1, 0, high - 1, high])
        array = data.draw(sliced(values, type))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            assert minimum(summary, type) == min(block, default=None)
            assert maximum(summary, type) == max(block, default=None)
            assert total(summary, type) == (sum(block) if block else None)
            assert summary["flags"] == (HAS_BOUNDS | HAS_SUM | INTEGER_SUM if block else 0)

    @pytest.mark.parametrize("rows", EDGE_ROWS)
    @pytest.mark.parametrize("type", [pa.int64(), pa.uint64()], ids=str)
    @pytest.mark.parametrize("nulls", [False, True])
    def test_sums_that_need_more_than_64_bits(self, rows: int, type: pa.DataType, nulls: bool) -> None:
        low, high = limits(type)
        for value in (low, high, high - 1, -1 if low else 1):
            mask = np.arange(rows) % 3 == 1 if nulls else None
            array = pa.array(np.full(rows, value, type.to_pandas_dtype()), type, mask=mask)
            ((summary, block),) = blocks(array, np.array([0, rows]))
            assert total(summary, type) == (value * len(block) if block else None)

    def test_long_blocks_of_random_values(self) -> None:
        random = np.random.default_rng(5)
        values = random.integers(-(1 << 63), (1 << 63) - 1, 9000, endpoint=True)
        cuts = np.array([0, 4096, 4096, 8192, 8999, 9000])
        for summary, block in blocks(pa.array(values), cuts):
            assert total(summary, pa.int64()) == (sum(block) if block else None)
            assert maximum(summary, pa.int64()) == max(block, default=None)

    @given(st.data())
    @settings(max_examples=scaled(40))
    def test_booleans_count_as_zero_and_one(self, data: st.DataObject) -> None:
        array = data.draw(sliced(st.none() | st.booleans(), pa.bool_()))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            assert minimum(summary, pa.bool_()) is (min(block) if block else None)
            assert maximum(summary, pa.bool_()) is (max(block) if block else None)
            assert total(summary, pa.bool_()) == (sum(block) if block else None)

    @pytest.mark.parametrize("type", INSTANTS, ids=str)
    def test_instants_have_bounds_in_their_unit_and_no_sum(self, type: pa.DataType) -> None:
        day = 86_400_000
        stored = pa.int32() if type.bit_width == 32 else pa.int64()
        numbers = [3 * day, None, 0, 5 * day] if pa.types.is_date64(type) else [70, None, 0, 12345]
        array = pa.array(numbers, stored).view(type)
        (summary,) = summarise(array, np.array([0, 4]))
        assert minimum(summary, type) == 0
        assert maximum(summary, type) == max(number for number in numbers if number is not None)
        assert total(summary, type) is None
        assert summary["flags"] == HAS_BOUNDS

    def test_instants_before_the_epoch(self) -> None:
        early = datetime.datetime(1969, 12, 31, 23, 59, 59)
        array = pa.array([early, datetime.datetime(1970, 1, 1)], pa.timestamp("us"))
        (summary,) = summarise(array, np.array([0, 2]))
        assert (minimum(summary, array.type), maximum(summary, array.type)) == (-1_000_000, 0)

    def test_durations_have_a_sum(self) -> None:
        array = pa.array([5, None, -7], pa.duration("ms"))
        (summary,) = summarise(array, np.array([0, 3]))
        assert [f(summary, array.type) for f in (minimum, maximum, total)] == [-7, 5, -2]


class TestFloats:
    @given(st.data())
    @settings(max_examples=scaled(80))
    def test_bounds_nans_and_sum(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from([pa.float64(), pa.float32(), pa.float16()]))
        width = type.bit_width
        values = st.floats(width=width) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])
        array = data.draw(sliced(st.none() | values, type))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            numbers = [float(value) for value in block if not math.isnan(value)]
            assert summary["nans"] == len(block) - len(numbers)
            assert summary["flags"] == (HAS_BOUNDS | HAS_SUM if numbers else 0)
            if not numbers:
                assert minimum(summary, type) is maximum(summary, type) is total(summary, type) is None
                continue
            # copysign tells the zeros apart: -0.0 is the smaller one.
            order = sorted(numbers, key=lambda value: (value, math.copysign(1.0, value)))
            assert repr(minimum(summary, type)) == repr(order[0])
            assert repr(maximum(summary, type)) == repr(order[-1])
            self.check_sum(total(summary, type), numbers)

    @staticmethod
    def check_sum(found: float, numbers: list[float]) -> None:
        infinite = {value for value in numbers if math.isinf(value)}
        if infinite:
            assert math.isnan(found) if len(infinite) == 2 else found == infinite.pop()
            return
        exact = sum(map(Fraction, numbers))
        if abs(exact) > Fraction(1e308) or max(map(abs, numbers)) > 1e300:
            return  # intermediate results may overflow
        # Error of any order of summation of n terms: at most n * eps * sum of magnitudes.
        bound = Fraction(len(numbers)) * Fraction(2.0**-52) * sum(abs(Fraction(value)) for value in numbers)
        assert abs(Fraction(found) - exact) <= bound

    @pytest.mark.parametrize("rows", EDGE_ROWS)
    @pytest.mark.parametrize("nulls", [False, True])
    def test_every_row_counts_once(self, rows: int, nulls: bool) -> None:
        random = np.random.default_rng(rows)
        values = random.integers(-(1 << 40), 1 << 40, rows).astype(np.float64)  # sums of these are exact
        mask = random.random(rows) < 0.3 if nulls else None
        ((summary, block),) = blocks(pa.array(values, mask=mask), np.array([0, rows]))
        assert total(summary, pa.float64()) == (sum(map(int, block)) if block else None)
        assert maximum(summary, pa.float64()) == max(block, default=None)

    def test_order_of_summation_is_the_documented_one(self) -> None:
        values = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.arange(-150, 150, 0.3)
        values[::7] = math.nan
        lanes = [0.0] * 64
        for row, value in enumerate(values.tolist()):
            lanes[row % 64] += 0.0 if math.isnan(value) else value
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [lanes[k] + lanes[k + half] for k in range(half)]
        (summary,) = summarise(pa.array(values), np.array([0, 1000]))
        assert total(summary, pa.float64()) == lanes[0]

    def test_negative_zero_is_the_smaller_one(self) -> None:
        for values in ([0.0, -0.0], [-0.0, 0.0]):
            (summary,) = summarise(pa.array(values), np.array([0, 2]))
            assert math.copysign(1, minimum(summary, pa.float64())) == -1
            assert math.copysign(1, maximum(summary, pa.float64())) == 1


WIDE = with_edges(
    st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(1 << 63), (1 << 63) - 1),
    [10**38 - 1, 1 - 10**38, (1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1, 0, -1],
)


class TestDecimals:
    @given(st.data())
    @settings(max_examples=scaled(80))
    def test_bounds_if_narrow_and_sum_if_it_fits(self, data: st.DataObject) -> None:
        scale = data.draw(st.sampled_from([0, 2, 38]))
        type = pa.decimal128(38, scale)
        narrow = with_edges(st.integers(-(1 << 63), (1 << 63) - 1), [-(1 << 63), (1 << 63) - 1])
        unscaled = WIDE if data.draw(st.booleans()) else narrow
        array = data.draw(sliced(unscaled.map(lambda value: self.scaled(value, scale)), type))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            numbers = [int(Fraction(value) * 10**scale) for value in block]
            fits = numbers and all(-(1 << 63) <= value < 1 << 63 for value in numbers)
            assert minimum(summary, type) == (self.scaled(min(numbers), scale) if fits else None)
            assert maximum(summary, type) == (self.scaled(max(numbers), scale) if fits else None)
            exact = sum(numbers)
            kept = numbers and -(1 << 127) <= exact < 1 << 127
            assert total(summary, type) == (self.scaled(exact, scale) if kept else None)

    @staticmethod
    def scaled(unscaled: int | None, scale: int) -> Decimal | None:
        if unscaled is None:
            return None
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    @pytest.mark.parametrize("type", [pa.decimal32(9, 2), pa.decimal64(18, 2)], ids=str)
    def test_narrow_decimals(self, type: pa.DataType) -> None:
        array = pa.array([Decimal("1.25"), None, Decimal("-3.50")], type)
        (summary,) = summarise(array, np.array([0, 3]))
        assert [f(summary, type) for f in (minimum, maximum, total)] == [
            Decimal("-3.50"),
            Decimal("1.25"),
            Decimal("-2.25"),
        ]


def pad(value: bytes) -> bytes:
    return value[:8].ljust(8, b"\0")


SHORT = st.binary(max_size=10) | st.text("\0a\x7fé\ud7ff\U0010ffff", max_size=5).map(lambda text: text.encode())


class TestText:
    @given(st.data())
    @settings(max_examples=scaled(120))
    def test_bytes(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
        edges = [b"", b"\0", b"\0" * 9, b"\xff" * 8, b"\xff" * 9, b"abcdefgh", b"abcdefghi", b"abcdefg\0"]
        array = data.draw(sliced(with_edges(SHORT, edges), type))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            self.check(summary, type, block, lambda value: value)

    @given(st.data())
    @settings(max_examples=scaled(120))
    def test_strings(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from([pa.string(), pa.large_string()]))
        edges = ["", "\0", "\U0010ffff" * 3, "abcdefgh", "abcdefg\ud7ff", "abcde\U0010ffff", "abcdefg\U0010ffff"]
        values = st.text("\0ab\x7f\x80ß\ud7ff\ue000\U0010ffff", max_size=10) | st.text(max_size=4)
        array = data.draw(sliced(with_edges(values, edges), type))
        for summary, block in blocks(array, cut(data.draw, len(array))):
            self.check(summary, type, block, str.encode)

    @staticmethod
    def check(summary: np.void, type: pa.DataType, block: list[Any], encode: Any) -> None:
        flags = int(summary["flags"])
        assert total(summary, type) is None
        if not block:
            assert flags == 0
            assert minimum(summary, type) is maximum(summary, type) is None
            return
        raw = sorted(encode(value) for value in block)
        # The stored words: prefixes of the true extremes, truncated exactly if these cannot be told from them.
        assert summary["min"].tobytes() == pad(raw[0])
        assert summary["max"].tobytes() == pad(raw[-1])
        assert bool(flags & MIN_TRUNCATED) == (pad(raw[0]).rstrip(b"\0") != raw[0])
        assert bool(flags & MAX_TRUNCATED) == (pad(raw[-1]).rstrip(b"\0") != raw[-1])
        low, high = minimum(summary, type), maximum(summary, type)
        assert encode(low) <= raw[0]
        if not flags & MIN_TRUNCATED:
            assert encode(low) == raw[0]
        if not flags & MAX_TRUNCATED:
            assert encode(high) == raw[-1]
        elif high is not None:
            assert raw[-1] < encode(high)
        else:
            assert pad(raw[-1])[:1] >= b"\xf4"  # nothing lies above eight bytes FF, or above U+10FFFF twice

    def test_maximum_of_utf8_stays_text(self) -> None:
        (summary,) = summarise(pa.array(["abcdefg" + "\ud7ff"]), np.array([0, 1]))
        assert maximum(summary, pa.string()) == "abcdefh"
        (summary,) = summarise(pa.array(["abcde\ud7ff!"]), np.array([0, 1]))
        assert maximum(summary, pa.string()) == "abcde\ue000"

    @pytest.mark.parametrize("rows", EDGE_ROWS)
    @pytest.mark.parametrize("nulls", [False, True])
    @pytest.mark.parametrize("where", [0, -1])
    def test_extremes_are_found_anywhere(self, rows: int, nulls: bool, where: int) -> None:
        content: list[str | None] = [f"m{i % 7}" for i in range(rows)]
        if nulls:
            content[1::2] = [None] * len(content[1::2])
        if rows:
            content[where] = "zzzzzzzzzzz"
        ((summary, block),) = blocks(pa.array(content, pa.string()), np.array([0, rows]))
        assert maximum(summary, pa.string()) == ("zzzzzzz{" if block else None)

    def test_values_of_null_slots_do_not_count(self) -> None:
        offsets, data = np.array([0, 1, 2, 3], np.int32), b"amz"
        valid = pa.py_buffer(bytes([0b010]))
        array = pa.Array.from_buffers(pa.string(), 3, [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
        (summary,) = summarise(array, np.array([0, 3]))
        assert (minimum(summary, pa.string()), maximum(summary, pa.string())) == ("m", "m")

    def test_fixed_size(self) -> None:
        type = pa.binary(10)
        array = pa.array([b"0123456789", None, b"0123456700"], type).slice(0)
        (summary,) = summarise(array, np.array([0, 3]))
        assert minimum(summary, type) == b"01234567"
        assert maximum(summary, type) == b"01234568"

    @pytest.mark.parametrize("last", range(10))
    def test_no_byte_behind_the_data_is_read(self, last: int) -> None:
        data = pa.py_buffer(GuardedMemory(20).at_end(b"x" * (9 + last)))
        places = pa.py_buffer(np.array([0, 9, 9 + last], np.int32))
        array = pa.Array.from_buffers(pa.binary(), 2, [None, places, data])
        (summary,) = summarise(array, np.array([0, 2]))
        assert minimum(summary, pa.binary()) == b"x" * min(last, 8)

    @pytest.mark.parametrize("whole_first", [False, True])
    def test_equal_prefixes_in_different_places(self, whole_first: bool) -> None:
        # Far apart: bounds of parts of a block are merged.
        whole, longer = "abcdefgh", "abcdefghi"
        content = [whole if whole_first else longer] + [None] * 3000 + [longer if whole_first else whole]
        for others, bound, flag in (("zz", minimum, MIN_TRUNCATED), ("aa", maximum, MAX_TRUNCATED)):
            ((summary, _),) = blocks(pa.array([*content, others]), np.array([0, len(content) + 1]))
            # The smallest value is known whole, the largest is not.
            assert bool(summary["flags"] & flag) == (flag == MAX_TRUNCATED)
            assert bound(summary, pa.string()) == (whole if flag == MIN_TRUNCATED else "abcdefgi")


class TestShapes:
    @pytest.mark.parametrize("type", [*INTEGERS, *TEXTS, pa.float64(), pa.bool_(), pa.decimal128(9)], ids=str)
    def test_no_rows(self, type: pa.DataType) -> None:
        summaries = summarise(pa.array([], type), np.array([0, 0, 0]))
        assert summaries.tobytes() == bytes(2 * 48)
        assert len(summarise(pa.array([], type), np.array([0]))) == 0

    @pytest.mark.parametrize("type", [pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.null()], ids=str)
    def test_all_null(self, type: pa.DataType) -> None:
        summaries = summarise(pa.nulls(5, type), np.array([0, 2, 5]))
        assert summaries["nulls"].tolist() == [2, 3]
        assert not summaries["flags"].any()
        assert not summaries["nans"].any()

    def test_other_types_count_nulls_alone(self) -> None:
        array = pa.array([[1], None, [], None], pa.list_(pa.int8())).slice(1)
        summaries = summarise(array, np.array([0, 1, 3]))
        assert summaries["nulls"].tolist() == [1, 1]
        assert not summaries["flags"].any()
        assert minimum(summaries[0], array.type) is total(summaries[0], array.type) is None

    def test_unaligned_memory(self) -> None:
        raw = np.zeros(33, np.uint8)
        raw[1:] = np.array([3, -4, 5, 6], np.int64).view(np.uint8)
        array = pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(raw)[1:]])
        (summary,) = summarise(array, np.array([0, 4]))
        assert [f(summary, pa.int64()) for f in (minimum, maximum, total)] == [-4, 6, 10]

    @pytest.mark.parametrize("cuts", [[], [-1, 2], [0, 4], [2, 1], [0, 3, 2]])
    def test_wrong_cuts_are_refused(self, cuts: list[int]) -> None:
        with pytest.raises(ValueError, match=r"must ascend within 0 \.\. 3"):
            summarise(pa.array([1, 2, 3]), np.array(cuts, np.int64))

    def test_threads_do_not_disturb_each_other(self) -> None:
        random = np.random.default_rng(3)
        arrays = [pa.array(random.normal(size=20_000)) for _ in range(2)]
        cuts = np.arange(0, 20_001, 1000)
        alone = [summarise(array, cuts).tobytes() for array in arrays]
        found: list[list[bytes]] = [[], []]
        threads = [
            threading.Thread(
                target=lambda i=i: found[i].extend(summarise(arrays[i], cuts).tobytes() for _ in range(20))
            )
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[alone[0]] * 20, [alone[1]] * 20]
