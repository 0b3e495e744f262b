"""Statements like those that the standard's report and the documentation of others show, one for each construct."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import tidelog
from support.row_patterns.published import CLAUSES, REFUSED, STATEMENTS, TABLES, Rows


def asked(text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement; decimals, which sums are, as integers."""
    rows = tidelog.sql(text, tables=TABLES).fetchall()
    return [tuple(int(each) if isinstance(each, Decimal) else each for each in row) for row in rows]


@pytest.mark.parametrize(("table", "clause", "expected"), CLAUSES.values(), ids=CLAUSES)
def test_matches(table: str, clause: str, expected: Rows) -> None:
    assert asked(f"SELECT * FROM {table} MATCH_RECOGNIZE ({clause})") == expected


@pytest.mark.parametrize(("text", "expected"), STATEMENTS.values(), ids=STATEMENTS)
def test_rows_of_matches_and_windows(text: str, expected: Rows) -> None:
    assert asked(text) == expected


@pytest.mark.parametrize(("clause", "message"), REFUSED.values(), ids=REFUSED)
def test_what_others_allow_or_refuse(clause: str, message: str) -> None:
    """What we have under another name is refused with what to write."""
    with pytest.raises(tidelog.TidelogError, match=message):
        asked(f"SELECT * FROM flat MATCH_RECOGNIZE ({clause})")
