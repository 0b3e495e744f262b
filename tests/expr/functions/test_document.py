"""docs/expressions.md names every function there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tidelog.expr.functions.library import ALIASES, FUNCTIONS

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "expressions.md"


def _rows() -> dict[str, list[str]]:
    rows = {}
    for line in DOCUMENT.read_text().splitlines():
        found = re.fullmatch(r"\| ([a-z ]+) \| (`.*`) \|", line)
        if found:
            rows[found[1]] = [name.replace("\\|", "|") for name in re.findall(r"`([^`]+)`", found[2])]
    return rows


def test_the_table_is_the_registry() -> None:
    rows = _rows()
    aliases = rows.pop("other names")
    themes: dict[str, list[str]] = {}
    for name, theme in FUNCTIONS.items():
        themes.setdefault(theme, []).append(name)
    assert rows == {theme: sorted(names) for theme, names in themes.items()}
    assert dict(zip(aliases[::2], aliases[1::2], strict=True)) == ALIASES
