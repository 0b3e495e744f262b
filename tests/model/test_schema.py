from __future__ import annotations

import json
import pickle
import string

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import NotFoundError, SchemaError, TidelogError
from tidelog.model.schema import Schema

STORABLE = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    *(pa.date32(), pa.date64(), pa.decimal128(10, 2), pa.decimal128(38, 38), pa.decimal128(1, 0)),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("us", zone) for zone in ("UTC", "Europe/Berlin", "+05:30", "Etc/GMT+7")),
]

NORMALISED = [
    (pa.string_view(), pa.string()),
    (pa.binary_view(), pa.binary()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    (pa.dictionary(pa.int32(), pa.large_string(), ordered=True), pa.large_string()),
    (pa.dictionary(pa.uint16(), pa.string_view()), pa.string()),
    (pa.dictionary(pa.int64(), pa.decimal128(9, 1)), pa.decimal128(9, 1)),
]

REFUSED = [
    (pa.time32("ms"), "int64 nanoseconds since midnight, or a string"),
    (pa.time64("ns"), "int64 nanoseconds since midnight, or a string"),
    (pa.duration("us"), "int64 in a unit of your choice"),
    (pa.month_day_nano_interval(), "integer columns"),
    (pa.float16(), "float32"),
    (pa.decimal256(40, 2), "decimal128"),
    (pa.decimal32(5, 2), "decimal128"),
    (pa.decimal64(12, 2), "decimal128"),
    (pa.decimal128(1, 2), "use more precision"),
    (pa.decimal128(5, -1), "scale the values"),
    (pa.null(), "name the type its values will have"),
    (pa.binary(16), "use binary"),
    (pa.struct([("x", pa.int64())]), "column of each field"),
    (pa.list_(pa.int64()), "one event per element"),
    (pa.large_list(pa.int64()), "one event per element"),
    (pa.list_(pa.int64(), 3), "one event per element"),
    (pa.list_view(pa.int64()), "one event per element"),
    (pa.map_(pa.string(), pa.int64()), "one event per element"),
    (pa.dense_union([pa.field("x", pa.int64())]), "nullable column of each alternative"),
    (pa.sparse_union([pa.field("x", pa.int64())]), "nullable column of each alternative"),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "type of its values"),
    (pa.uuid(), "storage type"),
    (pa.bool8(), "storage type"),
    (pa.json_(), "storage type"),
    (pa.dictionary(pa.int8(), pa.float16()), "float32"),
]


def schema_of(type_: pa.DataType) -> Schema:
    return Schema(pa.schema([("ts", pa.int64()), ("x", type_)]), "ts")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "_seq")
time_types = st.sampled_from([pa.int64(), *(each for each in STORABLE if pa.types.is_timestamp(each))])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    columns = draw(st.dictionaries(names, st.tuples(st.sampled_from(STORABLE), st.booleans()), max_size=6))
    fields = [pa.field(name, type_, nullable) for name, (type_, nullable) in columns.items()]
    time = draw(names.filter(lambda name: name not in columns))
    fields.insert(draw(st.integers(0, len(fields))), pa.field(time, draw(time_types)))
    return Schema(pa.schema(fields), time)


@pytest.mark.parametrize("type_", STORABLE, ids=str)
def test_keeps_storable_types(type_: pa.DataType) -> None:
    assert schema_of(type_).field("x") == pa.field("x", type_)


@pytest.mark.parametrize(("given_type", "stored"), NORMALISED, ids=str)
def test_normalises_encodings(given_type: pa.DataType, stored: pa.DataType) -> None:
    assert schema_of(given_type).field("x").type == stored


@pytest.mark.parametrize(("type_", "advice"), REFUSED, ids=str)
def test_refuses_other_types_with_advice(type_: pa.DataType, advice: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_of(type_)
    assert "column 'x'" in str(caught.value)
    assert str(caught.value).partition("Instead")[2].find(advice) > 0


@pytest.mark.parametrize(
    "type_", [each for each in STORABLE if each != pa.int64() and not pa.types.is_timestamp(each)], ids=str
)
def test_time_is_int64_or_a_timestamp(type_: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"time column 'x' has type .*; expected int64, or a timestamp"):
        Schema(pa.schema([("x", type_)]), "x")


def test_time_is_never_nullable_and_other_flags_are_kept() -> None:
    schema = Schema(
        pa.schema([pa.field("a", pa.int8()), pa.field("ts", pa.int64()), pa.field("b", pa.int8(), False)]), "ts"
    )
    assert [field.nullable for field in schema] == [True, False, False]


def test_describes_its_time() -> None:
    schema = Schema(pa.schema([("x", pa.int8()), ("ts", pa.timestamp("ms", "Asia/Tokyo")), ("y", pa.string())]), "ts")
    assert (schema.time, schema.time_index, schema.unit, schema.timezone) == ("ts", 1, "ms", "Asia/Tokyo")
    assert schema.time_type == pa.timestamp("ms", "Asia/Tokyo")
    assert schema.names == ("x", "ts", "y")
    assert schema.attributes == ("x", "y")
    assert schema.clock.instant("1970-01-01T00:00:01Z") == 1000
    assert len(schema) == 3
    assert [field.name for field in schema] == ["x", "ts", "y"]
    assert "y" in schema
    assert "z" not in schema
    assert schema.index("y") == 2
    integer = Schema(pa.schema([("ts", pa.int64())]), "ts")
    assert (integer.unit, integer.timezone) == (None, None)


def test_metadata_is_dropped() -> None:
    fields = [pa.field("ts", pa.int64(), metadata={"a": "b"}), pa.field("x", pa.int8(), metadata={"unit": "m"})]
    schema = Schema(pa.schema(fields, metadata={"pandas": "{}"}), "ts")
    assert schema.arrow.metadata is None
    assert all(field.metadata is None for field in schema)


@pytest.mark.parametrize(
    ("columns", "time", "reason"),
    [
        ([("ts", pa.int64())], "t", "no column 't' to take the event time from; did you mean 'ts'?"),
        ([], "ts", "no column 'ts' .* there are none"),
        ([("ts", pa.int64()), ("", pa.int8())], "ts", "column 1 has an empty name"),
        ([("ts", pa.int64()), ("x", pa.int8()), ("x", pa.int8())], "ts", "columns 1 and 2 are both called 'x'"),
        ([("ts", pa.int64()), ("_seq", pa.int64())], "ts", "'_seq' is reserved"),
        ([("_seq", pa.int64())], "_seq", "'_seq' is reserved"),
        ([("ts", pa.timestamp("us", "Mars/Base"))], "ts", "'ts' has the unknown time zone 'Mars/Base'"),
        ([("ts", pa.timestamp("us", "+25:00"))], "ts", r"unknown time zone '\+25:00'"),
        ([("ts", pa.timestamp("us", "../etc/passwd"))], "ts", "unknown time zone"),
        ([("ts", pa.int64())], None, "no column None"),
    ],
)
def test_refuses_other_columns(columns: list[tuple[str, pa.DataType]], time: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        Schema(pa.schema(columns), time)


def test_other_names_with_underscores_are_free() -> None:
    assert Schema(pa.schema([("_time", pa.int64()), ("_SEQ", pa.int8())]), "_time").attributes == ("_SEQ",)


def test_refuses_what_is_no_schema() -> None:
    with pytest.raises(SchemaError, match=r"found a dict .* expected a pyarrow.Schema"):
        Schema({"ts": pa.int64()}, "ts")


def test_unknown_columns_are_named() -> None:
    schema = schema_of(pa.int8())
    for ask in (schema.index, schema.field):
        with pytest.raises(NotFoundError, match=r"no column 'X'; did you mean 'x'\?"):
            ask("X")


def test_repr_says_all() -> None:
    schema = Schema(
        pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), pa.field("n", pa.int8(), False)]), "ts"
    )
    assert repr(schema) == "Schema(time='ts', ts: timestamp[us, tz=UTC] not null, x: float64, n: int8 not null)"


def test_is_immutable() -> None:
    schema = schema_of(pa.int8())
    for name in ("arrow", "time", "other"):
        with pytest.raises(AttributeError):
            setattr(schema, name, None)


@given(schemas(), schemas())
def test_equality_is_that_of_columns_and_time(a: Schema, b: Schema) -> None:
    twin = Schema(a.arrow, a.time)
    assert twin == a
    assert hash(twin) == hash(a)
    described = [[(field.name, str(field.type), field.nullable) for field in each] + [each.time] for each in (a, b)]
    assert (a == b) == (described[0] == described[1])
    assert a != object()


def test_equality_sees_the_time_column() -> None:
    arrow = pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.int64(), False)])
    assert Schema(arrow, "a") != Schema(arrow, "b")


@given(schemas())
def test_survives_json_and_pickle(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_dict(schema.to_dict()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert json.loads(schema.to_json()) == schema.to_dict()
    assert Schema.from_json(schema.to_json()).to_json() == schema.to_json()


def test_json_is_stable() -> None:
    """The text is stored with streams: old ones must be read for ever."""
    types = [("ts", pa.timestamp("us", "Europe/Berlin")), ("größe", pa.float64()), ("d", pa.decimal128(10, 2))]
    schema = Schema(pa.schema([*types, pa.field("n", pa.uint8(), False), ("t", pa.timestamp("s"))]), "ts")
    stored = {
        "version": 1,
        "time": "ts",
        "columns": [
            {"name": "ts", "type": "timestamp", "unit": "us", "zone": "Europe/Berlin", "nullable": False},
            {"name": "größe", "type": "float64", "nullable": True},
            {"name": "d", "type": "decimal128", "precision": 10, "scale": 2, "nullable": True},
            {"name": "n", "type": "uint8", "nullable": False},
            {"name": "t", "type": "timestamp", "unit": "s", "nullable": True},
        ],
    }
    assert schema.to_dict() == stored
    assert Schema.from_json(json.dumps(stored)) == schema
    assert "größe" in schema.to_json()


def test_json_names_every_storable_type_differently() -> None:
    texts = {schema_of(type_).to_json() for type_ in STORABLE}
    assert len(texts) == len(STORABLE)


def test_stored_zones_need_not_be_known_here() -> None:
    stored = schema_of(pa.timestamp("us", "Europe/Berlin")).to_json().replace("Europe/Berlin", "Europe/Atlantis")
    assert Schema.from_json(stored).field("x").type.tz == "Europe/Atlantis"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 2, expected version 1; it may have been written by a newer tidelog"),
        ({"version": None}, "version None"),
        ({"time": "y"}, "no column 'y'"),
        ({"time": ["ts"]}, "no column"),
        ({"columns": 5}, "damaged"),
        ({"columns": [5]}, "damaged"),
        ({"columns": [{"type": "int64", "nullable": True}]}, "damaged"),
        ({"columns": [{"name": "ts", "type": "int64"}]}, "damaged"),
        ({"columns": [{"name": "ts", "type": "int64", "nullable": 1}]}, "not true or false"),
        ({"columns": [{"name": "ts", "type": "int65", "nullable": False}]}, "does not describe a column type"),
        ({"columns": [{"name": "ts", "type": "timestamp", "nullable": False}]}, "does not describe a column type"),
        ({"columns": [{"name": "ts", "type": "timestamp", "unit": "h", "nullable": False}]}, "not describe"),
        ({"columns": [{"name": "ts", "type": "int64", "unit": "s", "nullable": False}]}, "unknown members"),
    ],
)
def test_refuses_damaged_json(change: dict[str, object], reason: str) -> None:
    values = schema_of(pa.int8()).to_dict() | change
    with pytest.raises(SchemaError, match=reason):
        Schema.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '"schema"'])
def test_refuses_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(SchemaError):
        Schema.from_json(text)


@given(st.text(string.printable))
def test_any_text_is_refused_in_the_same_way(text: str) -> None:
    with pytest.raises(TidelogError):
        Schema.from_json(text)
