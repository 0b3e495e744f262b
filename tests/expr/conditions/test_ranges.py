"""Ranges and pruning never exclude a row that matches, and certainty is certain: random predicates over random data."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.expr import ExpressionError, column_ranges, parse, predicate
from tidelog.expr.conditions.atoms import point_of
from tidelog.expr.conditions.intervals import Interval, closed, complement, intersect, unite
from tidelog.expr.values.types import sql_type
from tidelog.storage.summary import summarise

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(9, 2)),
        ("k", pa.decimal128(30, 2)),
        ("s", pa.string()),
        ("z", pa.large_binary()),
        ("q", pa.bool_()),
        ("ts", pa.timestamp("us")),
        ("t_s", pa.timestamp("s")),
        ("tz", pa.timestamp("ms", "UTC")),
        ("dt", pa.date32()),
        ("d64", pa.date64()),
    ]
)

Blocks = tuple[pa.RecordBatch, np.ndarray]
"""Rows, and where blocks of them are cut."""

_DAY = 86_400
_seconds = st.integers(-3 * _DAY, 3 * _DAY)
_floats = st.sampled_from([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 0.1, 7.0, 100.0])
_text = st.sampled_from(["", "a", "ab", "abc", "abcdefgh", "abcdefghi", "abcdefgh\0", "b", "é", "zz", "a\0"])

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-5, 5) | st.sampled_from([2**31 - 1, -(2**31)]),
    "u": st.integers(0, 5) | st.just(2**64 - 1),
    "d": _floats,
    "f": _floats,
    "m": st.integers(-300, 300).map(lambda n: Decimal(n) / 100),
    "k": st.integers(-300, 300).map(lambda n: Decimal(n) / 100) | st.just(Decimal(10) ** 25),
    "s": _text,
    "z": _text.map(str.encode),
    "q": st.booleans(),
    "ts": _seconds.map(lambda s: s * 10**6) | st.integers(-3, 3),
    "t_s": _seconds,
    "tz": _seconds.map(lambda s: s * 1000),
    "dt": st.integers(-3, 3),
    "d64": st.integers(-3, 3).map(lambda day: day * _DAY * 1000),
}

_NUMBERS = ["0", "1", "-2", "5", "1.5", "2.25", "-0.5", "1e0", "300", "99999999999", "1e30", "'nan'", "'inf'"]
_INSTANTS = ["'1970-01-01'", "'1970-01-02 00:00:00.5'", "timestamp '1969-12-31 12:00:00'", "date '1970-01-02'"]
CONSTANTS: dict[str, list[str]] = {
    **dict.fromkeys(("i", "u", "m", "k"), _NUMBERS[:-2]),
    **dict.fromkeys(("d", "f"), _NUMBERS),
    **dict.fromkeys(("ts", "t_s", "dt", "d64", "tz"), _INSTANTS),
    "s": ["''", "'a'", "'abcdefgh'", "'abcdefgha'", "'b'", "'é'"],
    "z": ["''::blob", "'a'::blob", "'abcdefgh'::blob", "'abcdefghij'::blob"],
    "q": ["true", "false"],
}


@st.composite
def atoms(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(list(CONSTANTS)))
    constant = st.sampled_from(CONSTANTS[column]) | st.just("NULL")
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    form = draw(st.integers(0, 9))
    if form == 0:
        return f"{column} {draw(st.sampled_from(['is null', 'is not null']))}"
    if form == 1:
        return f"{column} in ({', '.join(draw(st.lists(constant, min_size=1, max_size=4)))})"
    if form == 2:
        return f"{column} between {draw(constant)} and {draw(constant)}"
    if form == 3:
        return f"{column} {draw(st.sampled_from(['is distinct from', 'is not distinct from']))} {draw(constant)}"
    if form == 4:
        return f"{draw(constant)} {operator} {column}"
    if form == 5:
        patterns = ["a%", "ab_%", "abcdefgh%", "%", "a", "%b", ""]
        return f"s {draw(st.sampled_from(['like', 'not like']))} '{draw(st.sampled_from(patterns))}'"
    if form == 6:
        moved = [
            "i + 3",
            "2 - i",
            "i - 100",
            "ts + interval '1 hour'",
            "dt + 1",
            "cast(ts as date)",
            "cast(tz as date)",
        ]
        left = draw(st.sampled_from(moved))
        right = "2" if left[0] == "i" or left.startswith("2 ") else draw(st.sampled_from(_INSTANTS[:1] + _INSTANTS[3:]))
        return f"{left} {operator} {right}"
    if form == 7:
        return draw(st.sampled_from(["q", "isnan(d)", "not q", "q is true", "q is not false", "starts_with(s, 'ab')"]))
    return f"{column} {operator} {draw(constant)}"


def trees(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
            | st.builds("not ({})".format, inner)
            | st.builds(
                "({}) {}".format, inner, st.sampled_from(["is true", "is not true", "is false", "is not false"])
            )
        ),
        max_leaves=4,
    )


@st.composite
def batches(draw: st.DrawFn) -> Blocks:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rows = sum(sizes)
    arrays = []
    for field in SCHEMA:
        value = VALUES[field.name]
        pool = draw(st.lists(value | st.none(), min_size=1, max_size=4))
        picked = draw(st.lists(st.integers(0, len(pool) - 1), min_size=rows, max_size=rows))
        arrays.append(pa.array([pool[place] for place in picked], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), np.cumsum([0, *sizes])


def _inside(value: Any, found: Any, type_: pa.DataType) -> bool:
    if value is None:
        return bool(found.nulls)
    point = point_of(pa.scalar(value, type_))
    if isinstance(point, float) and math.isnan(point):
        return bool(found.nans)
    return any(interval.contains(point) for interval in found.intervals)


@settings(max_examples=scaled(150))
@given(text=trees(atoms()), data=batches())
def test_no_matching_row_is_excluded_and_certainty_is_certain(
    text: str, data: tuple[pa.RecordBatch, np.ndarray]
) -> None:
    batch, cuts = data
    try:
        tested = predicate(text, SCHEMA)
        mask = tested.mask(batch)
    except ExpressionError:
        return  # refused types, and overflow
    for name, found in column_ranges(tested.expression).items():
        if not mask.any():
            break
        column = parse(f'"{name}"', SCHEMA)
        values = column.evaluate(batch).filter(pa.array(mask)).to_pylist()
        assert all(_inside(value, found, column.type) for value in values), name
    exact = tested.exact_range
    if exact is not None:
        column = parse(f'"{exact.column}"', SCHEMA)
        values = column.evaluate(batch).to_pylist()
        assert mask.tolist() == [_inside(value, exact, column.type) for value in values]
    rows = np.diff(cuts)
    summaries = {name: summarise(batch.column(name), cuts) for name in tested.columns}
    may, must = tested.may_match(summaries, rows), tested.must_match(summaries, rows)
    for block, (start, end) in enumerate(itertools.pairwise(cuts)):
        assert may[block] or not mask[start:end].any()
        assert not must[block] or mask[start:end].all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d between 1.5 and 2.5", "[1.5, 2.5]"),
        ("d >= 1.5", "[1.5, inf)"),
        ("not d >= 1.5", "(-inf, 1.5)"),
        ("i > 1 and i <= 7.5", "[2, 7]"),
        ("i in (3, 1, 2)", "[1, 3]"),
        ("i = 1 or i = 3", "[1, 1] [3, 3]"),
        ("cast(ts as date) = '1970-01-02'", "[86400000000, 172799999999]"),
        ("s like 'ab%'", "[b'ab', b'ac')"),
        ("i + 3 < 5", None),  # raises for large numbers
        ("i > 1 and d > 1", None),
        ("i > 1 or i is null", None),
        ("s like '%ab'", None),
        ("i % 2 = 1", None),
        ("true", None),
    ],
)
def test_exact_ranges(text: str, expected: str | None) -> None:
    found = predicate(text, SCHEMA).exact_range
    assert (found and " ".join(map(str, found.intervals))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i > 1.5", {"i": "[2, inf)"}),
        ("1.5 > i", {"i": "(-inf, 1]"}),
        ("i + 3 < 5", {"i": "(-inf, 1]"}),
        ("i + 2147483647 < 5", {"i": "(-inf, -2147483643]"}),
        ("2 - i < 5", {"i": "[-2, inf)"}),
        ("i > 5 and i < 3", {"i": ""}),
        ("i = 1 or i = 3 or i > 100", {"i": "[1, 1] [3, 3] [101, inf)"}),
        ("i = 1 or d > 2", {}),
        ("(i = 1 and d > 2) or (i = 7 and q)", {"i": "[1, 1] [7, 7]"}),
        ("not (i between 0 and 10)", {"i": "(-inf, -1] [11, inf)"}),
        ("i in (3, 1, 2, null)", {"i": "[1, 3]"}),
        ("i not in (1, null)", {"i": ""}),
        ("i <> 5", {"i": "(-inf, 4] [6, inf)"}),
        ("s like 'ab%'", {"s": "[b'ab', b'ac')"}),
        ("s not like 'ab%'", {"s": "(-inf, b'ab') [b'ac', inf)"}),
        ("s like '%ab'", {"s": "(-inf, inf)"}),
        ("cast(ts as date) = '1970-01-02'", {"ts": "[86400000000, 172799999999]"}),
        ("ts >= '1970-01-01' and ts < timestamp '1970-01-01' + interval 1 hour", {"ts": "[0, 3599999999]"}),
        ("dt < timestamp '1970-01-02 10:00:00'", {"dt": "(-inf, 1]"}),
        ("m > 1.255", {"m": "[126, inf)"}),
        ("d > 5", {"d": "(5.0, inf)"}),
        ("length(s) > 5", {}),
        ("true", {}),
    ],
)
def test_ranges(text: str, expected: dict[str, str]) -> None:
    found = column_ranges(parse(text, SCHEMA))
    assert {name: " ".join(map(str, each.intervals)) for name, each in found.items()} == expected


def test_nan_and_null_are_told_apart() -> None:
    assert column_ranges(parse("d > 5", SCHEMA))["d"].nans
    assert not column_ranges(parse("d < 5", SCHEMA))["d"].nans
    assert not column_ranges(parse("d > 5", SCHEMA))["d"].nulls
    only_null = column_ranges(parse("d is null", SCHEMA))["d"]
    assert (only_null.intervals, only_null.nulls, only_null.nans) == ((), True, False)


def test_blocks_are_told_apart() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3, 10, 11, 12, 5, 20, None]})
    cuts = np.array([0, 3, 6, 9])
    summaries, rows = {"x": summarise(batch.column(0), cuts)}, np.diff(cuts)
    tested = predicate("x >= 10", batch.schema)
    assert tested.may_match(summaries, rows).tolist() == [False, True, True]
    assert tested.must_match(summaries, rows).tolist() == [False, True, False]
    assert tested.may_match({}, rows).tolist() == [True, True, True]
    both = predicate("x >= 10 and x < 100", batch.schema)
    assert both.must_match(summaries, rows).tolist() == [False, True, False]
    either = predicate("x is null or x < 4", batch.schema)
    assert either.may_match(summaries, rows).tolist() == [True, False, True]
    assert either.must_match(summaries, rows).tolist() == [True, False, False]


def test_sql_types_of_stored_columns() -> None:
    assert all(sql_type(field.type) is not None for field in SCHEMA)


_points = st.integers(-4, 4)
_intervals = st.lists(
    st.builds(Interval, st.none() | _points, st.booleans(), st.none() | _points, st.booleans()), max_size=4
)


@given(left=_intervals, right=_intervals)
def test_algebra_of_intervals(left: list[Interval], right: list[Interval]) -> None:
    a, b = unite(left), unite(right)
    for point in (half / 2 for half in range(-11, 12)):
        in_a, in_b = (any(part.contains(point) for part in parts) for parts in (left, right))
        assert any(part.contains(point) for part in a) == in_a
        assert any(part.contains(point) for part in intersect(a, b)) == (in_a and in_b)
        assert any(part.contains(point) for part in complement(a)) != in_a
        if point == int(point):
            assert any(part.contains(int(point)) for part in closed(a)) == in_a
