"""Links between documents lead somewhere, and every document can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.documents.markdown import ROOT, anchors, blocks, documents, links, name


def broken_links(document: Path) -> list[str]:
    """Relative links of a document whose file or heading does not exist."""
    broken = []
    for link in links(document.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue  # the suite works without a network
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", documents(), ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    assert broken_links(document) == []


@pytest.mark.parametrize("document", documents(), ids=name)
def test_blocks_are_closed(document: Path) -> None:
    blocks(document.read_text())


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            files = (link.partition("#")[0] for link in links(page.read_text()) if "://" not in link)
            targets = ((page.parent / file).resolve() for file in files if file.endswith(".md"))
            waiting.extend(target for target in targets if target.exists())
    unreached = [name(page) for page in documents() if page not in reached]
    assert unreached == [], "link these pages, from docs/index.md for instance"


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A fine heading\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-fine-heading) [b](other.md#missing) [c](gone.md) `[d](code.md)` [e](#here)\n\n"
        "```\n[f](block.md)\n# there\n```\n\n## Here\n\n[g](#there)\n"
    )
    assert broken_links(page) == ["other.md#missing", "gone.md", "#there"]
