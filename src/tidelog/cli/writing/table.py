"""Tables for terminals: as wide as the terminal, one line a row, numbers always whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidelog.cli.telling.saying import printable
from tidelog.cli.writing.texts import is_numeric, plain, shortest_times

_NULL = "null"
_WIDEST_TEXT = 60
_NARROWEST_TEXT = 8
_GAP = 2
"""Cells between columns; one of them comes with the box."""
_MORE = "…"


class _Output(Console):
    """Standard output, whose end is for the command to deal with."""

    def on_broken_pipe(self) -> None:
        """Whoever read had enough: no reason to end the process with an exit code for errors."""
        raise BrokenPipeError


@dataclass
class Column:
    """A column of texts, None for null, made printable; ``is_number`` columns stand right and are never cut."""

    name: str
    texts: Sequence[str | None]
    is_number: bool = False

    def __post_init__(self) -> None:
        self.name = printable(self.name)
        self.texts = [None if each is None else printable(each) for each in self.texts]

    def width(self) -> int:
        """Cells that the widest text takes, the name included."""
        return max(cell_len(text) for text in (self.name, *(_NULL if each is None else each for each in self.texts)))


def columns_of(batch: pa.RecordBatch) -> list[Column]:
    """The columns of a batch as texts."""
    columns = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        shown = shortest_times(values) if pa.types.is_timestamp(values.type) else values
        columns.append(Column(name, plain(shown).to_pylist(), is_numeric(values.type)))
    return columns


def print_table(columns: Sequence[Column], *, width: int | None = None, header: bool = True) -> int:
    """Print columns on standard output; returns how many of them found room.

    ``width`` is that of the terminal by default; what is no terminal has no width, and gets everything.
    """
    if width is None and sys.stdout.isatty():
        width = Console().width
    widths = fitted_widths(columns, width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_header=header)
    for column, room in zip(columns, widths, strict=False):
        table.add_column(
            Text(_cut(column.name, room)),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            min_width=room,
            max_width=room,
        )
    if len(widths) < len(columns):
        table.add_column(_MORE, no_wrap=True)
    rows = len(columns[0].texts) if columns else 0
    for row in range(rows):
        cells = [_cell(column.texts[row], room) for column, room in zip(columns, widths, strict=False)]
        table.add_row(*cells, *([Text(_MORE)] if len(widths) < len(columns) else []))
    total = sum(widths) + _GAP * (len(widths) + 1) + len(_MORE)
    console = _Output(file=sys.stdout, width=max(total, width or 0), highlight=False)
    console.print(table, crop=False, overflow="ignore", no_wrap=True, soft_wrap=False)
    return len(widths)


def fitted_widths(columns: Sequence[Column], width: int | None) -> list[int]:
    """Widths of the columns that are shown: all if possible, else the first ones, but at least one.

    Long texts are cut before a column is left out; numbers are not.
    """
    natural = [column.width() for column in columns]
    if width is None:
        return natural
    usual = [
        each if column.is_number else min(each, _WIDEST_TEXT) for column, each in zip(columns, natural, strict=True)
    ]
    least = [
        each if column.is_number else min(each, max(_NARROWEST_TEXT, cell_len(column.name)))
        for column, each in zip(columns, usual, strict=True)
    ]
    shown = len(columns)
    while shown > 1 and _taken(least[:shown], shown < len(columns)) > width:
        shown -= 1
    widths = least[:shown]
    spare = width - _taken(widths, shown < len(columns))
    for index in range(shown):  # room that is left goes to the texts that were cut, from the left
        more = min(max(spare, 0), usual[index] - widths[index])
        widths[index] += more
        spare -= more
    return widths


def _taken(widths: Sequence[int], is_cut: bool) -> int:
    marker = len(_MORE) + _GAP if is_cut else 0
    return sum(widths) + _GAP * max(len(widths) - 1, 0) + marker


def _cell(text: str | None, room: int) -> Text:
    return Text(_NULL, style="dim") if text is None else Text(_cut(text, room))


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(room - 1, 0)) + _MORE
