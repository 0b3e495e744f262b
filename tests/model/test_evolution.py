from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import SchemaError
from tidelog.model.evolution import Evolution, check_evolution, is_widening, project
from tidelog.model.schema import Schema

TS = pa.field("ts", pa.timestamp("us"), False)

INTEGERS = {
    **{pa.type_for_alias(f"int{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{pa.type_for_alias(f"uint{bits}"): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
MANTISSAS = {pa.float32(): 24, pa.float64(): 53}
DECIMALS = [pa.decimal128(precision, scale) for precision in (3, 5, 6, 7, 38) for scale in (0, 2, 3)]
OTHERS = [
    *(pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.date64()),
    *(pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
]
EVERY_TYPE = [*INTEGERS, *MANTISSAS, *DECIMALS, *OTHERS]


def can_widen(before: pa.DataType, after: pa.DataType) -> bool:
    """The rule, from the sets of values the types hold."""
    if before == after:
        return False
    if before in INTEGERS and after in INTEGERS:
        return INTEGERS[after][0] <= INTEGERS[before][0] and INTEGERS[before][1] <= INTEGERS[after][1]
    if before in INTEGERS and after in MANTISSAS:
        # Floats hold all integers up to two to the power of their mantissa.
        return max(abs(bound) for bound in INTEGERS[before]) <= 2 ** MANTISSAS[after]
    if before in DECIMALS and after in DECIMALS:
        largest = (10**before.precision - 1) * Fraction(10) ** -before.scale
        finest = Fraction(10) ** -before.scale
        step = Fraction(10) ** -after.scale
        return (finest / step).denominator == 1 and largest / step <= 10**after.precision - 1
    named = {("float", "double"), ("string", "large_string"), ("binary", "large_binary")}
    return (str(before), str(after)) in named


@pytest.mark.parametrize("before", EVERY_TYPE, ids=str)
def test_widening_is_holding_all_values(before: pa.DataType) -> None:
    for after in EVERY_TYPE:
        assert is_widening(before, after) == can_widen(before, after), (before, after)


def schema(*fields: pa.Field) -> Schema:
    return Schema(pa.schema([TS, *fields]), "ts")


A8, A64 = pa.field("a", pa.int8()), pa.field("a", pa.int64())
B, C = pa.field("b", pa.string()), pa.field("c", pa.float64())


def test_says_what_changes() -> None:
    old = schema(A8, B.with_nullable(False), C)
    new = Schema(pa.schema([C, TS, pa.field("d", pa.bool_()), B, A64]), "ts")
    assert check_evolution(old, new) == Evolution(added=("d",), widened=("a",), loosened=("b",), reordered=True)
    assert not check_evolution(old, new).is_identity
    assert check_evolution(old, old).is_identity


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (schema(A8, B), schema(A8), "column 'b' is missing from the new schema; columns cannot be removed"),
        (schema(A8), schema(A8, B.with_nullable(False)), "new column 'b' is not nullable"),
        (schema(A64), schema(A8), "'a' changes from int64 to int8, which is no widening"),
        (schema(A8), schema(A8.with_nullable(False)), "'a' changes from nullable to not null"),
        (schema(A64), schema(A64.with_type(pa.float64())), "'a' changes from int64 to float64"),
        (
            schema(),
            Schema(pa.schema([TS.with_type(pa.timestamp("ns"))]), "ts"),
            r"'ts' changes from timestamp\[us\] to timestamp\[ns\]; the type of the time column cannot change",
        ),
        (
            Schema(pa.schema([TS, TS.with_name("t2")]), "ts"),
            Schema(pa.schema([TS, TS.with_name("t2")]), "t2"),
            "time column changes from 'ts' to 't2'",
        ),
    ],
)
def test_refuses_other_changes(old: Schema, new: Schema, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        check_evolution(old, new)


def values_of(type_: pa.DataType) -> st.SearchStrategy[object]:
    if type_ in INTEGERS:
        return st.integers(*INTEGERS[type_])
    if type_ in DECIMALS:
        limit = 10**type_.precision - 1
        return st.integers(-limit, limit).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -type_.scale)))
    if type_ == pa.float32():
        return st.floats(width=32, allow_nan=False)
    return st.text(max_size=5) if pa.types.is_string(type_) else st.binary(max_size=5)


WIDENINGS = [(before, after) for before in EVERY_TYPE for after in EVERY_TYPE if can_widen(before, after)]


@given(st.data(), st.sampled_from(WIDENINGS))
def test_projected_values_are_the_same(data: st.DataObject, types: tuple[pa.DataType, pa.DataType]) -> None:
    before, after = types
    values = data.draw(st.lists(st.none() | values_of(before), max_size=6))
    stored = pa.array(values, before)
    old, new = schema(pa.field("x", before)), schema(pa.field("x", after))
    check_evolution(old, new)
    batch = pa.RecordBatch.from_arrays([pa.array([0] * len(stored), TS.type), stored], schema=old.arrow)
    projected = project(batch, new)
    assert projected.schema.equals(new.arrow)
    projected.validate(full=True)
    assert projected.column(1).to_pylist() == values


def test_projects_old_batches() -> None:
    old = schema(A8, B)
    batch = pa.RecordBatch.from_pydict({"ts": [1, 2], "a": [1, None], "b": ["x", None]}, schema=old.arrow)
    new = Schema(pa.schema([C, B, A64, TS]), "ts")
    projected = project(batch, new)
    assert projected.schema.equals(new.arrow)
    assert projected.to_pydict() == {"c": [None, None], "b": ["x", None], "a": [1, None], "ts": batch["ts"].to_pylist()}
    assert projected["b"].buffers()[2].address == batch["b"].buffers()[2].address
    assert project(projected, new) is projected
    assert project(batch.slice(0, 0), new).num_rows == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([B.with_nullable(False), A8], "no column 'b', which is not nullable"),
        ([], "column 'a' that the schema has not"),
        ([A8.with_type(pa.bool_())], "'a' of the batch has type int8, which does not widen to bool"),
        ([A8.with_nullable(False)], "nulls in column 'a'"),
    ],
)
def test_refuses_to_project_what_never_was_older(fields: list[pa.Field], reason: str) -> None:
    batch = pa.RecordBatch.from_pydict({"ts": [1], "a": [None]}, schema=schema(A8).arrow)
    with pytest.raises(SchemaError, match=reason):
        project(batch, schema(*fields))
