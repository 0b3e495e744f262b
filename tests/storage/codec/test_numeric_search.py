"""Values of a range are found in encoded pieces where they are among the decoded ones, whatever the encoding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.numeric import encode_numbers
from tidelog.storage.codec.numeric.columns import column_of
from tidelog.storage.codec.numeric.decoder import find_in_range

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
ROWS = [0, 1, 15, 16, 17, 1000, 1024, 1025, 2500]


def check(array: pa.Array, block: int, low: Any, high: Any, nans: bool, room: int | None = None) -> int:
    """Compare with looking at every value; returns how many pieces were searched without decoding."""
    cuts = np.array([*range(0, len(array), block), len(array)], np.int64)
    arena = Arena(1 << 10)
    pieces = encode_numbers(array, cuts, arena)
    rows = np.diff(cuts)
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(array.type):
        values = values.astype(np.float64)  # NumPy would round the bounds to what the array can hold
    with np.errstate(invalid="ignore"):
        inside = (values >= low) & (values <= high)
    if nans:
        inside |= np.isnan(values)
    inside &= array.is_valid().to_numpy(zero_copy_only=False)
    places = np.full(len(array) if room is None else room, -1, np.int64)
    shape = column_of(array.type)
    found, left = find_in_range(shape, low, high, nans, arena.data, pieces.offsets, pieces.lengths, rows, places)
    inside &= np.repeat(left == 0, rows)
    assert found == inside.sum()
    expected = np.flatnonzero(inside)[: len(places)]
    assert places[: len(expected)].tolist() == expected.tolist()
    assert (places[len(expected) :] == -1).all()
    return int((left == 0).sum())


@st.composite
def integers(draw: st.DrawFn, type: pa.DataType) -> Any:
    """Walks, noise and series, with leaps now and then, as the type holds them."""
    rows = draw(st.sampled_from(ROWS))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    bits = draw(st.sampled_from([0, 1, 4, 9, 31, 33, 50]))
    noise = rng.integers(0, 1 << bits, rows)
    start = draw(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300))
    shape = draw(st.sampled_from(["walk", "climb", "noise", "steps of a thousand", "square"]))
    with np.errstate(over="ignore"):
        values = {
            "walk": start + np.cumsum(noise - (1 << bits) // 2),
            "climb": start + np.cumsum(noise),
            "noise": start + noise,
            "steps of a thousand": start + 1000 * np.cumsum(noise),
            "square": start + np.arange(rows) ** 2 * (1 + (bits > 4)),
        }[shape]
        leaps = draw(st.sampled_from([0, 0.01, 0.05]))
        size = draw(st.sampled_from([200, 1 << 17, 1 << 55, (1 << 63) - 1]))
        values = values + np.where(rng.random(rows) < leaps, rng.integers(-size, size, rows), 0)
    return values.astype(type.to_pandas_dtype())


@pytest.mark.parametrize("type", [*INTEGERS, pa.timestamp("us"), pa.date32()], ids=str)
@settings(max_examples=scaled(40))
@given(data=st.data())
def test_integers(type: pa.DataType, data: st.DataObject) -> None:
    number = pa.int64() if type.bit_width == 64 and not pa.types.is_integer(type) else type
    number = pa.int32() if pa.types.is_date32(type) else number
    values = data.draw(integers(number))
    limits = np.iinfo(values.dtype)
    bounds = []
    for _ in range(2):
        near = int(values[data.draw(st.integers(0, len(values) - 1))]) if len(values) else 0
        away = data.draw(st.sampled_from([0, 0, 1, -1, 5, 1000, -(1 << 40)]))
        extreme = data.draw(st.sampled_from([False, False, False, True]))
        bounds.append(data.draw(st.sampled_from([int(limits.min), int(limits.max)])) if extreme else near + away)
    low, high = (min(max(bound, int(limits.min)), int(limits.max)) for bound in bounds)
    if data.draw(st.booleans()):
        low, high = min(low, high), max(low, high)
    room = data.draw(st.sampled_from([None, 0, 3]))
    # The oracle looks at integers: instants are their counts.
    block = data.draw(st.sampled_from([1024, 2100]))
    assert pa.array(values).cast(type).cast(number).equals(pa.array(values))
    check(pa.array(values), block, low, high, False, room)


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
@settings(max_examples=scaled(150))
@given(data=st.data())
def test_floats(type: pa.DataType, data: st.DataObject) -> None:
    rows = data.draw(st.sampled_from(ROWS))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    digits = data.draw(st.integers(0, 6))
    walk = np.cumsum(rng.integers(-9, 10, rows)) + data.draw(st.sampled_from([0, 1000, -(10**9)]))
    values = (walk / 10.0**digits if data.draw(st.booleans()) else rng.normal(0, 100, rows).round(digits)).astype(
        type.to_pandas_dtype()
    )
    special = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, math.pi])
    for value, share in data.draw(st.lists(st.tuples(special, st.sampled_from([0.001, 0.02, 0.5])), max_size=3)):
        with np.errstate(over="ignore"):
            values[rng.random(rows) < share] = value
    valid = rng.random(rows) < data.draw(st.sampled_from([1.0, 1.0, 1.0, 0.9]))
    bounds = []
    for _ in range(2):
        near = float(values[data.draw(st.integers(0, rows - 1))]) if rows else 0.0
        moves = [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf), near + 3 / 10**digits]
        bound = data.draw(st.sampled_from([*moves, math.inf, -math.inf, 0.0, -0.0]))
        bounds.append(0.0 if math.isnan(bound) else bound)
    if data.draw(st.booleans()):
        bounds.sort()
    check(pa.array(values, type, mask=~valid), 1100, *bounds, data.draw(st.booleans()))


def test_common_columns_are_searched_without_decoding() -> None:
    rng = np.random.default_rng(3)
    readings = np.round(20 + np.cumsum(rng.normal(0, 0.1, 8192)), 2)
    assert check(pa.array(readings), 4096, 20.0, 21.5, False) == 2
    readings[::700] = math.nan
    readings[5::900] = -0.0
    assert check(pa.array(readings), 4096, -1.0, 0.0, True) == 2
    assert check(pa.array(readings.astype(np.float32)), 4096, 19.5, 20.5, False) == 2
    assert check(pa.array(np.cumsum(rng.integers(950, 1051, 8192))), 4096, 10_000, 2_000_000, False) == 2


def test_the_nearest_neighbours_of_a_bound_are_told_apart() -> None:
    values = np.arange(-3000, 3000) / 10
    for value in (-300.0, -0.1, 0.0, 0.1, 0.3, 209.9, 299.9):
        for low in (value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)):
            assert check(pa.array(values), 4096, low, math.inf, False) == 2
            assert check(pa.array(values), 4096, -math.inf, low, False) == 2


def test_pieces_of_other_lengths_than_their_blocks_are_refused() -> None:
    arena = Arena()
    pieces = encode_numbers(pa.array(np.arange(2000)), np.array([0, 2000]), arena)
    rows = np.array([1999])
    with pytest.raises(CorruptionError, match="rows asked for"):
        find_in_range(column_of(pa.int64()), 0, 5, False, arena.data, pieces.offsets, pieces.lengths, rows, rows[:0])
