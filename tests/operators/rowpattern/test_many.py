"""Matches that are many, and searches that are long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.operators.rowpattern.machine import search


def asked_letters(clause: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """What a clause finds in letters of two partitions."""
    text = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY n MEASURES MATCH_NUMBER() AS m, {clause})"
    return tidelog.sql(text, tables={"t": table}).fetchall()


@pytest.mark.parametrize(
    ("clause", "defined"),
    [
        ("count(*) AS c ALL MATCHES PATTERN (A+ B*)", "AB"),
        ("string_agg(n, ' ') AS c ALL MATCHES PATTERN (A+ B | A B* C) SKIP TILL ANY WITHIN 9", "ABC"),
        ("CLASSIFIER() AS c ALL ROWS PER MATCH ALL MATCHES PATTERN (A (A | B)+? C) SKIP TILL NEXT", "ABC"),
        ("LAST(n) AS c ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*)", "AB"),
        ("LAST(n) AS c AFTER MATCH SKIP TO NEXT ROW PATTERN (A X* C) WITHIN 12 EMIT TIMEOUTS", "AC"),
        ("count(*) AS c AFTER MATCH SKIP TO NEXT ROW PATTERN (A X*)", "A"),
    ],
)
def test_matches_that_are_many_are_told_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch, clause: str, defined: str
) -> None:
    """Those of different first rows do not wait for each other, and are what they are together."""
    dice = np.random.default_rng(8)
    letters = dice.choice(list("aabc"), 1200)
    table = pa.table({"g": [0] * 500 + [1] * 700, "n": np.arange(1200), "s": letters})
    clause += " DEFINE " + ", ".join(f"{name} AS s = '{name.lower()}'" for name in defined)
    monkeypatch.setattr(search, "_PART", 1 << 40)
    expected = asked_letters(clause, table)
    assert len(expected) > 256
    monkeypatch.setattr(search, "_PART", 1)
    lengths = []
    told_of = search._Run._told_of
    monkeypatch.setattr(
        search._Run, "_told_of", lambda run, found, rows: (lengths.append(rows), told_of(run, found, rows))[1]
    )
    assert asked_letters(clause, table) == expected
    assert len(lengths) > 1


def test_matches_of_more_rows_than_memory_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of 300 rows is a match: 4.5 million rows, of which some are there at once."""
    most = []
    told_of = search._Run._told_of
    monkeypatch.setattr(search, "_PART", 100_000)
    monkeypatch.setattr(
        search._Run, "_told_of", lambda run, found, rows: (most.append(rows), told_of(run, found, rows))[1]
    )
    table = pa.table({"n": range(300)})
    text = "SELECT count(*), sum(c) FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES count(*) AS c ALL MATCHES PATTERN (A+))"
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(300 * 301 // 2, 300 * 301 * 302 // 6)]
    assert max(most) < 400_000


def test_attempts_that_are_short_need_no_marks() -> None:
    """A pattern of many steps over many rows ends, though there is no room for what each step knows of each row."""
    table = pa.table({"n": range(2100), "v": [n % 7 for n in range(2100)]})
    defines = ", ".join(f"{name} AS v = {place}" for place, name in enumerate("ABCDEF"))
    text = f"""SELECT count(*), sum(c) FROM t MATCH_RECOGNIZE (
        ORDER BY n MEASURES count(*) AS c PATTERN (PERMUTE(A, B, C, D, E, F, G)) DEFINE {defines})"""
    assert tidelog.sql(text, tables={"t": table}).fetchall() == [(300, 2100)]
