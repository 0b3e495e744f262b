"""Numbers as people read them."""

from __future__ import annotations

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")


def count(number: float) -> str:
    """A whole number with separators: 1,234,567."""
    return f"{number:,.0f}"


def rows(number: int) -> str:
    """A number of rows: 1 row, 2,000 rows."""
    return f"{count(number)} row{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Bytes in the decimal unit that leaves at most three digits before the point: 12.3 MB."""
    unit = 0
    while number >= 999.95 and unit + 1 < len(_BYTES):
        number /= 1000
        unit += 1
    return f"{number:.0f} {_BYTES[unit]}" if unit == 0 else f"{number:.1f} {_BYTES[unit]}"


def duration(seconds: float) -> str:
    """Seconds, with digits that mean something."""
    return f"{seconds:.2f} s" if seconds < 100 else f"{count(seconds)} s"
