"""The names of formats, for options; apart from the code that reads and writes them, which takes longer to load."""

from __future__ import annotations

from enum import StrEnum


class InputFormat(StrEnum):
    """What ``ingest`` reads."""

    AUTO = "auto"
    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"
    ARROW = "arrow"


class OutputFormat(StrEnum):
    """What ``scan`` and ``aggregate`` write."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"
    PARQUET = "parquet"
