"""The set-up of .venv, as far as it goes without a network."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

import environment

ROOT = Path(__file__).resolve().parents[2]

LOCK = """\
# made up
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:aa
    # via tidelog
uv==0.13.7 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via tidelog
uvloop==1.0 \\
    --hash=sha256:dd
"""


def test_an_entry_is_cut_out_with_its_hashes_and_nothing_else() -> None:
    entry = environment.locked("uv", LOCK)
    assert entry == "uv==0.13.7 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert environment.pinned_version(entry) == "0.13.7"


def test_a_missing_entry_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(environment.SetupError, match="no entry for ruff; `make lock`"):
        environment.locked("ruff", LOCK)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree of its own, with an empty .venv."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name, file in [
        ("ROOT", "."),
        ("LOCK", "requirements.lock"),
        ("PYPROJECT", "pyproject.toml"),
        ("STAMP", ".venv/stamp"),
    ]:
        monkeypatch.setattr(environment, name, tmp_path / file)
    return tmp_path


@pytest.mark.parametrize(
    ("have", "want", "enough"),
    [("full", "full", True), ("full", "demo", True), ("demo", "demo", True), ("demo", "full", False)],
)
def test_a_stamp_speaks_for_its_state_and_what_that_includes(tree: Path, have: str, want: str, enough: bool) -> None:
    environment.write_stamp(have, environment.fingerprint("3.11"))
    assert environment.is_current(want, environment.fingerprint("3.11")) == enough


def test_a_stamp_ends_with_what_it_was_made_for(tree: Path) -> None:
    environment.write_stamp("full", environment.fingerprint("3.11"))
    assert not environment.is_current("full", environment.fingerprint("3.12"))
    (tree / "requirements.lock").write_text(LOCK.replace("0.13.7", "0.13.8"))
    assert not environment.is_current("full", environment.fingerprint("3.11"))


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"state": "other", "fingerprint": 1})])
def test_a_damaged_stamp_counts_for_nothing(tree: Path, content: str) -> None:
    (tree / ".venv" / "stamp").write_text(content)
    assert not environment.is_current("full", environment.fingerprint("3.11"))


def _fake_python(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def _run_setup(tree: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the real script in a copy of the tree, seeing only the commands of ``path``."""
    (tree / "tools").mkdir()
    (tree / "tools" / "setup").write_bytes((ROOT / "tools" / "setup").read_bytes())
    for tool in ("dirname", "tail", "cat"):
        located = next(Path(folder, tool) for folder in ("/usr/bin", "/bin") if Path(folder, tool).exists())
        (path / tool).symlink_to(located)
    environ = {"PATH": str(path), "HOME": os.environ["HOME"]}
    command = ["/bin/sh", str(tree / "tools" / "setup"), "full"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_without_a_fitting_python_the_message_lists_what_was_tried(tmp_path: Path) -> None:
    tree, path = tmp_path / "a tree", tmp_path / "bin"
    tree.mkdir()
    path.mkdir()
    _fake_python(path, "python3", "echo 'Python 3.9 is too old' >&2; exit 1")
    _fake_python(path, "python3.12", "exit 127")
    run = _run_setup(tree, path)
    assert run.returncode == 1
    assert "python3: Python 3.9 is too old" in run.stderr
    assert "python3.12: does not run" in run.stderr
    assert "Install Python 3.11" in run.stderr


def test_without_any_python_the_message_says_so(tmp_path: Path) -> None:
    tree, path = tmp_path / "tree", tmp_path / "bin"
    tree.mkdir()
    path.mkdir()
    assert "nothing: neither python3 nor" in _run_setup(tree, path).stderr


def test_the_first_python_that_fits_is_used(tmp_path: Path) -> None:
    tree, path = tmp_path / "a tree", tmp_path / "bin"
    tree.mkdir()
    path.mkdir()
    _fake_python(path, "python3", "echo 'Python 3.9 is too old' >&2; exit 1")
    _fake_python(path, "python3.13", '[ "$1" = -c ] || echo "ran $*"')
    _fake_python(path, "python3.11", "echo wrong")
    run = _run_setup(tree, path)
    assert (run.returncode, run.stdout) == (0, "ran tools/environment.py full\n")


@pytest.fixture
def pip_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for pip in .venv that lists settings from a file; uv itself has none."""
    settings = tmp_path / "settings"
    _fake_python(tmp_path, "python", f"cat '{settings}'")
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "python")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return settings


def test_uv_is_told_what_pip_was_told(pip_says: Path) -> None:
    pip_says.write_text("global.index-url='file:///a=b'\nglobal.cert='/etc/ca.pem'\nglobal.timeout='60'\n")
    environ = environment.uv_environment()
    assert environ["UV_DEFAULT_INDEX"] == "file:///a=b"
    assert environ["SSL_CERT_FILE"] == "/etc/ca.pem"


def test_the_environment_outranks_configuration_files(pip_says: Path) -> None:
    pip_says.write_text("global.index-url='file:///file'\n:env:.index-url='file:///environment'\n")
    assert environment.uv_environment()["UV_DEFAULT_INDEX"] == "file:///environment"


def test_settings_of_uv_stay_as_they_are(pip_says: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_says.write_text("global.index-url='file:///pip'\nglobal.cert='/pip.pem'\n")
    monkeypatch.setenv("UV_INDEX_URL", "file:///uv")
    monkeypatch.setenv("SSL_CERT_FILE", "/uv.pem")
    environ = environment.uv_environment()
    assert "UV_DEFAULT_INDEX" not in environ
    assert environ["SSL_CERT_FILE"] == "/uv.pem"
    pip_says.write_text("")
    assert "UV_DEFAULT_INDEX" not in environment.uv_environment()
