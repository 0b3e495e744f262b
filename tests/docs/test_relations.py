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


DOCUMENT = (ROOT / "docs/situations.md").read_text()


def pictured() -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """By relation, from where to where A and B go."""
    (picture,) = [each.text for each in blocks(DOCUMENT) if each.language == "text" and "A before B" in each.text]
    lines = picture.splitlines()
    found = {}
    for upper, lower in zip(lines[::2], lines[1::2], strict=True):
        for match in re.finditer(r"A ([a-z ]+) B +", upper):
            at = match.end()
            found[match[1]] = shown(upper, "A", at), shown(lower, "B", at)
    return found


def test_the_picture_shows_every_relation_as_it_is() -> None:
    assert {name: relation_of(*both) for name, both in pictured().items()} == NAMES


def test_those_that_share_some_time_are_named() -> None:
    named = re.search(r"are nine of them: `([^`]+)`", DOCUMENT)
    assert named is not None
    shared = {name for name, (one, other) in pictured().items() if max(one[0], other[0]) < min(one[1], other[1])}
    assert set(" ".join(named[1].split()).split(" | ")) == shared
