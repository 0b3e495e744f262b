"""Patterns with no end of ways to match: they are answered, or refused with what to do, and take no memory for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelog

ROWS = 3_000
LETTERS = pa.table({"n": range(ROWS), "s": ["a"] * ROWS})
FEW = LETTERS.slice(0, 40)


DEFINES = {"A": "s = 'a'", "B": "s = 'b'"}


def asked(
    pattern: str, table: pa.Table = LETTERS, defines: str | None = None, *, behind: str = "", after: str = ""
) -> list[int]:
    """How many rows each match has."""
    own = ", ".join(f"{name} AS {condition}" for name, condition in DEFINES.items() if name in pattern)
    text = f"ORDER BY n MEASURES count(*) AS rows {after} PATTERN ({pattern}) {behind} DEFINE {defines or own}"
    result = tidelog.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({text})", tables={"t": table})
    return [rows for (rows,) in result.fetchall()]


NOTHING = ["(A | A)* B", "(A | A | A)+ B", "(A+)+ B", "((A*)*)* B", "((A+)+ (A+)+)+ B", "(A* A*)* B", "(A*?)*? B"]


@pytest.mark.parametrize("pattern", NOTHING)
def test_ways_that_failed_are_not_gone_again(pattern: str) -> None:
    """Each of these has more ways than there are atoms, none of which leads to a match."""
    assert asked(pattern) == []
    assert asked(pattern, LETTERS.slice(0, 300), after="AFTER MATCH SKIP TO NEXT ROW") == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(A?){30} A{30}", [40]),
        ("(A | A)*", [40]),
        ("(A*)*", [40]),
        ("(A+)+", [40]),
        ("A{40}", [40]),
        ("(A{2}){20}", [40]),
        ("(((A?)?)?)+", [40]),
        ("A{1,1000}", [40]),
        (" | ".join(f"V{number} B" for number in range(200)) + " | A", [1] * 40),
    ],
)
def test_many_ways_to_a_match(pattern: str, expected: list[int]) -> None:
    """The preferred one is found at once."""
    assert asked(pattern, FEW) == expected


def test_matches_that_are_as_long_as_all_rows() -> None:
    assert asked("A{3000}") == [3000]
    assert asked("A{2999,} $") == [3000]
    assert asked("A{,20000}") == [3000]
    assert asked("A{3001}") == []


@pytest.mark.parametrize(
    "pattern", ["(A{1000}){1000}", "A{,100000}", "(A{100,200}){500}", "A{1000000} A{1000000}", "((A B){99}){99999}"]
)
def test_programs_have_a_size(pattern: str) -> None:
    """What would have to be written out is refused before anything runs."""
    with pytest.raises(tidelog.TidelogError, match="expected"):
        asked(pattern, FEW)


def test_orders_of_many_parts() -> None:
    """Of six they are tried; of twelve there are half a thousand million."""
    names = [f"V{number}" for number in range(6)]
    defines = ", ".join(f"{name} AS n = {5 - number}" for number, name in enumerate(names))
    assert asked(f"PERMUTE({', '.join(names)})", LETTERS.slice(0, 6), defines) == [6]
    with pytest.raises(tidelog.TidelogError, match="expected"):
        asked(f"PERMUTE({', '.join(f'V{number}' for number in range(12))})", FEW, "V1 AS n > 0")


COUNTED = "A AS count(*) > 0, B AS s = 'b' AND count(*) > 0"


@pytest.mark.parametrize("pattern", ["(A+)+ B", "(A | A)* B"])
def test_conditions_about_the_match_have_a_limit(pattern: str) -> None:
    """Where it cannot be remembered what failed, an error tells what to do."""
    with pytest.raises(tidelog.TidelogError, match=r"no end of the ways .* after 1,000 states; .* LIMIT n STATES"):
        asked(pattern, FEW, COUNTED, behind="LIMIT 1000 STATES")


def test_all_matches_have_a_limit() -> None:
    """Two to the power of forty matches are not kept until there is no memory left."""
    behind = "SKIP TILL ANY LIMIT 1000 STATES"
    with pytest.raises(tidelog.TidelogError, match="no end of the ways"):
        asked("A+", FEW, behind=behind, after="ALL MATCHES")
    assert len(asked("A+", FEW.slice(0, 8), behind=behind, after="ALL MATCHES")) == 2**8 - 1


def test_long_matches_have_a_limit() -> None:
    with pytest.raises(tidelog.TidelogError, match="more than 100 rows"):
        asked("A+", behind="LIMIT 100 ROWS")
