"""The parts of Markdown files that tests look at: fenced blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    text: str
    line: int
    """Number of its first line of code in the file, counted from 1."""


def documents() -> list[Path]:
    """All Markdown files a reader may open."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def name(document: Path) -> str:
    """The document's path as a reader would say it."""
    return document.relative_to(ROOT).as_posix()


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks in order. Raises ValueError when the last one is not closed."""
    found: list[Block] = []
    opened: tuple[str, str, int] | None = None
    code: list[str] = []
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = re.fullmatch(r"\s*(`{3,})\s*(\S*).*", line)
        if opened is None:
            if fence:
                opened, code = (fence[1], fence[2], number + 1), []
        elif fence and fence[1] == opened[0] and not fence[2]:
            found.append(Block(opened[1], "\n".join(code) + "\n", opened[2]))
            opened = None
        else:
            code.append(line)
    if opened is not None:
        raise ValueError(f"the block that starts at line {opened[2] - 1} is not closed")
    return found


def prose(markdown: str) -> str:
    """The text without fenced blocks and without code spans."""
    lines: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        mark = re.match(r"\s*(`{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    return re.sub(r"`[^`]*`", "", "\n".join(lines))


def links(markdown: str) -> list[str]:
    """Targets of the inline links in order."""
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(markdown))


def anchors(markdown: str) -> set[str]:
    """What a link may name behind ``#``: the headings, as common renderers spell them."""
    code = {line for block in blocks(markdown) for line in block.text.splitlines()}
    headings = re.findall(r"^#{1,6}\s+(.*?)\s*$", markdown, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings if f"# {heading}" not in code]
    return {heading.replace(" ", "-") for heading in plain}
