"""Situations on a time line: a line for each match, or for each kind of situation, and a bar from start to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.errors import InputError
from tidelog.sql.clauses.operation import Stretch

_MOST_LINES: Final = 200
_MOST_TICKS: Final = 20
_HEIGHT: Final = 0.8
_COLOURS: Final = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:cyan")


def draw_situations(figure_of: Callable[..., Any], stretches: Sequence[Stretch], table: pa.Table) -> Any:
    """The figure. Those that still go on end, with a dashed border, at the last time of their row.

    Raises :class:`InputError` if there is nothing to draw.
    """
    if not table.num_rows:
        raise InputError("found no situations to draw; expected some rows")
    figure = figure_of(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    if stretches[0].kind:
        _draw_kinds(axes, stretches[0], table)
    else:
        _draw_matches(axes, stretches, table)
    kind = table.schema.field(stretches[0].start).type
    if pa.types.is_temporal(kind):
        axes.xaxis_date()
    axes.use_sticky_edges = False  # so that bars at the ends stand apart from the frame
    axes.margins(x=0.03)
    axes.invert_yaxis()
    axes.set_xlabel("time")
    axes.grid(visible=True, axis="x", alpha=0.3)
    return figure


def _draw_matches(axes: Any, stretches: Sequence[Stretch], table: pa.Table) -> None:
    """A line for each match, in which each situation has a lane of its own."""
    lane = _HEIGHT / len(stretches)
    known = _known(stretches, table)
    for number, each in enumerate(stretches):
        colour = _COLOURS[number % len(_COLOURS)]
        starts, ends = (table[name].to_pylist()[:_MOST_LINES] for name in (each.start, each.end))
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            label = each.name if row == 0 else None
            _draw_bar(axes, row - _HEIGHT / 2 + (number + 0.5) * lane, lane, start, end, known[row], colour, label)
    count = min(table.num_rows, _MOST_LINES)
    step = -(-count // _MOST_TICKS)
    axes.set_yticks(range(0, count, step), range(1, count + 1, step))
    left_out = table.num_rows - count
    axes.set_ylabel(f"match (the first {count:,} of {table.num_rows:,})" if left_out else "match")
    axes.legend()


def _draw_kinds(axes: Any, stretch: Stretch, table: pa.Table) -> None:
    """A line for each kind of situation."""
    kinds = table[stretch.kind].unique().to_pylist()[:_MOST_LINES]
    for number, kind in enumerate(kinds):
        rows = table.filter(pc.equal(table[stretch.kind], kind))
        for start, end in zip(rows[stretch.start].to_pylist(), rows[stretch.end].to_pylist(), strict=True):
            _draw_bar(axes, number, _HEIGHT, start, end, end, _COLOURS[number % len(_COLOURS)], None)
    axes.set_yticks(range(len(kinds)), kinds)


def _draw_bar(axes: Any, at: float, height: float, start: Any, end: Any, known: Any, colour: str, label: Any) -> None:
    if start is None:
        return
    is_open = end is None
    length = (known if is_open else end) - start
    border = {"edgecolor": colour, "linestyle": "--", "linewidth": 1.5} if is_open else {}
    alpha = 0.4 if is_open else 0.9
    axes.barh(at, length, left=start, height=height, color=colour, alpha=alpha, label=label, **border)


def _known(stretches: Sequence[Stretch], table: pa.Table) -> list[Any]:
    """Of each row the last time that it has: until then what goes on is known to do so."""
    kind = table.schema.field(stretches[0].start).type
    # Arrow takes no maximum of times with a zone.
    times = [table[each.name].cast(pa.int64()) for each in table.schema if each.type == kind]
    found: list[Any] = pc.max_element_wise(*times).cast(kind).to_pylist()
    return found
