"""Settings of the whole suite."""

from __future__ import annotations

import multiprocessing

from hypothesis import HealthCheck, settings

from support.profiles import USUAL_EXAMPLES

# Timing must not decide the outcome of a test on a busy machine: neither how long an example takes, nor how
# long it takes to generate.
_untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

# The suite tries the same examples in every run, so that a change is judged by what it changes, not by luck.
# New examples are what `make soak` is for.
settings.register_profile("quick", max_examples=USUAL_EXAMPLES, derandomize=True, **_untimed)
settings.register_profile("thorough", max_examples=20 * USUAL_EXAMPLES, **_untimed)
settings.load_profile("quick")  # `--hypothesis-profile` on the command line has the last word

# A forked child inherits locks that other threads hold, and files it should not own.
multiprocessing.set_start_method("spawn", force=True)
