"""Texts that would only keep a parser busy are refused before it sees them."""

from __future__ import annotations

import re
from typing import Final

from tidelog.sql.errors import SqlError

_LONGEST: Final = 1 << 20
"""Characters of a statement."""
_DEEPEST: Final = 400
"""Parentheses inside of each other."""
_MOST_UNITED: Final = 1000
"""UNIONs and the like, for which the parser takes time that grows with the square of their number."""
_MOST_DOTS: Final = 64
"""Parts of a name, likewise."""


def refuse_monstrous(text: str) -> None:
    """Raise for texts that would only keep the parser busy."""
    if len(text) > _LONGEST:
        raise SqlError(f"found a statement of {len(text):,} characters; at most {_LONGEST:,} are read: use parameters")
    strange = re.search(r"[\0\ud800-\udfff]", text)
    if strange is not None:
        raise SqlError(f"found {strange[0]!r}, which is no character of a text", text=text, position=strange.start())
    depth = deepest = 0
    for each in re.finditer(r"[([{]|[)\]}]", text):
        depth += 1 if each[0] in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise SqlError(f"found parentheses {deepest:,} deep; at most {_DEEPEST} are read")
    joined = sum(1 for _ in re.finditer(r"\b(?:UNION|INTERSECT|EXCEPT)\b", text, re.IGNORECASE))
    if joined > _MOST_UNITED or re.search(rf"(?:\.\s*\w+\s*){{{_MOST_DOTS}}}", text):
        raise SqlError(f"found {joined:,} UNIONs, or a name of more than {_MOST_DOTS} parts; split the statement up")
