"""Row patterns of windows: random statements, and what comes out of them by definition.

The frame of a row is taken for all rows that there are, and the matcher by brute force is asked for its first match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from support.row_patterns.maker import Maker, shown
from support.row_patterns.oracle import Oracle, Query, Row, names
from tidelog.operators.rowpattern.syntax import Skip

Following = Callable[[Row], int | None]
"""How many rows behind a row its frame has; None for all of them."""
Function = Callable[[list[Row]], Any]


def _known(column: str) -> Callable[[list[Row]], list[Any]]:
    return lambda rows: [row[column] for row in rows if row[column] is not None]


def _nth(rows: list[Any], place: int) -> Any:
    return rows[place] if -len(rows) <= place < len(rows) else None


FUNCTIONS: dict[str, Function] = {
    "count(*)": len,
    "count(x)": lambda rows: len(_known("x")(rows)),
    "sum(x)": lambda rows: sum(_known("x")(rows)) if _known("x")(rows) else None,
    "max(t.n)": lambda rows: max((row["n"] for row in rows), default=None),
    "count(DISTINCT x)": lambda rows: len(set(_known("x")(rows))),
    "count(*) FILTER (WHERE x > 0)": lambda rows: sum(1 for each in _known("x")(rows) if each > 0),
    "string_agg(s, '')": lambda rows: "".join(row["s"] for row in rows) if rows else None,
    "string_agg(s, '' ORDER BY n DESC)": lambda rows: "".join(row["s"] for row in reversed(rows)) if rows else None,
    "list(x + 1)": lambda rows: [None if row["x"] is None else row["x"] + 1 for row in rows] or None,
    "first_value(x)": lambda rows: _nth([row["x"] for row in rows], 0),
    "last_value(t.s)": lambda rows: _nth([row["s"] for row in rows], -1),
    "nth_value(n, 2)": lambda rows: _nth([row["n"] for row in rows], 1),
    "first_value(x IGNORE NULLS)": lambda rows: _nth(_known("x")(rows), 0),
    "last_value(x IGNORE NULLS)": lambda rows: _nth(_known("x")(rows), -1),
}
"""Functions over windows, and what they give for the rows of a frame."""


@dataclass(frozen=True)
class WindowStatement:
    """A statement about columns g, n, x and s, as for patterns of tables."""

    window: str
    query: Query
    following: Following
    is_seeking: bool
    functions: Sequence[str]

    @property
    def text(self) -> str:
        """The whole statement."""
        values = [*(name for name, _ in self.query.measures), *self.functions]
        items = ", ".join(f"{each} OVER w AS c{at}" for at, each in enumerate(values))
        return f"SELECT g, n, {items}, row_number() OVER w AS number FROM t WINDOW w AS ({self.window}) ORDER BY g, n"

    def output(self, rows: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
        """What comes out for the rows of one partition, which are in order."""
        resume = 0
        for current, row in enumerate(rows):
            following = self.following(row)
            frame = rows[current:] if following is None else rows[current : current + following + 1]
            search = Oracle(self.query, frame)
            found, start = None, 0
            if current >= resume:
                for start in range(len(frame) if self.is_seeking else 1):
                    found = next(search.matches(start), None)
                    if found is not None:
                        break
            matched = [frame[place] for place, _, _ in found or ()]
            measures = [None] * len(self.query.measures) if found is None else search._measured(found, found)
            yield row["n"], *measures, *(FUNCTIONS[each](matched) for each in self.functions), current + 1
            if found and self.query.skip is not Skip.TO_NEXT_ROW:
                resume = current + search._skipped(found, start)


def random_window(maker: Maker) -> WindowStatement:
    """A statement of a maker, which is for windows."""
    draw = maker.draw
    maker.is_window = True
    pattern = maker._pattern(3, allow_out=True)
    maker.variables = names(pattern)
    if not maker.variables:
        return random_window(maker)
    maker.subset = None
    if draw.random() < 0.4:
        maker.subset = frozenset(draw.sample(maker.variables, draw.randint(1, len(maker.variables))))
    maker.is_define, maker.is_final = True, False
    defines = {name: maker._condition(2) for name in maker.variables if draw.random() < 0.85}
    maker.is_define, maker.is_final = False, True
    measures = [(f"m{at}", maker._measure()) for at in range(draw.randint(0, 3))]
    skip, skip_to, after = maker._skip()
    count = draw.randrange(4)
    ends: list[tuple[str, Following]] = [
        ("UNBOUNDED FOLLOWING", lambda row: None),
        (f"{count} FOLLOWING", lambda row: count),
        ("CURRENT ROW", lambda row: 0),
        ("n % 4 FOLLOWING", lambda row: row["n"] % 4),
    ]
    end, following = draw.choice([ends[0], *ends[:2], *ends])
    seek = draw.choice(["", "INITIAL", "SEEK", "SEEK"])
    parts = ["PARTITION BY g ORDER BY n"]
    parts.append("MEASURES " + ", ".join(f"{made.text} AS {name}" for name, made in measures) if measures else "")
    parts.append(f"ROWS BETWEEN CURRENT ROW AND {end}")
    parts += [f"AFTER MATCH {after}" if after else "", seek, f"PATTERN ({shown(pattern)})"]
    if maker.subset is not None:
        parts.append(f"SUBSET U = ({', '.join(sorted(maker.subset))})")
    if defines:
        parts.append("DEFINE " + ", ".join(f"{name} AS {made.text}" for name, made in defines.items()))
    query = Query(
        pattern,
        {name: made.value for name, made in defines.items()},
        [(name, made.value) for name, made in measures],
        skip=skip,
        skip_to=skip_to,
    )
    functions = draw.sample(list(FUNCTIONS), draw.randint(1, 3))
    return WindowStatement(" ".join(filter(None, parts)), query, following, seek == "SEEK", functions)
