"""Examples scale with the profile, and are the same in every run of the suite."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled


@pytest.mark.parametrize(("profile", "expected"), [("quick", 30), ("thorough", 600)])
def test_a_share_of_the_profile(profile: str, expected: int) -> None:
    current = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert (scaled(30), scaled(0)) == (expected, 1)
    finally:
        settings.load_profile(current)


def test_examples_do_not_depend_on_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that only a certain order of tests shows would never be found again."""

    def drawn() -> list[list[int]]:
        found = []

        @given(st.lists(st.integers(0, 10**6), min_size=10))
        def look(values: list[int]) -> None:
            found.append(values)

        look()
        return found

    before = drawn()
    (tmp_path / "many_constants.py").write_text(f"numbers = {list(range(500_000, 500_400))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("many_constants")
    try:
        assert drawn() == before
    finally:
        del sys.modules["many_constants"]
