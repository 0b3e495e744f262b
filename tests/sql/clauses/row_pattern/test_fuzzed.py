"""Texts of row patterns with something changed at random: an answer, or an error of tidelog's at a place."""

from __future__ import annotations

import random

import pytest

import tidelog
from support.row_patterns.maker import Maker, rows, table_of
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import tokens

WORDS = [
    *(
        "(",
        ")",
        "{",
        "}",
        "{-",
        "-}",
        ",",
        ".",
        "*",
        "+",
        "?",
        "|",
        "^",
        "$",
        "A",
        "B",
        "U",
        "x",
        "n",
        "g",
        "s",
        "1",
        "''",
    ),
    *("AS", "BY", "PATTERN", "DEFINE", "MEASURES", "SUBSET", "WITHIN", "FINAL", "RUNNING", "FIRST", "LAST", "PREV"),
    *(
        "NEXT",
        "CLASSIFIER",
        "MATCH_NUMBER()",
        "count(*)",
        "sum",
        "PERMUTE",
        "ALL",
        "ROWS",
        "SKIP",
        "TO",
        "ORDER",
        "NULL",
    ),
    *(
        "MATCH_RECOGNIZE",
        "SELECT",
        "FROM t",
        "t",
        '"',
        "'",
        "--",
        "/*",
        "interval",
        "@",
        "\\",
        "é",
        ";",
        "LIMIT",
        "1e9",
    ),
]


def changed(text: str, draw: random.Random) -> str:
    """A text with a few tokens left out, doubled, exchanged or put in."""
    found = [token.text for token in tokens(text)]
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(found))
        kind = draw.random()
        if kind < 0.3:
            del found[at]
        elif kind < 0.45:
            found.insert(at, found[at])
        elif kind < 0.6:
            other = draw.randrange(len(found))
            found[at], found[other] = found[other], found[at]
        else:
            found[at : at + (kind < 0.85)] = [draw.choice(WORDS)]
    return " ".join(found)


@pytest.mark.parametrize("seed", range(2))
def test_changed_texts_are_answered_or_refused(seed: int) -> None:
    """Never an error of something inside."""
    draw = random.Random(seed)
    places: list[int | None] = []
    for number in range(50):
        text = changed(Maker(random.Random(100 * seed + number)).statement().text, draw)
        table = table_of({g: rows(draw, 4) for g in range(3)}, draw)
        try:
            tidelog.sql(text, tables={"t": table}).fetchall()
        except SqlError as error:
            places.append(error.position)
        except tidelog.TidelogError:
            places.append(None)
    assert len(places) > 20
    assert sum(place is not None for place in places) > 0.8 * len(places)
