"""Lists behind IN: any literals, any number of them, read by two ways that must agree with DuckDB and one another."""

from __future__ import annotations

import datetime
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expr.oracle import BATCH, SCHEMA, difference
from support.profiles import scaled
from tidelog.expr import ExpressionError, column_ranges, parse, predicate
from tidelog.expr.parsing.lists import shortened
from tidelog.storage.summary import summarise

NUMBERS = [
    *(
        "0",
        "1",
        "-1",
        "3",
        "7",
        "127",
        "128",
        "-128",
        "255",
        "300",
        "-77",
        "1000",
        "65535",
        "2147483647",
        "-2147483648",
    ),
    *(
        "2147483648",
        "1000000000000",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "+5",
        "007",
    ),
    *(
        "12345678901234567890123",
        "1.5",
        "-2.5",
        "0.1",
        ".5",
        "1.25",
        "-1.25",
        "999.99",
        "10.50",
        "3.",
        "1e0",
        "1.5e300",
    ),
    *("-2.5E0", "2.675", "0.0005"),
]
STRINGS = ["''", "'a'", "'Abc'", "'it''s'", "'12'", "'x%y_z'", "'añ🦆é'", "'a,b,c'", "' pad '", "'IN (1, 2)'", "'--'"]
DATES = ["'1970-01-01'", "'2020-01-01'", "'1999-12-31 23:59:59.5'", "'2020-03-01 00:00:00'"]
KINDS = {
    "a b i l ua ub ui ul f d e m n k": NUMBERS,
    "s t": STRINGS,
    "dt ts tu t_s t_ms t_ns tz": DATES,
    "q p": ["true", "FALSE", "True"],
}


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    columns, literals = draw(st.sampled_from(sorted(KINDS.items())))
    column = draw(st.sampled_from(columns.split()))
    members = draw(st.lists(st.sampled_from([*literals, *literals, "null"]), min_size=1, max_size=12))
    return f"{column} {draw(st.sampled_from(['in', 'NOT IN', 'In']))}", members


def is_refused(text: str) -> bool:
    try:
        parse(text, SCHEMA)
    except ExpressionError as error:
        return any(part in str(error) for part in ("do not meet", "cannot be read as", "not supported"))
    return False


@settings(max_examples=scaled(100))
@given(lists(), st.sampled_from(["", " ", "\n\t"]))
def test_long_and_short_lists_agree_with_duckdb(asked: tuple[str, list[str]], space: str) -> None:
    tested, members = asked
    short = f"{tested} ({', '.join(members)})"
    long = f"{tested}{space}({space}{(space + ',' + ' ' * 600 + space).join([*members, *members[:1]] * 2)}{space})"
    assert not shortened(short).lists
    assert len(shortened(long).lists) == 1
    if is_refused(short):
        with pytest.raises(ExpressionError):
            parse(long, SCHEMA)
        return
    assert difference(short) is None
    assert difference(long) is None
    assert parse(long, SCHEMA).type == pa.bool_()
    assert parse(str(parse(long, SCHEMA)), SCHEMA) == parse(long, SCHEMA)
    assert parse(str(parse(short, SCHEMA)), SCHEMA) == parse(short, SCHEMA)
    found = [predicate(text, SCHEMA).mask(BATCH).tolist() for text in (short, long)]
    assert found[0] == found[1]


@settings(max_examples=scaled(40))
@given(lists(), st.lists(st.sampled_from(["i", "l + 1", "d", "null"]), min_size=1, max_size=3), st.randoms())
def test_literals_among_other_expressions(asked: tuple[str, list[str]], others: list[str], dice: random.Random) -> None:
    tested, members = asked
    if tested.split()[0] not in ("a", "b", "i", "l", "d", "e", "m", "n"):
        return
    mixed = [*members, *others]
    dice.shuffle(mixed)
    text = f"{tested} ({', '.join(mixed)})"
    if not is_refused(text):
        assert difference(text) is None


FAR = 100_000


def test_hundreds_of_thousands_of_values() -> None:
    dice = np.random.default_rng(3)
    values, wanted = dice.integers(-(10**12), 10**12, 1000), dice.integers(-(10**12), 10**12, FAR)
    wanted[:300] = values[:300]
    schema = pa.schema([("v", pa.int64()), ("s", pa.string())])
    batch = pa.record_batch([pa.array(values), pa.array([f"k'{value}" for value in values.tolist()])], schema=schema)
    numbers = ",".join(map(str, wanted.tolist()))
    texts = ", ".join(f"'k''{value}'" for value in wanted.tolist())
    expected = np.isin(values, wanted)
    for text in (f"v in ({numbers})", f"s in ({texts})", f"s in ({texts}, null) and v in (\n{numbers}\n,NULL)"):
        assert (predicate(text, schema).mask(batch) == expected).all()
    for text in (f"v not in ({numbers})", f"not (s in ({texts}))"):
        assert (predicate(text, schema).mask(batch) == ~expected).all()
    assert not predicate(f"v not in ({numbers}, null)", schema).mask(batch).any()
    rounded = predicate(f"v in ({numbers}, 1.5, 2e0)", schema)
    assert (rounded.mask(batch) == np.isin(values.astype(np.float64), wanted.astype(np.float64))).all()


def test_values_between_the_bounds_of_a_block_decide() -> None:
    schema = pa.schema([("v", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("u", pa.uint64())])
    numbers = list(range(0, 1000, 10))
    batch = pa.record_batch(
        [
            pa.array([*numbers, *(n + 5 for n in numbers)]),
            pa.array([f"{n:05}" for n in (*numbers, *(n + 5 for n in numbers))]),
            pa.array([float(n) for n in (*numbers, *(n + 5 for n in numbers))]),
            pa.array([2**64 - 1 - n for n in (*numbers, *(n + 5 for n in numbers))], pa.uint64()),
        ],
        schema=schema,
    )
    cuts = np.arange(201)
    summaries = {name: summarise(batch.column(name), cuts) for name in schema.names}
    rows = np.ones(200, np.int64)
    for text in (
        f"v in ({','.join(map(str, numbers))})",
        f"s in ({','.join(repr(f'{n:05}') for n in numbers)})",
        f"d in ({','.join(f'{n}e0' for n in numbers)})",
        f"u in ({','.join(str(2**64 - 1 - n) for n in numbers)})",
    ):
        assert predicate(text, schema).may_match(summaries, rows).tolist() == [True] * 100 + [False] * 100


@settings(max_examples=scaled(60))
@given(st.data())
def test_no_block_with_a_matching_row_is_ruled_out(data: st.DataObject) -> None:
    dice = random.Random(data.draw(st.integers(0, 10**6)))
    kind = data.draw(
        st.sampled_from(["int8", "int32", "int64", "uint64", "double", "float", "string", "date32", "s", "ns"])
    )
    type_ = {"s": pa.timestamp("s"), "ns": pa.timestamp("ns")}.get(kind) or getattr(
        pa, {"double": "float64", "float": "float32"}.get(kind, kind)
    )()
    values, literals = _values(kind, dice)
    column = pa.array([dice.choice(values) for _ in range(60)], type_)
    cuts = np.array(sorted({0, 60, *(dice.randrange(60) for _ in range(9))}))
    members = [dice.choice(literals) for _ in range(dice.choice([3, 65, 200]))]
    text = f"c {data.draw(st.sampled_from(['in', 'not in']))} ({', '.join(members)})"
    schema = pa.schema([("c", type_)])
    asked, batch = predicate(text, schema), pa.record_batch([column], schema=schema)
    mask = asked.mask(batch)
    may = asked.may_match({"c": summarise(column, cuts)}, np.diff(cuts))
    must = asked.must_match({"c": summarise(column, cuts)}, np.diff(cuts))
    for first, last, possible, certain in zip(cuts[:-1], cuts[1:], may, must, strict=True):
        assert possible or not mask[first:last].any()
        assert not certain or mask[first:last].all()
    ranges = column_ranges(asked.expression)
    if "c" in ranges and kind in ("int8", "int32", "int64"):
        known = [value for value, is_in in zip(column.to_pylist(), mask, strict=True) if is_in]
        assert all(any(part.contains(value) for part in ranges["c"].intervals) for value in known)


def _values(kind: str, dice: random.Random) -> tuple[list[Any], list[str]]:
    """Values of a column, and literals of which some are among them."""
    if kind == "string":
        texts = [dice.choice(["", "a", "prefixed "]) + str(dice.randrange(300)) for _ in range(200)]
        return [None, *texts], ["NULL", *(f"'{text}'" for text in texts[:150])] if dice.random() < 0.3 else [
            f"'{text}'" for text in texts
        ]
    low, high = {"int8": (-128, 127), "uint64": (0, 2**64 - 1)}.get(kind, (-500, 500))
    numbers = [dice.randint(low, high) for _ in range(200)]
    if kind in ("double", "float"):
        floats = [number / 4 for number in numbers]
        return [None, float("nan"), -0.0, *floats], ["'nan'", *(repr(value) for value in floats)]
    if kind in ("date32", "s", "ns"):
        start = datetime.datetime(2020, 1, 1)
        times = [start + datetime.timedelta(days=number) for number in numbers]
        return [None, *(time.date() if kind == "date32" else time for time in times)], [f"'{time}'" for time in times]
    return [None, *numbers], [*(str(number) for number in numbers), "-600", "600.5"][
        : 200 if dice.random() < 0.8 else 202
    ]


def test_what_stands_in_strings_names_and_comments_is_left_alone() -> None:
    numbers = ", ".join(map(str, range(1000)))
    schema = pa.schema([("v", pa.int64()), ("s", pa.string()), (f"in ({numbers})", pa.int64())])
    assert not shortened(f"s = 'v in ({numbers})'").lists
    assert not shortened(f'"in ({numbers})" = 3').lists
    assert not shortened(f"v = 1 -- v in ({numbers})").lists
    assert not shortened(f"v in ({numbers}, v)").lists
    assert not shortened(f"margin ({numbers})").lists
    assert str(parse(f"s = 'v in ({numbers})'", schema)) == f"s = 'v in ({numbers})'"
    assert parse(f'"in ({numbers})" = 3', schema).columns == (f"in ({numbers})",)
    both = shortened(f"v in ({numbers}) or s in ('{'a' * 2000}') and v not in({numbers})")
    assert len(both.lists) == 3
    assert parse(f"v in ({numbers}, v + 1)", schema).columns == ("v",)


def test_errors_behind_a_list_are_at_their_place() -> None:
    schema = pa.schema([("v", pa.int64())])
    text = f"v in ({', '.join(map(str, range(1000)))}) and volumn < 5"
    with pytest.raises(ExpressionError, match="no column 'volumn'") as caught:
        parse(text, schema)
    assert caught.value.position == text.index("volumn")
    assert len(str(caught.value)) < 1000
    with pytest.raises(ExpressionError, match="syntax error") as caught:
        parse(text + " and )", schema)
    assert caught.value.position is not None
    assert abs(caught.value.position - len(text)) < 10
    for wrong in (f"position(v in ({'1,' * 1000}1)) > 3", f"v in ({'1,' * 1000}'x')"):
        with pytest.raises(ExpressionError):
            parse(wrong, schema)
