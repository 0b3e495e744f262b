"""What commands say to people: text that cannot give orders to a terminal, whatever names and values are in it."""

from __future__ import annotations

import re
from typing import Final

import typer

_CONTROLS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that turn the direction of writing, and halves of pairs, which no encoding has."""


def printable(text: str) -> str:
    """Text on one line that cannot give orders to a terminal: control characters become escapes."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(message: str = "", *, err: bool = False) -> None:
    """Print a message of one or several lines on standard output, or on standard error, each line made printable."""
    typer.echo("\n".join(printable(line) for line in message.split("\n")), err=err)
