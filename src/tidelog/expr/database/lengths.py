"""How large results may become: functions such as ``repeat`` make gigabytes of a few characters.

A text that a function makes has at most :data:`MOST_BYTES`, or as many as the longest text it was made of. How long it
may become is worked out before a batch is evaluated, from the longest texts in it. Where that is little, as it mostly
is, nothing more is done. Otherwise every function that makes texts longer is written with a test of its own, which
raises, and no more rows are evaluated at a time than :data:`BATCH_BYTES` have room for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.expr.errors import EvaluationError
from tidelog.expr.text import ForDuckDB
from tidelog.expr.tree import Call, Case, Cast, Column, External, Literal, Members, Node
from tidelog.expr.values.types import BLOB, NULL, VARCHAR

MOST_BYTES: Final = 1 << 20
"""Of one text that a function makes."""

BATCH_BYTES: Final = 256 << 20
"""Of all texts that a function makes at once."""

RESULT_BYTES: Final = 1 << 30
"""Of all results for a batch."""

_PLAIN: Final = 64
"""Bytes of the text of a number, an instant and the like, at the most."""

_PER_DIRECTIVE: Final = 32
"""Bytes of what a character of a format stands for."""

_MOST_STEPS: Final = 1 << 25
"""Bytes of one text times those of another that are compared with one another at the most: a tenth of a second."""

_TOO_LONG: Final = "tidelog: too long: "

_GROWTH: Final = {"hex": 2.0, "bin": 8.0, "to_base64": 1.5, "translate": 4.0, "lower": 3.0, "upper": 3.0}
"""How many bytes a function makes of one; others that take one text make no more than it has."""


def too_long(size: int) -> EvaluationError:
    """The error for a text of so many bytes."""
    return EvaluationError(
        f"a text of {size:,} bytes would be the result; functions make texts of up to {MOST_BYTES:,} bytes, or as long "
        "as the longest one they are made of"
    )


def too_long_by(message: str) -> EvaluationError | None:
    """The error for what a test of ours has raised in DuckDB; None if it was another."""
    _, found, behind = message.partition(_TOO_LONG)
    return too_long(int(behind.split()[0].split(".")[0])) if found else None


def grows(node: Node) -> bool:
    """Whether something in an expression makes texts that are longer than those it is made of, or takes long for it."""
    return any(isinstance(each, External) and each.name in _TESTS for each in node.walk())


class Longest:
    """How long texts may become in a batch, whose longest texts and greatest numbers are known by column."""

    def __init__(self, texts: Mapping[str, int], numbers: Callable[[Node], float]) -> None:
        """``numbers`` gives the greatest value of an expression of integers."""
        self._texts = texts
        self._numbers = numbers
        self.most = 0.0
        """Bytes of the longest text that is made, in between or as the result."""

    def of(self, node: Node) -> float:
        """The bytes that a value has at the most."""
        found = self._of(node)
        self.most = max(self.most, found)
        return found

    def _of(self, node: Node) -> float:
        if isinstance(node, Column):
            return self._texts.get(node.name, _PLAIN)
        if isinstance(node, Literal):
            return len(node.value.encode()) if isinstance(node.value, str) else _PLAIN
        if isinstance(node, Members):
            return 0
        below = [self.of(each) for each in node.operands]
        if isinstance(node, Cast):
            return max(4 * below[0] if node.operand.type == BLOB else below[0], _PLAIN)
        if isinstance(node, Case):
            return max(below)
        assert isinstance(node, Call)
        if isinstance(node, External) and node.name == "levenshtein":
            self.most = max(self.most, math.inf if max(below) * (min(below) + _PLAIN) > _MOST_STEPS else 0)
        if node.type not in (VARCHAR, BLOB):
            return _PLAIN
        return self._made(node, below)

    def _made(self, node: Call, below: list[float]) -> float:
        name = node.name
        if name == "repeat":
            return below[0] * max(self._numbers(node.arguments[1]), 0)
        if name in ("lpad", "rpad"):
            return max(below[0], 4 * self._numbers(node.arguments[1]))
        if name in ("||", "concat"):
            return sum(below)
        if name == "concat_ws":
            return sum(below) + below[0] * len(below)
        if name == "replace":
            return below[0] * max(below[2], 1)
        if name == "regexp_replace":
            groups = 10 if not isinstance(node.arguments[2], Literal) else str(node.arguments[2].value).count("\\")
            return (below[0] + 1) * (1 + groups + below[2])
        if name == "strftime":
            return _PER_DIRECTIVE * max(below)
        return max(below, default=0) * _GROWTH.get(name, 1.0) + _PLAIN


def _size(operand: str, type_: Any) -> str:
    return f"CAST({'octet_length' if type_ == BLOB else 'strlen'}({operand}) AS DOUBLE)"


def _sum(sizes: list[str]) -> str:
    return " + ".join(f"coalesce({size}, 0)" for size in sizes)


def _replaced(texts: list[str], sizes: list[str]) -> str:
    """Of ``replace``: each time, the bytes of the new text less those of the old one are more."""
    times = f"({sizes[0]} - strlen(replace({texts[0]}, {texts[1]}, ''))) / nullif({sizes[1]}, 0)"
    return f"{sizes[0]} + coalesce({times}, 0) * ({sizes[2]} - {sizes[1]})"


def _replaced_by_pattern(texts: list[str], sizes: list[str]) -> str:
    """Of ``regexp_replace``: where a pattern matches nothing, it may do so everywhere."""
    value, pattern, new, *options = texts
    once = "1" if not options else f"CASE WHEN NOT contains({options[0]}, 'g') THEN 1 ELSE NULL END"
    flags = f", replace({options[0]}, 'g', '')" if options else ""
    removed = f"strlen({value}) - strlen(regexp_replace({value}, {pattern}, ''{', ' + options[0] if options else ''}))"
    often = f"CASE WHEN regexp_matches('', {pattern}{flags}) THEN strlen({value}) + 1 ELSE {removed} END"
    groups = f"(1 + length({new}) - length(replace({new}, '\\', '')))"
    return f"{sizes[0]} * {groups} + coalesce({once}, {often}) * {sizes[2]}"


_Test = Callable[[list[str], list[str]], str]

_TESTS: Final[dict[str, _Test]] = {
    "repeat": lambda texts, sizes: f"{sizes[0]} * greatest({texts[1]}, 0)",
    "lpad": lambda texts, _sizes: f"CAST({texts[1]} AS DOUBLE)",
    "rpad": lambda texts, _sizes: f"CAST({texts[1]} AS DOUBLE)",
    "||": lambda _texts, sizes: _sum(sizes),
    "concat": lambda _texts, sizes: _sum(sizes),
    "concat_ws": lambda _texts, sizes: f"{_sum(sizes[1:])} + {len(sizes) - 1} * {sizes[0]}",
    "replace": _replaced,
    "regexp_replace": _replaced_by_pattern,
    "hex": lambda _texts, sizes: f"2 * {sizes[0]}",
    "bin": lambda _texts, sizes: f"8 * {sizes[0]}",
    "to_base64": lambda _texts, sizes: f"4 * ceil({sizes[0]} / 3)",
    "translate": lambda texts, _sizes: f"strlen(translate({', '.join(texts)}))",
    "strftime": lambda _texts, sizes: f"{_PER_DIRECTIVE} * greatest({', '.join(sizes)})",
    "levenshtein": lambda _texts, sizes: f"greatest({sizes[0]}, {sizes[1]}) * (least({sizes[0]}, {sizes[1]}) + 64)",
}
"""The bytes that a function makes, at the most, of the texts of its arguments and their sizes."""


class Tested(ForDuckDB):
    """Writes expressions in which functions that make texts longer raise before they do."""

    def call(self, node: Call) -> str:
        """With a test in front of those; what is long itself is written once, and has a name in both."""
        test = _TESTS.get(node.name)
        if test is None or not isinstance(node, External):
            return super().call(node)
        arguments = [f"({self.text(each)})" for each in node.arguments]
        if not any(grows(each) for each in node.arguments):
            return self._tested(node, test, arguments)
        is_named = [not each.is_constant or grows(each) for each in node.arguments]  # patterns stay constants
        fields = ", ".join(f"a{place}: {text}" for place, text in enumerate(arguments) if is_named[place])
        within = [f"v.a{place}" if is_named[place] else text for place, text in enumerate(arguments)]
        return f"list_transform([{{{fields}}}], lambda v: {self._tested(node, test, within)})[1]"

    def _tested(self, node: Call, test: _Test, arguments: list[str]) -> str:
        of_text = [each.type in (VARCHAR, BLOB) for each in node.arguments]
        sizes = [
            _size(text, each.type) if is_text else "0" if each.type == NULL else str(_PLAIN)
            for text, each, is_text in zip(arguments, node.arguments, of_text, strict=True)
        ]
        made = f"{arguments[0]} || {arguments[1]}" if node.name == "||" else f"{node.name}({', '.join(arguments)})"
        size = test(arguments, sizes)
        if node.name == "levenshtein":
            found = f"'levenshtein found texts of ' || format('{{:,}}', strlen({arguments[0]})) || ' and ' || "
            found += (
                f"format('{{:,}}', strlen({arguments[1]})) || ' bytes; expected shorter ones, up to 5,000 bytes each'"
            )
            return f"CASE WHEN {size} > {_MOST_STEPS} THEN error({found}) ELSE {made} END"
        longest = ", ".join([str(MOST_BYTES), *(size for size, is_text in zip(sizes, of_text, strict=True) if is_text)])
        raised = f"error('{_TOO_LONG}' || CAST({size} AS VARCHAR))"
        return f"CASE WHEN {size} > greatest({longest}) THEN {raised} ELSE {made} END"
