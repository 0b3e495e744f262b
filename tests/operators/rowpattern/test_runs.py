"""Patterns of runs, against regular expressions of letters, and against the search row by row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.operators.rowpattern.compiling import RowPatternQuery, compile_query
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.runs import finding
from tidelog.operators.rowpattern.syntax import (
    Concatenation,
    Expression,
    Limits,
    Measure,
    Navigation,
    OrderKey,
    Pattern,
    Quantified,
    RowPattern,
    Rows,
    Variable,
)

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
LETTERS = "abcd"


def query(word: str, fits: dict[str, str], **more: Any) -> RowPattern:
    """A pattern such as ``AB+C``; each variable takes some letters, or any."""
    parts: list[Pattern] = []
    for sign in word:
        if sign == "+":
            parts[-1] = Quantified(parts[-1], 1, None)
        else:
            parts.append(Variable(sign))
    s = Navigation('"s"')
    defines = {
        name: Expression(f'"#0" IN ({", ".join(map(repr, letters))})', (s,), (pa.string(),))
        for name, letters in fits.items()
        if letters != LETTERS
    }
    navigations = [Navigation('"n"', is_last=False), Navigation('"n"'), Navigation('"#classifier"', logical=1)]
    measures = [
        Measure(name, Expression('"#0"', (each,), (kind,)), kind)
        for name, each, kind in zip("abc", navigations, (pa.int64(), pa.int64(), pa.string()), strict=True)
    ]
    pattern = parts[0] if len(parts) == 1 else Concatenation(tuple(parts))
    return RowPattern(SCHEMA, pattern, defines, tuple(measures), ("k",), (OrderKey("n"),), **more)


def told(pattern: RowPattern | RowPatternQuery, table: pa.Table, size: int) -> list[tuple[Any, ...]]:
    """What comes out, of rows that come in batches of some size."""
    found = [row for each in evaluate(pattern, table.to_batches(max_chunksize=size)) for row in each.to_pylist()]
    return [tuple(row.values()) for row in found]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each search has found its matches by runs, however few rows there are."""
    ways: list[bool] = []
    matches: Callable[..., Any] = finding.Runs.matches

    def noted(*arguments: Any) -> Any:
        found = matches(*arguments)
        ways.append(found is not None)
        return found

    monkeypatch.setattr(finding, "_FEWEST", 0)
    monkeypatch.setattr(finding.Runs, "matches", noted)
    return ways


@pytest.mark.parametrize("seed", range(24))
def test_runs_are_what_regular_expressions_find(
    seed: int, counted: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in partitions of all lengths; batches end anywhere."""
    dice = np.random.default_rng(seed)
    names = dice.choice(list("ABCD"), dice.integers(1, 5))
    word = "".join(name + ("+" if dice.random() < 0.6 else "") for name in names)
    fits = {name: "".join(sorted(dice.choice(list(LETTERS), dice.integers(1, 3), replace=False))) for name in names}
    if dice.random() < 0.3:
        fits[names[0]] = LETTERS
    lengths = dice.integers(0, 300, 6) if dice.random() < 0.7 else np.array([700])
    weights = dice.dirichlet(np.ones(4) * dice.choice([0.3, 1, 5]))
    texts = ["".join(dice.choice(list(LETTERS), length, p=weights)) for length in lengths]
    table = pa.table(
        [np.repeat(range(len(texts)), lengths), [n for each in lengths for n in range(each)], list("".join(texts))],
        schema=SCHEMA,
    )
    expression = re.compile(re.sub("[A-D]", lambda name: f"[{fits[name[0]]}]", word))
    expected = [(k, each.start(), each.end() - 1) for k, text in enumerate(texts) for each in expression.finditer(text)]
    size = int(dice.choice([16, 64, 100, 5000]))
    monkeypatch.setattr("tidelog.operators.rowpattern.evaluate._ROWS", size)
    found = told(query(word, fits), table, size)
    assert [row[:3] for row in found] == expected
    monkeypatch.setattr(finding.Runs, "matches", lambda *_: None)
    assert told(query(word, fits), table, size) == found
    every = query(word, fits, rows=Rows.SHOW_EMPTY)
    by_rows = told(every, table, size)
    monkeypatch.undo()
    monkeypatch.setattr(finding, "_FEWEST", 0)
    assert told(every, table, size) == by_rows


def test_runs_are_found_where_no_row_fits_two_parts(counted: list[bool]) -> None:
    """Otherwise the search goes from row to row."""
    letters = list("aabbc" * 400)
    table = pa.table([[0] * 2000, range(2000), letters], schema=SCHEMA)
    assert len(told(query("SA+B+C", {"S": LETTERS, "A": "a", "B": "b", "C": "c"}), table, 5000)) == 400
    assert counted == [True]
    assert len(told(query("SA+B+C", {"S": LETTERS, "A": "ab", "B": "bc", "C": "c"}), table, 5000)) == 400
    assert counted == [True, False]


@pytest.mark.parametrize("by_runs", [True, False])
@pytest.mark.parametrize("word", ["SA+C", "A+C", "SA+B+D"])
def test_long_runs_that_lead_nowhere_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, word: str, by_runs: bool
) -> None:
    """And not again from each of their rows on, which would be 8 billion looks."""
    if not by_runs:
        monkeypatch.setattr(finding.Runs, "matches", lambda *_: None)
    count = 130_000
    table = pa.table([[0] * count, range(count), ["a"] * (count - 2) + ["b", "c"]], schema=SCHEMA)
    fits = {"S": LETTERS, "A": "a", "B": "b", "C": "c", "D": "d"}
    assert told(query(word, {name: fits[name] for name in word if name != "+"}), table, count) == []


def test_matches_longer_than_allowed_are_told(counted: list[bool]) -> None:
    """Also those that would not have become one."""
    table = pa.table([[0] * 100, range(100), ["b"] + ["a"] * 98 + ["b"]], schema=SCHEMA)
    for word in ("A+", "A+B", "A+C"):
        with pytest.raises(PatternError, match="more than 50 rows"):
            told(query(word, {"A": "a", "B": "b", "C": "c"}, limits=Limits(match_rows=50)), table, 1000)
        allowed = compile_query(query(word, {"A": "a", "B": "b", "C": "c"}, limits=Limits(match_rows=99)))
        assert len(told(allowed, table, 1000)) == (word != "A+C")
    assert counted[::2] == [False] * 3
