"""What the writing of all expressions of a statement shares."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

_SHORT: Final = 100
"""Characters of an expression that is written again rather than computed before."""


class Tools:
    """Names for what is computed before, and what the Java of Spark can do."""

    def __init__(self, has_shortest_texts: Callable[[], bool]) -> None:
        self.has_shortest_texts = has_shortest_texts
        """Whether Java writes floats with as few digits as tell them apart; those before 19 do not always."""
        self._numbers = itertools.count()

    def name(self) -> str:
        """A name that nothing else has."""
        return f"v{next(self._numbers)}"

    def let(self, text: str, body: Callable[[str], str]) -> str:
        """A body with an expression in it: as it is if it is short, and else computed before."""
        if len(text) <= _SHORT:
            return body(text)
        name = self.name()
        return f"element_at(transform(array({text}), {name} -> {body(name)}), 1)"
