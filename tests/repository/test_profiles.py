"""Examples scale with the profile."""

from __future__ import annotations

import pytest
from hypothesis import settings

from support.profiles import scaled


@pytest.mark.parametrize(("profile", "expected"), [("quick", 30), ("thorough", 600)])
def test_a_share_of_the_profile(profile: str, expected: int) -> None:
    current = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert (scaled(30), scaled(0)) == (expected, 1)
    finally:
        settings.load_profile(current)
