"""The picture of the relations between situations shows what they are."""

from __future__ import annotations

import re

from support.documents.markdown import ROOT, blocks
from tidelog.operators.situations.relations import NAMES, relation_of


def shown(line: str, letter: str, place: int) -> tuple[int, int]:
    """From where to where a letter goes in a bar that begins at a place of a line."""
    bar = line[place : place + 10]
    assert re.fullmatch(rf"\.*{letter}+\.*", bar), line
    return bar.index(letter), bar.rindex(letter) + 1


def test_the_picture_shows_every_relation_as_it_is() -> None:
    document = (ROOT / "docs/situations.md").read_text()
    (picture,) = [each.text for each in blocks(document) if each.language == "text" and "A before B" in each.text]
    lines = picture.splitlines()
    found = {}
    for upper, lower in zip(lines[::2], lines[1::2], strict=True):
        for match in re.finditer(r"A ([a-z ]+) B +", upper):
            at = match.end()
            found[match[1]] = relation_of(shown(upper, "A", at), shown(lower, "B", at))
    assert found == NAMES
