"""Every piece of Python in the documentation runs, every command shown exists, and ``tidelog`` prints what is shown."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.documents.console import Shown, first_difference, shown_commands
from support.documents.markdown import ROOT, Block, blocks, documents, name
from support.documents.run_snippets import run_python
from support.spark.drivers import small_spark


def _documents_with(*languages: str) -> list[tuple[Path, list[Block]]]:
    found = []
    for document in documents():
        chosen = [block for block in blocks(document.read_text()) if block.language in languages]
        if chosen:
            found.append((document, chosen))
    return found


def _uses_spark(chosen: list[Block]) -> bool:
    return any(re.search(r"\bimport .*spark|tidelog\.spark", block.text) for block in chosen)


@pytest.mark.parametrize(
    ("document", "chosen"),
    [pytest.param(*case, id=name(case[0])) for case in _documents_with("python") if not _uses_spark(case[1])],
)
def test_python_runs(document: Path, chosen: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(document, [(block.line, block.text) for block in chosen])


def test_python_on_spark_runs(tmp_path: Path) -> None:
    """In a process of its own: the session that tests share is at work in another directory."""
    found = [case for case in _documents_with("python") if _uses_spark(case[1])]
    assert len(found) > 3
    blocks_of = {str(document): [[block.line, block.text] for block in chosen] for document, chosen in found}
    (tmp_path / "blocks.json").write_text(json.dumps(blocks_of))
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**small_spark(), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(ROOT / "tests/support/documents/run_snippets.py"), "blocks.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_failing_snippet_is_noticed_at_its_line() -> None:
    document = ROOT / "made-up.md"
    chosen = blocks("# Title\n\n```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_python(document, [(block.line, block.text) for block in chosen])
    assert (str(caught.traceback[-1].path), caught.traceback[-1].lineno + 1) == (str(document), 10)


def _commands(block: Block) -> list[str]:
    """The commands of a block: behind a prompt in ``console``, every line in ``sh``."""
    if block.language == "console":
        return [shown.command for shown in shown_commands([block.text])]
    return [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]


def complaint_about(command: str) -> str | None:
    """Why a command shown to the reader cannot work, or None."""
    program, *arguments = shlex.split(command, comments=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        missing = [word for word in arguments if "=" not in word and word not in targets]
        return f"make has no target {missing}" if missing else None
    if program == "tidelog":
        return None if "tidelog" in project.get("scripts", {}) else "the package installs no command `tidelog`"
    if [program, *arguments[:1]] == ["pip", "install"]:
        asked = re.findall(r"\[([\w,]+)\]", command)
        extras = {extra for group in asked for extra in group.split(",")}
        unknown = extras - project["optional-dependencies"].keys()
        return f"unknown extras {sorted(unknown)}" if unknown else None
    if program in {"cat", "cd", "git"}:
        return None
    if program.startswith(".venv/bin/"):
        return None if program.rsplit("/", 1)[1] in {"python", "pytest", "ruff", "mypy"} else "not in .venv"
    return "no rule says how to check it; show another command or add a rule here"


@pytest.mark.parametrize(
    ("document", "chosen"),
    [pytest.param(*case, id=name(case[0])) for case in _documents_with("console", "sh")],
)
def test_commands_exist(document: Path, chosen: list[Block]) -> None:
    complaints = {
        command: complaint
        for block in chosen
        for command in _commands(block)
        if (complaint := complaint_about(command)) is not None
    }
    assert complaints == {}


@pytest.mark.parametrize(
    ("command", "works"),
    [
        ("make test PYTEST_ARGS='-k x'", True),
        ("make toast", False),
        ("pip install 'tidelog[spark,plot]'", True),
        ("pip install tidelog[quantum]", False),
        ("frobnicate --now", False),
    ],
)
def test_what_counts_as_an_existing_command(command: str, works: bool) -> None:
    assert (complaint_about(command) is None) == works


def _consoles() -> list[tuple[Path, list[Shown]]]:
    """Documents that show ``tidelog`` at work, with all their commands in order."""
    found = [(document, shown_commands(b.text for b in chosen)) for document, chosen in _documents_with("console")]
    return [(document, shown) for document, shown in found if any("tidelog " in each.command for each in shown)]


@pytest.mark.parametrize(("document", "shown"), [pytest.param(*case, id=name(case[0])) for case in _consoles()])
def test_tidelog_prints_what_is_shown(
    document: Path,
    shown: list[Shown],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from tidelog.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(arguments: list[str], stdin: bytes) -> str:
        source = tmp_path / ".stdin"
        source.write_bytes(stdin)
        with source.open("rb") as file:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
            capfd.readouterr()
            main(arguments)
        captured = capfd.readouterr()
        return captured.out + captured.err

    difference = first_difference(shown, run)
    assert difference is None, difference


def test_consoles_are_read_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "$ make\n$ cat a.txt\nx\n$ tidelog one \\\n    'two three'\n5 rows in ... s\n$ cat a.txt | tidelog -\nx\n"
    shown = shown_commands([text])
    assert [each.command for each in shown] == ["make", "cat a.txt", "tidelog one 'two three'", "cat a.txt | tidelog -"]
    calls: list[tuple[list[str], bytes]] = []

    def run(arguments: list[str], stdin: bytes) -> str:
        calls.append((arguments, stdin))
        return stdin.decode() or "5 rows in 0.1 s \n"

    assert first_difference(shown, run) is None
    assert calls == [(["one", "two three"], b""), (["-"], b"x\n")]
    assert (tmp_path / "a.txt").read_text() == "x\n"
    wrong = first_difference(shown, lambda arguments, stdin: "6 rows in 0.1 s\n")
    assert wrong is not None
    assert "printed:\n6 rows" in wrong
    assert first_difference(shown, lambda arguments, stdin: "5 rows in 0.1 s\nmore\n") is not None
