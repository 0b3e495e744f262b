"""Situations on a time line: which bars there are."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog

START = datetime.datetime(2026, 1, 1)
A = [0, 1, 1, 1, 0, 0, 0, 1, 1, 0]
B = [0, 0, 1, 1, 1, 1, 0, 0, 1, 1]
TIMES = pa.array([START + datetime.timedelta(seconds=at) for at in range(len(A))], pa.timestamp("us"))
TABLE = pa.table({"ts": TIMES, "a": [each == 1 for each in A], "b": [each == 1 for each in B]})
NUMBERS = TABLE.set_column(0, "ts", pa.array(range(len(A)), pa.int64()))


def bars(figure: Any) -> list[tuple[float, float]]:
    """Where bars begin and how long they are, in the units of the axis."""
    (axes,) = figure.axes
    return [(round(each.get_x(), 9), round(each.get_width(), 9)) for each in axes.patches]


def test_matches_have_a_line_each(tmp_path: Path) -> None:
    """A bar for each situation, with what it is called."""
    clause = "DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 100"
    found = tidelog.sql(f"SELECT * FROM t SITUATIONS (ORDER BY ts {clause})", tables={"t": NUMBERS})
    figure = found.plot(tmp_path / "picture.svg")
    assert bars(figure) == [(1, 3), (2, 4)]
    (axes,) = figure.axes
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["A", "B"]
    first, last = axes.get_xlim()
    assert first < 1 < 6 < last  # bars stand apart from the frame
    assert axes.get_ylabel() == "match"
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")


def test_it_is_told_how_many_matches_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.sql.time_lines._MOST_LINES", 1)
    clause = "DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 1h MODE EARLY"
    figure = tidelog.sql(f"SELECT * FROM t SITUATIONS ({clause})", tables={"t": TABLE}).plot()
    assert len(bars(figure)) == 2
    assert figure.axes[0].get_ylabel() == "match (the first 1 of 2)"


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_what_goes_on_ends_at_the_last_time(zone: str | None) -> None:
    """In days, as Matplotlib counts times, with a zone or without; the border is dashed."""
    clause = "DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 1h MODE EARLY"
    table = TABLE.set_column(0, "ts", TIMES.cast(pa.timestamp("us", zone)))
    figure = tidelog.sql(f"SELECT * FROM t SITUATIONS ({clause})", tables={"t": table}).plot()
    day = 86_400
    assert [round(length * day) for _, length in bars(figure)] == [3, 2, 2, 1]
    assert [each.get_linestyle() for each in figure.axes[0].patches] == ["solid", "solid", "--", "--"]


def test_situations_alone_have_a_line_for_each_kind() -> None:
    found = tidelog.situations(NUMBERS, define={"A": "a", "B": "b"}, time="ts")
    figure = found.plot()
    assert sorted(bars(figure)) == [(1, 3), (2, 4), (7, 2)]
    assert [each.get_text() for each in figure.axes[0].get_yticklabels()] == ["A", "B"]


def test_results_without_starts_and_ends_are_drawn_as_others_are() -> None:
    clause = "DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 100 RETURN count(A.*) AS n"
    found = tidelog.sql(f"SELECT match_time, n FROM t SITUATIONS (ORDER BY ts {clause})", tables={"t": NUMBERS})
    assert len(found.plot().axes[0].lines) == 1


def test_nothing_cannot_be_drawn() -> None:
    found = tidelog.situations(NUMBERS.slice(0, 1), define={"A": "a"}, time="ts")
    with pytest.raises(tidelog.InputError, match="no situations to draw"):
        found.plot()
