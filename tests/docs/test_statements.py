"""What pages and messages say of the project, where the project itself can tell whether it is true."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from support.documents.markdown import ROOT
from tidelog import aggregates
from tidelog.cli.app import app
from tidelog.store.manifest.options import StreamOptions

DOCS = ROOT / "docs"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def page(name: str) -> str:
    return (ROOT / name).read_text()


def test_every_extra_is_in_the_readme_and_no_other() -> None:
    table = page("README.md").partition("| extra | for |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.M)) == sorted(PROJECT["project"]["optional-dependencies"])


def test_every_library_of_the_core_is_in_the_readme() -> None:
    (sentence,) = re.findall(r"^The core needs .*$", page("README.md"), re.M)
    for requirement in PROJECT["project"]["dependencies"]:
        assert re.match(r"\w+", requirement)[0].lower() in sentence.lower()  # type: ignore[index]  # they have names


def test_every_python_of_the_readme_is_declared() -> None:
    versions = [each.rpartition(" ")[2] for each in PROJECT["project"]["classifiers"] if ":: 3." in each]
    assert f"Python {versions[0]} to {versions[-1]}" in page("README.md")


@pytest.mark.parametrize("folder", ["", "design"])
def test_every_page_is_in_the_index(folder: str) -> None:
    prefix = f"{folder}/" if folder else ""
    for each in sorted((DOCS / folder).glob("*.md")):
        assert each.name == "index.md" or f"({prefix}{each.name})" in page("docs/index.md"), each


def test_the_layers_are_those_that_are_checked() -> None:
    checked = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    (shown,) = re.findall(r"^cli  >.*$", page("ARCHITECTURE.md"), re.M)
    assert shown.split("  >  ") == [re.sub(r"[()]", "", layer) for layer in checked]


def test_every_option_of_a_stream_is_described() -> None:
    table = page("docs/store.md").partition("| option | meaning |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line))
    assert sorted(named) == sorted(field.name for field in dataclasses.fields(StreamOptions))


def test_every_public_name_of_aggregates_is_described() -> None:
    text = page("docs/aggregates.md")
    modules = {"extremes", "places", "sketches", "totals"}
    inner = {"Aggregate", "Binding", "bind", "find", "named"}  # what the package itself works with
    for name in set(aggregates.__all__) - modules - inner:
        assert re.search(rf"\b{name}\b", text), name


def commands(group: typer.Typer, before: str = "") -> list[str]:
    return [
        *(before + (each.name or each.callback.__name__) for each in group.registered_commands if each.callback),
        *(name for each in group.registered_groups for name in commands(each.typer_instance, f"{each.name} ")),  # type: ignore[arg-type]  # all of ours have one
    ]


def test_every_command_is_described() -> None:
    text = page("docs/cli.md") + page("docs/pipelines.md")
    for command in commands(app):
        assert re.search(rf"`(tidelog )?{command}[ `]|tidelog {command} ", text), command


def messages(file: Path) -> list[str]:
    """The texts of a module, without docstrings and the like."""
    tree = ast.parse(file.read_text())
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(each) for each in statements if isinstance(each, ast.Constant)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [str(each.value) for each in texts if id(each) not in docstrings]


def test_messages_send_nobody_to_pages_that_are_not_installed() -> None:
    """Whoever has installed the package has no ``docs``; docstrings may name them, for those who read the source."""
    cites = re.compile(r"\bdocs/|\bspec/|\b[\w-]+\.md\b")
    assert [(file, text) for file in SOURCES for text in messages(file) if cites.search(text)] == []


def test_pages_that_docstrings_name_exist() -> None:
    for file in SOURCES:
        for cited in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text()):
            assert (ROOT / cited).exists(), (file, cited)


def help_texts(group: typer.Typer) -> list[str]:
    """Docstrings of commands, of which help is made."""
    texts = [each.callback.__doc__ or "" for each in group.registered_commands if each.callback]
    return texts + [text for each in group.registered_groups for text in help_texts(each.typer_instance)]  # type: ignore[arg-type]  # as above


def test_help_names_no_pages() -> None:
    assert [text for text in help_texts(app) if re.search(r"\bdocs/|\.md\b", text)] == []
