"""The lock fits the project file, is complete, and names no place packages come from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: str) -> dict[str, set[Version]]:
    """The locked versions of each package; several when they depend on the platform."""
    found: dict[str, set[Version]] = {}
    for line in lock.splitlines():
        if line and not line.startswith(("#", " ")):
            requirement = Requirement(line.removesuffix("\\"))
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            found.setdefault(canonicalize_name(requirement.name), set()).add(Version(specifier.version))
    return found


def direct_requirements() -> list[Requirement]:
    project = PYPROJECT["project"]
    groups = [project["dependencies"], PYPROJECT["build-system"]["requires"]]
    groups += project["optional-dependencies"].values()
    groups += PYPROJECT["dependency-groups"].values()
    return [Requirement(text) for group in groups for text in group]


@pytest.mark.parametrize("requirement", direct_requirements(), ids=str)
def test_every_requirement_is_met_by_the_lock(requirement: Requirement) -> None:
    versions = pins(LOCK).get(canonicalize_name(requirement.name), set())
    assert versions, "not in the lock: run `make lock`"
    assert all(version in requirement.specifier for version in versions), "run `make lock`"


def test_every_entry_has_hashes() -> None:
    lines = LOCK.splitlines()
    entries = [number for number, line in enumerate(lines) if line and not line.startswith(("#", " "))]
    assert len(entries) > 20
    bare = [lines[number] for number in entries if not lines[number + 1].startswith("    --hash=sha256:")]
    assert bare == []


def test_no_host_is_named() -> None:
    assert "://" not in LOCK
    assert "index-url" not in LOCK
