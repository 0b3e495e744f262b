"""The words of entries, as kernels go by them too."""

from __future__ import annotations

COUNTS, SIGNED, UNSIGNED, FLOAT, TEXT = 0, 1, 2, 3, 4
"""How the bounds of a column compare; a column of kind ``COUNTS`` has none, and no sum."""

HEAD_WORDS = 2
COLUMN_WORDS = 7

SUMMARY_WORDS = 6
"""Words of a summary, of which a column's words are made."""
