"""The names of formats; apart from the code that reads and writes them, which takes longer to load."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What ``ingest`` reads."""

    AUTO = "auto"
    """Told by the name of an input, or by its content."""
    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"
    ARROW = "arrow"


class Output(StrEnum):
    """What ``scan`` and ``aggregate`` write."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"
    PARQUET = "parquet"
