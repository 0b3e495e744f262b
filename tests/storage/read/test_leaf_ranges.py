"""Rows of single leaves in time ranges: the same as those found by searching all times, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.memory import MemoryMedium
from support.profiles import scaled
from tidelog.model.errors import CorruptionError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.storage import Container, ContainerReader, FileMedium, Options
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.encodings import Encoding
from tidelog.storage.codec.numeric import decode_integers, encode_numbers
from tidelog.storage.codec.numeric.decoder import cut_located

VECTOR = 1024
SCHEMA = pa.schema(
    {"at": pa.int64(), "number": pa.int64(), "small": pa.int16(), "decimal": pa.float64(), "half": pa.float32()}
)
COLUMNS = tuple(range(len(SCHEMA)))


def times() -> dict[str, np.ndarray[Any, Any]]:
    """Rising times of leaves of many lengths, encoded in all ways that a vector can have."""
    dice = np.random.default_rng(11)
    steps = dice.integers(1, 9, 5000)
    bursts = np.where(dice.random(9000) < 0.01, 1 << 44, dice.integers(0, 9, 9000))
    bursts[::VECTOR] = 1 << 50
    return {
        "one": np.array([7]),
        "regular": np.arange(3 * VECTOR) * 10,
        "accelerating": np.arange(4000) ** 2,
        "cubic": np.arange(4000) ** 3,
        "steps": np.cumsum(steps),
        "thousands": 1000 * np.cumsum(steps),
        "bursts": np.cumsum(bursts) - (1 << 60),
        "ties": np.cumsum(dice.random(8000) < 0.001),
        "wide": np.sort(dice.integers(INT64_MIN, INT64_MAX, 2 * VECTOR + 1)),
        "ends": np.array([INT64_MIN] * 1500 + list(range(1500)) + [INT64_MAX] * 1500),
    }


def piece_of(at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    arena = Arena()
    pieces = encode_numbers(pa.array(at), np.array([0, len(at)]), arena)
    return arena.data[pieces.offsets[0] : pieces.offsets[0] + pieces.lengths[0]].copy()


TIMES = times()
KINDS = list(TIMES)
ENCODINGS = {kind: Encoding(int(piece_of(at)[0])) for kind, at in TIMES.items()}


def rows_of(at: np.ndarray[Any, Any]) -> pa.RecordBatch:
    dice = np.random.default_rng(len(at))
    return pa.record_batch(
        [
            at,
            dice.integers(-99, 99, len(at)),
            dice.integers(-99, 99, len(at)).astype(np.int16),
            np.round(dice.normal(size=len(at)), 2),
            dice.normal(size=len(at)).astype(np.float32),
        ],
        schema=SCHEMA,
    )


def filled(medium: Any) -> None:
    with Container.create(medium, "c", SCHEMA, Options(leaf_rows=16 * VECTOR)) as container:
        for at in TIMES.values():
            container.append(rows_of(at))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerReader]:
    medium = FileMedium(tmp_path_factory.mktemp("ranges"))
    filled(medium)
    with ContainerReader.open(medium, "c") as opened:
        yield opened


def ranges_in(at: np.ndarray[Any, Any]) -> st.SearchStrategy[tuple[int, int]]:
    """Closed ranges that begin and end near times, mostly those where vectors meet."""
    rows = st.integers(0, len(at) - 1) | st.sampled_from(range(0, len(at), VECTOR))
    near = st.builds(
        lambda row, off: min(max(int(at[row]) + off, INT64_MIN), INT64_MAX), rows, st.integers(-1, 1)
    ) | st.sampled_from([INT64_MIN, INT64_MAX])
    return st.tuples(near, near)


def inside(at: np.ndarray[Any, Any], wanted: tuple[int, int]) -> slice:
    return slice(int(at.searchsorted(wanted[0])), int(at.searchsorted(wanted[1], side="right")))


@settings(max_examples=scaled(60))
@given(data=st.data())
def test_rows_are_those_between_the_times(reader: ContainerReader, data: st.DataObject) -> None:
    ids = sorted(data.draw(st.sets(st.integers(0, len(KINDS) - 1), min_size=1, max_size=3)))
    others = tuple(data.draw(st.lists(st.sampled_from(COLUMNS), max_size=4)))
    wanted = [data.draw(ranges_in(TIMES[KINDS[id]])) for id in ids]
    found = reader.numbers.between(ids, (0, *others), wanted)
    if any(ENCODINGS[KINDS[id]] not in (Encoding.RAW, Encoding.PACKED) for id in ids):
        assert found is None
        return
    assert found is not None
    values, cuts = found
    assert (np.diff(cuts) >= 0).all()
    for place, (id, each) in enumerate(zip(ids, wanted, strict=True)):
        at = TIMES[KINDS[id]]
        rows = inside(at, each)
        first, last = cuts[2 * place : 2 * place + 2].tolist()
        assert last - first == max(0, rows.stop - rows.start), KINDS[id]
        for column, numbers in zip(others, values, strict=True):
            expected = rows_of(at).column(column).to_numpy()[rows]
            assert numbers.dtype == expected.dtype
            assert np.array_equal(numbers[first:last], expected), (KINDS[id], column)


def test_every_first_row_of_a_vector_is_found(reader: ContainerReader) -> None:
    for id, (kind, at) in enumerate(TIMES.items()):
        if ENCODINGS[kind] not in (Encoding.RAW, Encoding.PACKED):
            continue
        for row in range(0, len(at), VECTOR):
            wanted = int(at[row]), int(at[row])
            found = reader.numbers.between([id], (0,), [wanted])
            assert found is not None
            rows = inside(at, wanted)
            assert int(found[1][1] - found[1][0]) == rows.stop - rows.start


def test_most_times_are_found_without_arrow() -> None:
    assert {ENCODINGS[kind] for kind in KINDS} >= {Encoding.RAW, Encoding.PACKED, Encoding.RUNS}
    assert all(ENCODINGS[kind] == Encoding.PACKED for kind in ("regular", "cubic", "steps", "thousands", "bursts"))


def test_what_takes_more_than_numbers_is_left_to_arrow(tmp_path: Path) -> None:
    for medium in (MemoryMedium(), FileMedium(tmp_path, mapped=False)):
        filled(medium)
        with ContainerReader.open(medium, "c") as opened:
            assert opened.numbers.between([0], (0, 1), [(0, 9)]) is None
    schema = pa.schema({"at": pa.int64(), "text": pa.string(), "holes": pa.int64()})
    (tmp_path / "others").mkdir()
    medium = FileMedium(tmp_path / "others")
    with Container.create(medium, "c", schema, Options()) as container:
        container.append(pa.record_batch([[1, 2, 3], ["a", "b", "c"], [1, None, 3]], schema=schema))
    with ContainerReader.open(medium, "c") as opened:
        assert opened.numbers.between([0], (0, 1), [(0, 9)]) is None
        assert opened.numbers.between([0], (0, 2), [(0, 9)]) is None


def test_damage_is_noticed(tmp_path: Path) -> None:
    medium = FileMedium(tmp_path)
    filled(medium)
    with ContainerReader.open(medium, "c") as opened:
        start, size, _ = opened._frames.place(4)
    path = tmp_path / "c"
    whole = path.read_bytes()
    for place in range(start, start + size, 1009):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        with ContainerReader.open(medium, "c") as opened, pytest.raises(CorruptionError):
            opened.numbers.between([4], COLUMNS, [(100, 200)])


@pytest.mark.parametrize("kind", ["regular", "bursts", "cubic"])
@settings(max_examples=scaled(30))
@given(data=st.data())
def test_times_that_contradict_themselves_are_reported_or_cut_somewhere(kind: str, data: st.DataObject) -> None:
    at = TIMES[kind]
    piece = piece_of(at)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(95, len(piece) - 1)) | st.integers(0, len(piece) - 1))
        piece[place] = data.draw(st.integers(0, 255))
    words = piece[: data.draw(st.just(len(piece)) | st.integers(0, len(piece))) & ~7].view(np.uint64)
    with contextlib.suppress(CorruptionError):
        cut(words, len(at), data.draw(ranges_in(at)))


def cut(words: np.ndarray[Any, Any], rows: int, wanted: tuple[int, int]) -> tuple[int, int] | None:
    """The rows in a range of a piece of times, the first and one behind the last; None if that was not told."""
    starts, stops, targets = (np.zeros((1, 1), np.int64) for _ in range(3))
    places, lengths, cuts = np.zeros((2, 1), np.int64), np.full((2, 1), 8 * len(words)), np.zeros(2, np.int64)
    arranged = starts, stops, targets
    if cut_located(words, places, lengths, np.array([rows]), np.array([wanted]), np.array([8]), arranged, cuts):
        return None
    start, stop = int(starts[0, 0]), int(stops[0, 0])
    assert start % VECTOR == 0 <= start <= stop <= rows
    assert 0 <= int(cuts[0]) <= int(cuts[1]) <= stop - start
    return start + int(cuts[0]), start + int(cuts[1])


def test_first_values_that_are_exceptions() -> None:
    """Which the encoder makes of times in few cases, and the format allows in all."""
    at = np.array([-(1 << 40), *range(15)])
    words = np.zeros(2 + 1 + 16 + 1 + 1, np.uint64)
    words[0] = Encoding.PACKED | len(at) << 32
    words[1] = 16 << 32  # where the body begins
    words[2] = 4 | (3 << 4) << 8 | 1 << 16  # four bits a value, 64 for the rest of one exception
    words[3:19] = at.view(np.uint64) & np.uint64(15)
    words[20] = (at[:1] >> 4).view(np.uint64)[0]
    decoded = np.zeros(len(at), np.int64)
    decode_integers(
        words.view(np.uint8), np.array([0]), np.array([words.nbytes]), np.array([0]), np.array([16]), decoded
    )
    assert decoded.tolist() == at.tolist()
    for low in (-(1 << 40), 1 - (1 << 40), -1, 0, 1, 14, 15):
        rows = inside(at, (low, 7))
        assert cut(words, len(at), (low, 7)) == ((rows.start, rows.stop) if rows.start < rows.stop else (0, 0))
