"""Conditions of columns that are dictionaries: the same as of plain texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelog.expr import all_of, predicate

TEXTS = ["b", None, "a", "", "b", "ab", None, "c"]
NUMBERS = [1, 2, None, 4, 5, 6, 7, 8]
SCHEMA = pa.schema([("s", pa.string()), ("t", pa.string()), ("n", pa.int64())])
PLAIN = pa.record_batch([TEXTS, TEXTS[::-1], NUMBERS], schema=SCHEMA)
CODED = pa.record_batch(
    [PLAIN["s"].dictionary_encode(), PLAIN["t"].dictionary_encode(), PLAIN["n"]], names=SCHEMA.names
)

CONDITIONS = [
    "s = 'b'",
    "s <> 'b'",
    "s IN ('a', 'ab')",
    "s IS NULL",
    "s IS NOT NULL AND n > 3",
    "s LIKE '%b'",
    "coalesce(s, 'x') = 'x'",
    "upper(s) = 'B' AND n < 5",
    "s = t",
    "s < t OR n = 1",
    "n BETWEEN 2 AND 6 AND s >= 'a' AND t IS NULL",
    "NOT (s = 'b') AND NOT (s = 'b')",
    "TRUE",
    "s = 'nowhere' AND t = 'b'",
]


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("start", [0, 3])
def test_dictionaries_give_the_same_rows(text: str, start: int) -> None:
    found = predicate(text, SCHEMA)
    assert found.mask(CODED.slice(start)).tolist() == found.mask(PLAIN.slice(start)).tolist()


@pytest.mark.parametrize("text", CONDITIONS)
def test_parts_say_together_what_the_whole_says(text: str) -> None:
    found = predicate(text, SCHEMA)
    assert all_of(found.conjuncts).mask(PLAIN).tolist() == found.mask(PLAIN).tolist()


def test_what_is_said_twice_is_one_part() -> None:
    assert [str(each) for each in predicate("n > 1 AND (s = 'b' AND n > 1)", SCHEMA).conjuncts] == ["n > 1", "s = 'b'"]
