"""Results of functions are bounded, by row and by batch, however they are nested and whatever they are given."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from expr.oracle import BATCH, SCHEMA, difference
from tidelog.expr import EvaluationError, ExpressionError, parse, parse_aggregate, predicate
from tidelog.expr.database import lengths
from tidelog.expr.database.lengths import MOST_BYTES

TEXTS = pa.schema([("p", pa.string()), ("n", pa.int64()), ("b", pa.binary())])


def batch(texts: list[str | None]) -> pa.RecordBatch:
    numbers = [None if text is None else len(text) for text in texts]
    blobs = [None if text is None else text.encode() for text in texts]
    return pa.record_batch([pa.array(texts), pa.array(numbers), pa.array(blobs)], schema=TEXTS)


HUGE = [
    "repeat(p, 2000000)",
    "repeat(b, 2000000)",
    "repeat('ab', 9223372036854775807)",
    "repeat(p, n * 1000000000000)",
    "lpad(p, 2147483647, 'x')",
    "rpad(p, 2147483647, 'xy')",
    "lpad(p, 2000000, 'é')",
    "replace(repeat(p, 100000), 'a', repeat('x', 100000))",
    "replace(repeat(p, 1000), p, repeat(p, 100000))",
    "regexp_replace(repeat(p, 100000), 'a', repeat('x', 100000), 'g')",
    "regexp_replace(repeat(p, 100000), '', repeat('x', 1000), 'g')",
    "regexp_replace(repeat(p, 500000), '^(.*)$', '\\1\\1\\1\\1\\1\\1\\1\\1')",
    "repeat(p, 1000000) || repeat(p, 1000000)",
    "concat(repeat(p, 600000), repeat(p, 600000))",
    "concat_ws(repeat(p, 600000), p, p, p)",
    "concat_ws(',', repeat(p, 600000), repeat(p, 600000))",
    "hex(hex(hex(hex(repeat(p, 100000)))))",
    "bin(bin(repeat(p, 100000)))",
    "to_base64(encode(to_base64(encode(repeat(p, 600000)))))",
    "translate(repeat(p, 600000), 'a', '🦆')",
]


@pytest.mark.parametrize("text", HUGE)
def test_a_text_that_is_too_long_is_refused_with_the_limit(text: str) -> None:
    for rows in ([None, "a"], ["a"] * 300):
        with pytest.raises(EvaluationError, match="1,048,576 bytes"):
            parse(text, TEXTS).evaluate(batch(rows))
    with pytest.raises(ExpressionError):
        predicate(f"{text} = p".replace("repeat(b", "repeat(p"), TEXTS).mask(batch(["a"]))
    # Rows that are not asked for cannot raise it.
    chosen = f"case when p = 'x' then length(cast({text} as varchar)) else 7 end"
    assert parse(chosen, TEXTS).evaluate(batch(["a", "b"])).to_pylist() == [7, 7]


def test_nested_concatenation_does_not_grow_without_end() -> None:
    text = "p"
    for _ in range(25):
        text = f"concat({text}, {text})" if len(text) < 200 else f"replace({text}, p, 'aaaaaaaaaa')"
    with pytest.raises(EvaluationError, match="1,048,576 bytes"):
        parse(text, TEXTS).evaluate(batch(["a"]))


def test_texts_that_are_long_already_may_stay_so() -> None:
    rows = batch(["a" * (MOST_BYTES + 5), "a"])
    for text in ("lower(p)", "replace(p, 'a', 'b')", "p || ''", "concat(p, null)", "regexp_replace(p, 'b', 'cc', 'g')"):
        assert parse(f"length({text})", TEXTS).evaluate(rows).to_pylist() == [MOST_BYTES + 5, 1]
    with pytest.raises(EvaluationError):
        parse("p || 'x'", TEXTS).evaluate(rows)


def test_memory_for_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made in between is made of some rows at a time, and the results are the same."""
    monkeypatch.setattr(lengths, "BATCH_BYTES", 1 << 20)
    dice = random.Random(1)
    rows = batch([dice.choice(["a", "bc", "d", None, ""]) for _ in range(300)])
    texts = [
        "length(repeat(p, 50000))",
        "length(p || repeat('x', 50000))",
        "length(concat(repeat(p, 50000), p))",
        "length(lpad(p, 30000, 'é'))",
        "length(case when p = 'a' then repeat('x', 60000) else p end)",
        "length(coalesce(p, repeat('y', 60000)))",
        "length(replace(repeat(p, 1000), 'a', repeat('z', 50)))",
        "length(concat_ws(p, repeat('x', 20000), repeat('y', 20000)))",
        "length(greatest(p, repeat('y', 60000)))",
        "length(regexp_replace(repeat(p, 1000), '[ab]', repeat('z', 50), 'g'))",
    ]
    pool = pa.default_memory_pool()
    for text in texts:
        assert difference(text, rows) is None
        before = pool.bytes_allocated()
        tracemalloc.start()
        found = parse(text, TEXTS).evaluate(rows)
        assert len(found) == 300
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
        tracemalloc.stop()
        assert pool.bytes_allocated() - before < 1 << 20
        assert predicate(f"{text} > 3", TEXTS).mask(rows).tolist() == [(each or 0) > 3 for each in found.to_pylist()]
    call = parse_aggregate("max(repeat(p, 50000))", TEXTS)
    assert call.lower(call.lift(rows, np.array([0, 300]))) == ["d" * 50000]
    parts = call.lower(call.lift(rows, np.array([0, 100, 100, 300])))
    assert [each and each[:1] for each in parts] == ["d", None, "d"]


def test_the_results_for_a_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "BATCH_BYTES", 1 << 20)
    monkeypatch.setattr(lengths, "RESULT_BYTES", 5 << 20)
    expression = parse("repeat(p, 10000)", TEXTS)
    assert expression.evaluate(batch(["a"] * 400)).to_pylist() == ["a" * 10000] * 400
    with pytest.raises(EvaluationError, match="fewer rows at a time"):
        expression.evaluate(batch(["a"] * 600))


def _naive_levenshtein(left: bytes, right: bytes) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def test_levenshtein() -> None:
    dice = random.Random(5)
    schema = pa.schema([("l", pa.string()), ("r", pa.string())])
    texts = [["".join(dice.choice("abé") for _ in range(dice.randrange(80))) for _ in range(300)] for _ in range(2)]
    found = parse("levenshtein(l, r)", schema).evaluate(pa.record_batch(texts, schema=schema)).to_pylist()
    assert found == [_naive_levenshtein(left.encode(), right.encode()) for left, right in zip(*texts, strict=True)]
    with pytest.raises(EvaluationError, match="levenshtein found texts of 10,000 and 20,000 bytes"):
        parse("levenshtein(repeat(p, 10000), repeat(p, 20000))", TEXTS).evaluate(batch(["a"]))


@pytest.mark.parametrize(
    "text",
    [
        *("concat_ws(s, t, s)", "concat_ws(s, 'a', 'b')", "concat_ws(s, null, 'b')", "concat_ws(t, null::varchar)"),
        *("concat_ws(',', null::varchar, s, null)", "concat_ws(s, t, null, t)", "round(l, -2147483648)"),
        *("trunc(i, -2147483648)", "factorial(34)", "factorial(2147483647)", "hamming(s, s)"),
    ],
)
def test_extremes_agree_with_duckdb(text: str) -> None:
    assert difference(text) is None
    assert BATCH.schema == SCHEMA
