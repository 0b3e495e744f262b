"""Texts about situations with something changed at random: an answer, or an error of tidelog's at a place."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.situations.queries import random_query, random_rows
from support.situations.written import parts_of
from tidelog.operators.situations.syntax import Mode
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import tokens

WORDS = [
    *("(", ")", ",", ".", "*", "|", ";", "?", "$", "=", "<", "-", "A", "B", "C", "a", "b", "k", "t", "1"),
    *("5s", "0", "''", "'5", "s'", "1e99", "ticks", "AND", "OR", "NOT", "AS", "AT", "LEAST", "MOST", "BETWEEN"),
    *("INTERVAL", "BY", "DEFINE", "PATTERN", "WITHIN", "RETURN", "MODE", "EARLY", "RELATIONS", "THESIS"),
    *("ORDER", "PARTITION", "before", "meets", "met", "by", "equals", "count(A.*)", "A.duration", "B.start_time"),
    *("sum", "max(b)", "SITUATIONS", "DERIVE", "SELECT", "FROM", "t", "NULL", '"', "'", "--", "/*", "é"),
    *("@", "\\"),
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


@pytest.mark.parametrize("seed", range(3))
def test_changed_texts_are_answered_or_refused(seed: int) -> None:
    """Never an error of something inside; as clauses, as situations alone, and as the language by itself."""
    draw = random.Random(seed)
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, 3, 8)
    table = pa.Table.from_batches([rows])
    places: list[int | None] = []
    for number in range(60):
        query, _, _ = random_query(dice, rows, Mode.EARLY if number % 2 else Mode.COMPLETED)
        parts = parts_of(query, dice)
        if seed == 1:
            parts = f"{parts.partition('PATTERN')[0]} RETURN count(*) AS n, max(k) AS m"
        word = "DERIVE" if seed == 1 else "SITUATIONS"
        text = changed(f"FROM t {parts}" if seed == 2 else f"SELECT * FROM t {word} ({parts})", draw)
        try:
            if seed == 2:
                tidelog.situations(table, text).fetchall()
            else:
                tidelog.sql(text, tables={"t": table}).fetchall()
        except SqlError as error:
            places.append(error.position)
        except tidelog.TidelogError:
            places.append(None)
    assert len(places) > 20
    assert sum(place is not None for place in places) > 0.8 * len(places)
