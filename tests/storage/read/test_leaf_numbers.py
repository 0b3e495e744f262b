"""Numbers of single leaves without Arrow: the same as those of Arrow arrays, or none."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.media.memory import MemoryMedium
from tidelog.model.errors import CorruptionError
from tidelog.storage import Container, ContainerReader, FileMedium, Options

LEAF = 3000
COLUMNS: dict[str, pa.DataType] = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "moment": pa.timestamp("ns", "UTC"),
    "day": pa.date32(),
    "noon": pa.date64(),
    "noise": pa.float64(),
}
REST: dict[str, pa.DataType] = {
    "holes": pa.int64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "amount": pa.decimal128(20, 2),
    "same": pa.int64(),
}
SCHEMA = pa.schema([*COLUMNS.items(), *REST.items()])


def values(name: str, type: pa.DataType, rows: int, dice: np.random.Generator) -> pa.Array:
    if name == "noise":
        return pa.array(dice.standard_normal(rows))
    if pa.types.is_floating(type):
        return pa.array(np.round(dice.uniform(-50, 50, rows), 2).astype(type.to_pandas_dtype()))
    if name in ("day", "noon"):
        return pa.array(dice.integers(-9000, 9000, rows).astype(np.int32), pa.date32()).cast(type)
    if name == "moment":
        return pa.array(dice.integers(-(1 << 62), 1 << 62, rows), type)
    if name == "holes":
        return pa.array([None if at % 7 == 0 else at for at in range(rows)], type)
    if name == "same":
        return pa.array([5] * rows, type)
    if name in REST:
        return pa.array(dice.integers(0, 2, rows)).cast(pa.string()).cast(type)
    bounds = np.iinfo(type.to_pandas_dtype())
    return pa.array(dice.integers(bounds.min, bounds.max, rows, type.to_pandas_dtype(), endpoint=True))


def filled(medium: Any) -> None:
    dice = np.random.default_rng(3)
    with Container.create(medium, "c", SCHEMA, Options(leaf_rows=LEAF, run_rows=2 * LEAF)) as container:
        for rows in (LEAF, 1, 2000, LEAF):
            container.append(
                pa.record_batch([values(field.name, field.type, rows, dice) for field in SCHEMA], schema=SCHEMA)
            )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ContainerReader:
    medium = FileMedium(tmp_path_factory.mktemp("numbers"))
    filled(medium)
    return ContainerReader.open(medium, "c")


def expected(reader: ContainerReader, id: int, name: str) -> np.ndarray:
    column = reader.read(id, [name]).column(0)
    if name == "moment" or name == "noon":
        column = column.view(pa.int64())
    elif name == "day":
        column = column.view(pa.int32())
    return column.to_numpy()


def test_numbers_are_those_of_the_arrays(reader: ContainerReader) -> None:
    names = list(COLUMNS)
    for chosen in (names, ["i64"], ["f32", "i8"], ["i8", "f64", "u16", "i8"]):
        columns = tuple(SCHEMA.get_field_index(name) for name in chosen)
        for id in range(reader.blocks):
            others = [[id], [id, (id + 1) % reader.blocks]]
            for ids in others:
                found = reader.numbers.whole(ids, columns)
                assert found is not None
                for name, numbers in zip(chosen, found[0], strict=True):
                    wanted = np.concatenate([expected(reader, each, name) for each in ids])
                    assert numbers.dtype == wanted.dtype, name
                    assert np.array_equal(numbers.view(np.uint8), wanted.view(np.uint8)), name
                assert found[1] == [reader.read(each, ["i8"]).num_rows for each in ids]


@pytest.mark.parametrize("name", ["holes", "text", "flag", "amount"])
def test_what_takes_more_than_numbers_is_left_to_arrow(reader: ContainerReader, name: str) -> None:
    assert reader.numbers.whole([0], (0, SCHEMA.get_field_index(name))) is None


def test_other_encodings_are_right_or_left_to_arrow(reader: ContainerReader) -> None:
    found = reader.numbers.whole([0], (SCHEMA.get_field_index("same"),))
    assert found is None or found[0][0].tolist() == [5] * LEAF


def test_files_that_are_not_mapped_are_left_to_arrow(tmp_path: Path) -> None:
    for medium in (MemoryMedium(), FileMedium(tmp_path, mapped=False)):
        filled(medium)
        with ContainerReader.open(medium, "c") as reader:
            assert reader.numbers.whole([0], (0,)) is None


def test_damage_is_noticed(tmp_path: Path) -> None:
    medium = FileMedium(tmp_path)
    filled(medium)
    with ContainerReader.open(medium, "c") as reader:
        start, size, _ = reader._frames.place(0)
    path = tmp_path / "c"
    whole = path.read_bytes()
    columns = tuple(range(len(COLUMNS)))
    noticed = 0
    for place in range(start, start + size, 211):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        with ContainerReader.open(medium, "c") as reader:
            try:
                found = reader.numbers.whole([0], columns)
            except CorruptionError:
                noticed += 1
            else:  # in a column that was not asked for
                assert found is not None
                path.write_bytes(whole)
                with ContainerReader.open(medium, "c") as sound:
                    assert np.array_equal(found[0][3], expected(sound, 0, "i64"))
    assert noticed > size // 211 // 2


def test_every_thread_has_memory_of_its_own(reader: ContainerReader) -> None:
    column = (SCHEMA.get_field_index("i64"),)
    here = reader.numbers.whole([0], column)
    assert here is not None
    before = here[0][0].copy()
    elsewhere: list[Any] = []
    thread = threading.Thread(target=lambda: elsewhere.append(reader.numbers.whole([3], column)))
    thread.start()
    thread.join()
    assert elsewhere[0] is not None
    assert np.array_equal(here[0][0], before)
