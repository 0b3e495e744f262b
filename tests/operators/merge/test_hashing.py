"""Equal rows have equal hashes, whatever they are kept in, and others have others."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.model.errors import SchemaError
from tidelog.operators.merge.payloads.hashing import check_hashable, hash_rows, numbers_of

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, 2, None, -1],
    pa.uint64(): [0, 2**64 - 1, None, 5],
    pa.float64(): [0.5, -0.5, None, float("inf"), float("nan")],
    pa.float32(): [0.5, -0.5, None],
    pa.bool_(): [True, False, None],
    pa.string(): ["", "a", "b", "ab", "ba", "eight888", "eight8889", "0123456789abcdefg", None],
    pa.large_binary(): [b"", b"\0", b"\0\0", None],
    pa.binary(3): [b"abc", b"abd", None],
    pa.string_view(): ["", "a", "longer than twelve bytes", None],
    pa.date32(): [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None],
    pa.timestamp("us", "UTC"): [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None],
    pa.time32("s"): [dt.time(1), dt.time(2), None],
    pa.decimal128(20, 2): [Decimal("1.25"), Decimal("-1.25"), None],
    pa.dictionary(pa.int32(), pa.string()): ["x", "y", None, ""],
    pa.struct([("a", pa.int64()), ("b", pa.string())]): [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None, {"a": 2}],
    pa.list_(pa.int64()): [[], [1], [1, 2], [None], None],
    pa.list_(pa.int16(), 2): [[1, 2], [2, 1], None],
    pa.large_list(pa.string()): [["a", "b"], ["ab"], ["", "ab"], None],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], [("a", 2)], [], None],
    pa.null(): [None],
}


def numbers(column: pa.Array) -> list[int]:
    return numbers_of(hash_rows([column], len(column))).tolist()


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_different_values_differ_and_slices_do_not(type_: pa.DataType) -> None:
    own = VALUES[type_]
    found = numbers(pa.array(own, type_))
    assert len(set(found)) == len(own)
    assert min(found) >= 0
    twice = pa.array([*own, *own], type_)
    assert numbers(twice) == found + found
    for first in range(len(own)):
        assert numbers(twice.slice(first, 3)) == (found + found)[first : first + 3]


def test_types_that_hold_the_same_values() -> None:
    texts = ["a", None, "bcd", "a"]
    found = [
        numbers(pa.array(texts, type_))
        for type_ in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
    ]
    assert all(each == found[0] for each in found)
    assert numbers(pa.array([1, 2], pa.int8())) == numbers(pa.array([1, 2], pa.int64()))


def test_zeros_and_nan_are_one_value_each() -> None:
    plus, minus, one, other = numbers(
        pa.array(np.array([0.0, -0.0, np.nan, np.uint64(0x7FF8000000000001).view(np.float64)]))
    )
    assert plus == minus
    assert one == other


def test_columns_are_told_apart() -> None:
    one, other = pa.array(["a", "ab", ""]), pa.array(["b", "", "ab"])
    rows = numbers_of(hash_rows([one, other], 3)).tolist()
    assert len({*rows, *numbers_of(hash_rows([other, one], 3)).tolist()}) == 4  # ("ab", "") and ("", "ab") come twice


def test_many_values_do_not_collide() -> None:
    texts = pa.array([f"{each % 977}-{each // 977}" for each in range(100_000)])
    assert len(set(numbers(texts))) == 100_000
    assert len(set(numbers(pa.array(np.arange(200_000) << 20)))) == 200_000


def test_values_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(SchemaError, match="column 'u'"):
        check_hashable(pa.dense_union([pa.field("a", pa.int64())]), "u")
