"""What people type, told apart: statements, which semicolons end, and commands of the shell, which lines end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import tokens

MARK: Final = "\\"
"""What commands of the shell begin with."""
_WORDS: Final = {"quit": f"{MARK}q", "exit": f"{MARK}q", "help": f"{MARK}?"}
"""What other shells know, which is no SQL, and the commands that it means where it stands alone."""
_OPEN_TEXT: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
"""What begins a text between dollars."""


def as_command(text: str) -> str | None:
    """The command that a text is, which may be a word of other shells; None if it is none."""
    word = text.strip().removesuffix(";").rstrip().lower()
    return text.strip() if text.lstrip().startswith(MARK) else _WORDS.get(word)


def is_complete(text: str) -> bool:
    """Whether nothing more is expected behind a text: it ends with a semicolon, or is a command, or nothing at all."""
    if as_command(text) is not None:
        return True
    try:
        found = tokens(text)
    except SqlError:  # a quote or a comment that is not closed yet
        return False
    if any(token.says("$") and _OPEN_TEXT.match(text, token.start) for token in found):
        return False
    return not found or found[-1].says(";")


def inputs(lines: Iterable[str]) -> Iterator[str]:
    """The statements and commands of a text, one after the other; what no semicolon ends is the last one.

    Lines that have to be read together come together, so some of what is returned may be several statements.
    """
    before = ""
    for line in lines:
        if not before and (command := as_command(line)) is not None:
            yield command
            continue
        before += line
        if (";" in line or not before.strip()) and is_complete(before):
            yield from [before] if before.strip() else []
            before = ""
    if before.strip():
        yield before
