"""Columns of every stored type in many shapes, each with the values that a reader of the bytes must find.

Values are as :mod:`support.format.pieces` gives them: floats are bit patterns, so that every NaN and zero counts.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa

Value = int | bytes | None

TYPES: list[pa.DataType] = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64()),
    *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "UTC")),
    *(pa.decimal128(38, 4), pa.decimal128(9, 2)),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
]

SCHEMA = pa.schema([pa.field(f"{number} {type}", type) for number, type in enumerate(TYPES)])

Shape = Callable[[random.Random, int], list[int]]


def _runs(dice: random.Random, rows: int, low: int, high: int) -> list[int]:
    """Values between -2**60 and 0, each repeated ``low`` to ``high`` times."""
    runs = ([-dice.getrandbits(60)] * dice.randint(low, high) for _ in range(rows))
    return [*chain.from_iterable(runs)][:rows]


def _rarely(dice: random.Random, rows: int, bits: int) -> list[int]:
    return [dice.getrandbits(2) if dice.random() > 0.01 else dice.getrandbits(bits) for _ in range(rows)]


INTEGERS: dict[str, Shape] = {
    "constant": lambda dice, rows: [7] * rows,
    "steps": lambda dice, rows: [10**12 + 1000 * row for row in range(rows)],
    "uneven steps": lambda dice, rows: [10**15 + 1000 * row + dice.randint(0, 20) for row in range(rows)],
    "squares": lambda dice, rows: [3 * row * row + dice.randint(0, 1) for row in range(rows)],
    "cubes": lambda dice, rows: [7 * row**3 for row in range(rows)],
    "small": lambda dice, rows: [dice.randint(-5, 100) for _ in range(rows)],
    "random": lambda dice, rows: [dice.getrandbits(128) for _ in range(rows)],
    "few": lambda dice, rows: dice.choices([-dice.getrandbits(100) for _ in range(20)], k=rows),
    "short runs": lambda dice, rows: _runs(dice, rows, 2, 9),
    "long runs": lambda dice, rows: _runs(dice, rows, 50, 200),
    "multiples": lambda dice, rows: [86_400_000 * dice.randint(-1000, 1000) for _ in range(rows)],
    "rarely 11 bits": lambda dice, rows: _rarely(dice, rows, 11),
    "rarely 28 bits": lambda dice, rows: _rarely(dice, rows, 28),
    "rarely 60 bits": lambda dice, rows: _rarely(dice, rows, 60),
    "two live bytes": lambda dice, rows: [
        dice.getrandbits(8) << 56 | 0x1234567890 << 8 | dice.getrandbits(3) for _ in range(rows)
    ],
    "negative": lambda dice, rows: [-dice.getrandbits(30) for _ in range(rows)],
}
"""Integers for columns of every type but floats and text; each takes what its width holds."""


def _cents(dice: random.Random, rows: int, share: float, others: list[float]) -> list[float]:
    """A walk in cents, with a share of other values."""
    walk = accumulate(dice.randint(-300, 300) for _ in range(rows))
    return [dice.choice(others) if dice.random() < share else value / 100 for value in walk]


FLOATS: dict[str, Callable[[random.Random, int], list[float]]] = {
    "cents": lambda dice, rows: _cents(dice, rows, 0, []),
    "cents, odd ones": lambda dice, rows: _cents(dice, rows, 0.02, [-0.0, math.inf, -math.inf, 1 / 3]),
    "cents, some NaN": lambda dice, rows: _cents(dice, rows, 0.3, [math.nan]),
    "cents, NaN and others": lambda dice, rows: _cents(dice, rows, 0.1, [math.nan] * 20 + [-0.0, 1 / 3]),
    "sine": lambda dice, rows: [math.sin(row / 500) for row in range(rows)],
    "uniform": lambda dice, rows: [dice.random() for _ in range(rows)],
    "both signs": lambda dice, rows: [
        dice.choice([-1, 1]) * (1 + dice.random() * 1e-6) if dice.random() > 0.01 else -0.0 for _ in range(rows)
    ],
    "small squares": lambda dice, rows: [-1e-3 + 1e-9 * row * row for row in range(rows)],
    "zeros": lambda dice, rows: [dice.choice([0.0, -0.0]) for _ in range(rows)],
    "few": lambda dice, rows: dice.choices([dice.uniform(-1, 1) for _ in range(9)] + [math.nan], k=rows),
    "runs": lambda dice, rows: [value / 3 for value in _runs(dice, rows, 2, 9)],
    "huge": lambda dice, rows: [dice.uniform(-1, 1) * 10.0 ** dice.randint(-30, 30) for _ in range(rows)],
}


def _letters(dice: random.Random, length: int) -> str:
    return "".join(dice.choices("abcdefghijklmnopqrstuvwxyzäöü", k=length))


def _log_line(dice: random.Random, row: int) -> str:
    """A line that has every kind of slot."""
    return dice.choice(
        [
            f"user {dice.randint(10**6, 10**6 + 999)} saw {dice.random():.3f}s, request {dice.getrandbits(64):016x}",
            f"{dice.randint(1, 9)}x{dice.randint(1, 4)}y{dice.randint(1, 9)}z1w größer #{dice.getrandbits(32):08X}",
            "a very long introduction " * 12 + str(row),
        ]
    )


TEXTS: dict[str, Callable[[random.Random, int], list[str]]] = {
    "constant": lambda dice, rows: ["always the same"] * rows,
    "empty": lambda dice, rows: [""] * rows,
    "few": lambda dice, rows: dice.choices(["up", "down", "", "höher", "up\0", "a longer one"], k=rows),
    "repetitive dictionary": lambda dice, rows: dice.choices([_letters(dice, 3) * 30 for _ in range(40)], k=rows),
    "short": lambda dice, rows: [_letters(dice, dice.randint(0, 8)) for _ in range(rows)],
    "numbers": lambda dice, rows: [str(dice.getrandbits(40)) for _ in range(rows)],
    "long": lambda dice, rows: [_letters(dice, 3) * dice.randint(10, 30) for _ in range(rows)],
    "templates": lambda dice, rows: [_log_line(dice, row) for row in range(rows)],
    "lines": lambda dice, rows: [f"T{row:06d} GET /{_letters(dice, 2)}?q={dice.getrandbits(9)}" for row in range(rows)],
}

NULLS: dict[str, Callable[[random.Random, int], list[bool]]] = {
    "none": lambda dice, rows: [True] * rows,
    "few": lambda dice, rows: [dice.random() > 0.01 for _ in range(rows)],
    "half": lambda dice, rows: [dice.random() > 0.5 for _ in range(rows)],
    "first third": lambda dice, rows: [row >= rows // 3 for row in range(rows)],
    "all but one": lambda dice, rows: [row == rows // 2 for row in range(rows)],
    "all": lambda dice, rows: [False] * rows,
}
"""Which rows are valid."""


@dataclass(frozen=True)
class Sample:
    """A leaf and the values of its columns."""

    batch: pa.RecordBatch
    columns: list[list[Value]]


def sample(dice: random.Random, rows: int, integers: str, floats: str, texts: str, nulls: str) -> Sample:
    """A leaf of :data:`SCHEMA` with columns of the shapes named."""
    valid = NULLS[nulls](dice, rows)
    whole, real, text = INTEGERS[integers](dice, rows), FLOATS[floats](dice, rows), TEXTS[texts](dice, rows)
    arrays: list[pa.Array] = []
    columns: list[list[Value]] = []
    for type in TYPES:
        if pa.types.is_floating(type):
            # Random bits are all kinds of NaN too; everything else comes as numbers.
            patterns = whole if integers == "random" else _patterns(real, type)
            array, values = _fixed_width(type, patterns, valid)
        elif _is_text(type):
            array, values = _text_column(type, text, valid)
        else:
            array, values = _fixed_width(type, whole, valid)
        arrays.append(array)
        columns.append(values)
    return Sample(pa.record_batch(arrays, schema=SCHEMA), columns)


def _is_text(type: pa.DataType) -> bool:
    return type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _patterns(floats: list[float], type: pa.DataType) -> list[int]:
    if type == pa.float64():
        return [int.from_bytes(struct.pack("<d", value), "little") for value in floats]
    with np.errstate(over="ignore"):
        return [int(pattern) for pattern in np.array(floats).astype(np.float32).view(np.uint32)]


def _fixed_width(type: pa.DataType, integers: list[int], valid: list[bool]) -> tuple[pa.Array, list[Value]]:
    """An array made of bits, so that nothing converts them on their way."""
    bits = type.bit_width
    if pa.types.is_decimal(type):
        integers = [(abs(value) % 10**type.precision) * (-1 if value < 0 else 1) for value in integers]
    elif type == pa.date64():
        integers = [value % 10**7 * 86_400_000 for value in integers]
    patterns = [value & ((1 << bits) - 1) for value in integers]
    if bits == 1:
        data = np.packbits(patterns, bitorder="little").tobytes()
    else:
        data = b"".join(pattern.to_bytes(bits // 8, "little") for pattern in patterns)
    bitmap = None if all(valid) else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    array = pa.Array.from_buffers(type, len(integers), [bitmap, pa.py_buffer(data)])
    unsigned = pa.types.is_unsigned_integer(type) or pa.types.is_floating(type) or bits == 1
    top = 0 if unsigned else 1 << (bits - 1)
    values = [(pattern ^ top) - top for pattern in patterns]
    return array, [value if ok else None for value, ok in zip(values, valid, strict=True)]


def _text_column(type: pa.DataType, texts: list[str], valid: list[bool]) -> tuple[pa.Array, list[Value]]:
    kept = [text if ok else None for text, ok in zip(texts, valid, strict=True)]
    values = [None if text is None else text.encode() for text in kept]
    return pa.array(values if "binary" in str(type) else kept, type), [*values]
