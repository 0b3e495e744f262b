"""Which examples a property is tried with, and how many, by the profile in force."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.internal.conjecture import providers

USUAL_EXAMPLES = 100
"""What the profile of the suite tries unless a test says otherwise."""


def scaled(examples: int) -> int:
    """``examples`` in the suite's profile, and correspondingly more in a more thorough one.

    For tests whose examples are dearer or cheaper than usual: ``@settings(max_examples=scaled(30))``. A plain
    number there would hold for every profile, and `make soak` would try nothing new.
    """
    return max(1, examples * settings().max_examples // USUAL_EXAMPLES)


def same_constants() -> None:
    """Let profiles that are derandomised try the same examples whatever was imported before.

    One value in twenty is a constant out of the sources of the modules that are loaded at that moment. So what is tried
    would depend on which tests ran before in the same process, and change with any number in any module. There is no
    setting for it; ``tests/repository/test_profiles.py`` notices if this has no effect any more.
    """
    of_loaded_modules = providers._get_local_constants

    def constants() -> providers.Constants:
        return providers.Constants() if settings().derandomize else of_loaded_modules()

    providers._get_local_constants = constants
