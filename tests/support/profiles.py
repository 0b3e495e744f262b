"""How many examples a property is tried with, in proportion to the profile in force."""

from __future__ import annotations

from hypothesis import settings

USUAL_EXAMPLES = 100
"""What the profile of the suite tries unless a test says otherwise."""


def scaled(examples: int) -> int:
    """``examples`` in the suite's profile, and correspondingly more in a more thorough one.

    For tests whose examples are dearer or cheaper than usual: ``@settings(max_examples=scaled(30))``. A plain
    number there would hold for every profile, and `make soak` would try nothing new.
    """
    return max(1, examples * settings().max_examples // USUAL_EXAMPLES)
