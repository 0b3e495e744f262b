"""The source for an input, by its format."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelog.cli.formats import Format
from tidelog.cli.reading.delimited import DelimitedSource
from tidelog.cli.reading.detect import Input
from tidelog.cli.reading.json_lines import JsonLinesSource
from tidelog.cli.reading.source import Source
from tidelog.cli.reading.typed import TypedSource

_TAB_SUFFIXES = (".tsv", ".tab")


def open_source(
    content: Input,
    *,
    delimiter: str | None = None,
    nulls: Sequence[str] = (),
    columns: Collection[str] | None = None,
    told: Collection[str] = (),
) -> Source:
    """A source of the input's format. Files named ``.tsv`` or ``.tab`` are separated by tabs unless told otherwise.

    ``columns`` are the only ones that are taken, None takes all. ``told`` are those whose type the user has given.
    """
    if content.format is Format.CSV:
        usual = "\t" if content.suffix in _TAB_SUFFIXES else ","
        return DelimitedSource(content, delimiter=delimiter or usual, nulls=nulls, columns=columns, told=told)
    if content.format is Format.JSONL:
        return JsonLinesSource(content, columns=columns)
    return TypedSource(content, columns=columns)
