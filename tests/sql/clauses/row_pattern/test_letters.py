"""Which rows a pattern matches, over letters."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelog
from support.row_patterns.letters import CASES, Case


def text_of(case: Case, rows: str = "ALL ROWS PER MATCH") -> str:
    """The statement of a case."""
    told = dict(each.split("=") for each in case.defines.split(",")) if case.defines else {}
    told = {name.upper(): letters for name, letters in told.items()}
    names = {each for each in "ABCDEXYZ" if each in case.pattern.upper().replace("PERMUTE", "")}
    conditions = [
        f"{name} AS s IN ({', '.join(repr(letter) for letter in letters)})"
        for name, letters in sorted((name, told.get(name, name.lower())) for name in names)
        if letters != "*"
    ]
    after = case.after if case.after in ("", "ALL MATCHES") else f"AFTER MATCH {case.after}"
    define = f"DEFINE {', '.join(conditions)}" if conditions else ""
    return f"""
        SELECT n, number, variable FROM t MATCH_RECOGNIZE (
            ORDER BY n MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS variable {rows} {after}
            PATTERN ({case.pattern}) {case.behind} {define}
        )"""


def table_of(letters: str) -> pa.Table:
    """The rows of a case."""
    return pa.table({"n": pa.array(range(1, len(letters) + 1), pa.int64()), "s": pa.array(list(letters), pa.string())})


def shown(case: Case) -> list[list[str]]:
    """What is expected to come out, match by match, without rows that are left out."""
    matches = [each.strip() for each in case.expected.split("|")] if case.expected else []
    return [[row for row in match.split() if not row.startswith("{")] for match in matches]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_of_letters(case: Case) -> None:
    """Each pattern has the matches that were worked out by hand."""
    found: dict[int, list[str]] = {}
    for n, number, variable in tidelog.sql(text_of(case), tables={"t": table_of(case.rows)}).fetchall():
        found.setdefault(number, []).append(f"{variable or '()'}{n}")
    expected = shown(case)
    if case.after == "ALL MATCHES":
        assert sorted(found.values()) == sorted(expected)
    else:
        assert found == {number: rows for number, rows in enumerate(expected, 1) if rows}
