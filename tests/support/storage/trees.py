"""Small trees of known rows, and what they must answer by plain Python arithmetic on these rows."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from support.media.recording import RecordingMedium
from tidelog.index import Aggregate, Layout, Root, TreeReader, TreeWriter
from tidelog.model import Schema
from tidelog.storage import Container, ContainerReader, Medium, Options
from tidelog.storage.summary import MAX_TRUNCATED, MIN_TRUNCATED

NAME = "split.tl"

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("count", pa.int64()),
            pa.field("ts", pa.timestamp("us"), nullable=False),
            pa.field("small", pa.int8()),
            pa.field("unsigned", pa.uint64()),
            pa.field("price", pa.float64()),
            pa.field("single", pa.float32()),
            pa.field("flag", pa.bool_()),
            pa.field("text", pa.string()),
            pa.field("raw", pa.binary()),
            pa.field("day", pa.date32()),
            pa.field("amount", pa.decimal128(38, 2)),
        ]
    ),
    "ts",
)

_CHOICES: dict[str, list[Any]] = {
    "count": [0, -1, 7, (1 << 63) - 1, -(1 << 63)],
    "small": [0, -128, 127, 5],
    "unsigned": [0, 1, 1 << 63, (1 << 64) - 1],
    "price": [0.0, -0.0, 1.25, -1e300, 1e300, math.nan, 3.5],
    "single": [0.5, -2.0, math.nan, -0.0],
    "flag": [True, False],
    "text": ["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0", "zz", "é", "zzzzzzzzzzz"],
    "raw": [b"", b"\0", b"a", b"\xff" * 8, b"\xff" * 9, b"abcdefgh", b"abcdefghij"],
    "day": [-5, 0, 20000],
    "amount": [Decimal("0.01"), Decimal("-12.50"), Decimal("1e20"), Decimal("-1e30")],
}


def rows(dice: random.Random, count: int, *, since: int = 0, first: int = 0) -> pa.RecordBatch:
    """Rows in order from a time on; times repeat, every column has stretches of one kind, without values too."""
    times, sequence = [], []
    time = since
    for number in range(first, first + count):
        time += dice.choice([0, 0, 0, 1, 1, 7, 100])
        times.append(time)
        sequence.append(number)
    columns: dict[str, pa.Array] = {"ts": pa.array(times, pa.timestamp("us")), "_seq": pa.array(sequence, pa.int64())}
    for name, choices in _CHOICES.items():
        values: list[Any] = []
        while len(values) < count:
            some = dice.choice([[None], [dice.choice(choices)], dice.sample(choices, 2), [*choices, None]])
            values += [dice.choice(some) for _ in range(dice.choice([3, 11, 40]))]
        columns[name] = pa.array(values[:count], SCHEMA.field(name).type)
    stored = Layout(SCHEMA).stored
    return pa.record_batch([columns[name] for name in stored.names], schema=stored)


@dataclass
class Tree:
    """A tree being written, and the rows given to it."""

    layout: Layout
    options: Options
    medium: Medium = field(default_factory=RecordingMedium)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    root: Root | None = None

    def __post_init__(self) -> None:
        self.container = Container.create(self.medium, NAME, self.layout.stored, self.options, self.layout.to_notes())
        self.writer = TreeWriter(self.container, self.layout)

    def extend(self, batch: pa.RecordBatch) -> None:
        self.writer.extend(batch)
        self.batches.append(batch)

    def close(self) -> None:
        self.root = self.writer.close()
        self.container.flush(self.root.to_bytes())

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.layout.stored)

    def reader(self) -> TreeReader:
        """As of a flush."""
        self.container.flush()
        return TreeReader(self.container.snapshot(), self.layout, self.root or self.writer.flank())

    def reader_elsewhere(self) -> TreeReader:
        """As another process reads it that knows nothing but the file."""
        self.container.flush()
        reader = ContainerReader.open(self.medium, NAME)
        layout = Layout.of(reader.description)
        return TreeReader(reader, layout, Root.from_bytes(reader.commit.meta) if reader.commit.meta else None)


def grown(
    dice: random.Random, count: int, fanout: int, leaf_rows: int, aggregates: str | list[str] = "all", batch: int = 60
) -> Tree:
    """A tree with so many random rows, given in batches of up to ``batch``."""
    tree = Tree(Layout(SCHEMA, fanout, aggregates), Options(leaf_rows=leaf_rows, run_rows=16, macro_size=8192))
    whole = rows(dice, count)
    start = 0
    while start < count:
        size = dice.randint(1, batch)
        tree.extend(whole.slice(start, size))
        start += size
    return tree


def in_range(table: pa.Table, start: int | None, end: int | None) -> pa.Table:
    """The rows of a time range, looked at one by one."""
    times = table.column("ts").cast(pa.int64()).to_pylist()
    return table.filter(
        pa.array([(start is None or start <= t) and (end is None or t < end) for t in times], pa.bool_())
    )


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, NaN being the same as NaN."""
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    for left, right in zip(one.combine_chunks().columns, other.combine_chunks().columns, strict=True):
        if pa.types.is_floating(left.type):
            bits = pa.int64() if left.type.bit_width == 64 else pa.int32()
            left, right = (
                pa.chunked_array([chunk.view(bits) for chunk in each.chunks], bits) for each in (left, right)
            )
        if not left.equals(right):
            return False
    return True


def assert_aggregates(found: Aggregate, table: pa.Table, names: list[str]) -> None:
    """Everything that an aggregate says about these columns is so."""
    assert found.rows == table.num_rows
    for name in names:
        field = table.schema.field(name)
        instants = pa.types.is_timestamp(field.type) or pa.types.is_date32(field.type)
        if instants:
            integers = pa.int64() if pa.types.is_timestamp(field.type) else pa.int32()
            values = table.column(name).cast(integers).to_pylist()
        else:
            values = table.column(name).to_pylist()
        present = [value for value in values if value is not None]
        numbers = [value for value in present if value == value]
        assert found[name].nulls == len(values) - len(present)
        assert found[name].nans == len(present) - len(numbers)
        assert found[name].values == len(numbers)
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            _assert_text(found, name, numbers)
        elif not numbers:
            assert (found[name].minimum(), found[name].maximum(), found[name].total()) == (None, None, None)
        elif pa.types.is_floating(field.type):
            _assert_floats(found, name, numbers)
        else:
            fits = not pa.types.is_decimal(field.type) or all(abs(value) < Decimal(2**63) / 100 for value in numbers)
            assert found[name].knows_bounds == fits
            if fits:
                assert (found[name].minimum(), found[name].maximum()) == (min(numbers), max(numbers))
            assert found[name].knows_sum == (not instants)
            if not instants:
                assert Fraction(found[name].total()) == sum(map(Fraction, numbers))  # Decimals would round


def _assert_floats(found: Aggregate, name: str, values: list[float]) -> None:
    def key(value: float) -> tuple[float, float]:
        return value, math.copysign(1, value)

    low, high = min(values, key=key), max(values, key=key)
    assert found[name].knows_bounds
    assert found[name].knows_sum
    assert key(found[name].minimum()) == key(low)
    assert key(found[name].maximum()) == key(high)
    size = math.fsum(abs(value) for value in values)
    assert math.isclose(found[name].total(), math.fsum(values), rel_tol=1e-9, abs_tol=size * 1e-12)


def _assert_text(found: Aggregate, name: str, values: list[Any]) -> None:
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    flags = found[name].fields["flags"]
    if not texts:
        assert found[name].knows_bounds
        assert found[name].minimum() is None
        return
    cut = {text: len(text) > 8 or text.endswith(b"\0") for text in texts}
    padded = {text: text[:8].ljust(8, b"\0") for text in texts}
    low, high = min(padded.values()), max(padded.values())
    assert bool(flags & MIN_TRUNCATED) == all(cut[text] for text in texts if padded[text] == low)
    assert bool(flags & MAX_TRUNCATED) == any(cut[text] for text in texts if padded[text] == high)
    record = found[name].fields
    assert int(record["min"]).to_bytes(8, "little") == low
    assert int(record["max"]).to_bytes(8, "little") == high
    if found[name].knows_bounds:
        assert (found[name].minimum(), found[name].maximum()) == (min(values), max(values))
