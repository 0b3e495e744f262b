"""Consoles as documents show them: commands behind a prompt, each with what it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

PROMPT = "$ "


@dataclass(frozen=True)
class Shown:
    """A command and the lines that a document shows behind it."""

    command: str
    lines: tuple[str, ...]


def shown_commands(texts: Iterable[str]) -> list[Shown]:
    """The commands of console blocks in order. A line that ends in a backslash goes on in the next one."""
    found: list[tuple[str, list[str]]] = []
    for text in texts:
        goes_on = False
        for line in text.splitlines():
            if goes_on:
                command, lines = found[-1]
                found[-1] = (command[:-1] + line.strip(), lines)
            elif line.startswith(PROMPT):
                found.append((line.removeprefix(PROMPT), []))
            elif found:
                found[-1][1].append(line)
            goes_on = (goes_on or line.startswith(PROMPT)) and line.endswith("\\")
    return [Shown(command, tuple(lines)) for command, lines in found]


def first_difference(shown: Iterable[Shown], run: Callable[[list[str], bytes], str]) -> str | None:
    """Run what a document shows in the current folder; the first command that prints something else, or None.

    ``run`` gets the arguments of a ``tidelog`` command and its standard input, and returns what it prints. ``cat`` of a
    file that is not there yet makes it with the content shown; otherwise it prints it, also into a pipe. Shown lines
    may leave out what differs from run to run with ``...``. Commands of other programs are passed over.
    """
    for each in shown:
        printed = _printed(each, run)
        if printed is None:
            continue
        lines = [line.rstrip() for line in printed.splitlines()]
        expected = [line.rstrip() for line in each.lines]
        if len(lines) != len(expected) or not all(map(_matches, expected, lines)):
            return "\n".join([PROMPT + each.command, "shown:", *expected, "printed:", *lines])
    return None


def _printed(shown: Shown, run: Callable[[list[str], bytes], str]) -> str | None:
    feeding, _, last = shown.command.rpartition(" | ")
    program, *arguments = shlex.split(last, comments=True)
    if program == "cat" and not feeding:
        path = Path(arguments[0])
        if not path.exists():
            path.write_text("".join(f"{line}\n" for line in shown.lines))
        return path.read_text()
    if program != "tidelog":
        return None
    return run(arguments, Path(feeding.removeprefix("cat ")).read_bytes() if feeding else b"")


def _matches(expected: str, line: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, line) is not None
