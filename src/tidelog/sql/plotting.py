"""Results as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.sql.time_lines import draw_situations

if TYPE_CHECKING:
    from tidelog.sql.result import Result

_MOST_LINES: Final = 12
_MOST_MATCHES: Final = 1000
_MATCHES: Final = ("tab:orange", "tab:green")


def plot(result: Result, path: Path | str | None) -> Any:
    """Draw the numbers of a result over its first column, a line each; returns the figure of Matplotlib.

    A column of texts makes lines of its own for each of its values, if there is one column of numbers. Matches of a row
    pattern, where a column is their ``MATCH_NUMBER()``, are drawn as stretches behind the lines; WITH UNMATCHED ROWS
    has the whole series. Situations whose start and end are columns are drawn on a time line. Needs the extra ``plot``.
    Raises :class:`InputError` for what cannot be drawn.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("plots need Matplotlib; install tidelog[plot]") from error
    if path is not None:
        _check_ending(Path(path))
    table = result.arrow()
    if result.stretches:
        return _saved(draw_situations(Figure, result.stretches, table), path)
    if table.num_columns < 2:
        raise InputError(f"found {table.num_columns} columns to draw; expected one for x and some of numbers")
    x, *others = table.column_names
    matches = next((name for name in others if name in result.match_numbers), None)
    numbers = [name for name in others if name != matches and _is_number(table.schema.field(name).type)]
    keys = [name for name in others if pa.types.is_string(table.schema.field(name).type)]
    if not numbers:
        raise InputError(f"found no column of numbers beside {x!r}; expected some to draw")
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    if len(numbers) == 1 and len(keys) == 1:
        column = table.column(keys[0])
        for value in column.unique().to_pylist()[:_MOST_LINES]:
            rows = table.filter(pa.compute.equal(column, pa.scalar(value, column.type)))
            axes.plot(rows[x].to_pylist(), rows[numbers[0]].to_pylist(), label=str(value))
        axes.set_ylabel(numbers[0])
    else:
        for name in numbers[:_MOST_LINES]:
            axes.plot(table[x].to_pylist(), table[name].to_pylist(), label=name)
    if matches is not None:
        _draw_matches(axes, table, x, matches)
    axes.set_xlabel(x)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return _saved(figure, path)


def _check_ending(path: Path) -> None:
    """Raise for a file that Matplotlib would not know how to write, before anything is computed for it."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    ending = path.suffix.removeprefix(".").lower()
    if ending and ending not in known:
        raise InputError(f"found {path.name!r} for a figure; expected a name that ends with one of {', '.join(known)}")


def _saved(figure: Any, path: Path | str | None) -> Any:
    figure.autofmt_xdate()
    if path is not None:
        figure.savefig(Path(path))
    return figure


def _draw_matches(axes: Any, table: pa.Table, x: str, matches: str) -> None:
    """Shade what each match covers, from its first row to its last, in two colours that take turns."""
    rows = table.select([x, matches]).rename_columns(["x", "number"]).drop_null()
    spans = rows.group_by("number").aggregate([("x", "min"), ("x", "max")]).sort_by("number")
    for at, span in enumerate(spans.to_pylist()[:_MOST_MATCHES]):
        axes.axvspan(span["x_min"], span["x_max"], color=_MATCHES[at % 2], alpha=0.25, label=None if at else "matches")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
