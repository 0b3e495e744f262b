"""The source for an input, by its format."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.reading.delimited import DelimitedSource
from tidelog.cli.reading.detect import Format, Input
from tidelog.cli.reading.jsonlines import JsonLinesSource
from tidelog.cli.reading.source import Source
from tidelog.cli.reading.typed import TypedSource

_TAB_SUFFIXES = (".tsv", ".tab")


def open_source(content: Input, *, delimiter: str | None = None, nulls: Sequence[str] = ()) -> Source:
    """A source of the input's format. Files named ``.tsv`` or ``.tab`` are separated by tabs unless told otherwise."""
    if content.format is Format.CSV:
        usual = "\t" if content.suffix in _TAB_SUFFIXES else ","
        return DelimitedSource(content, delimiter=delimiter or usual, nulls=nulls)
    if content.format is Format.JSONL:
        return JsonLinesSource(content)
    return TypedSource(content)
