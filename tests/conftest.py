"""Settings of the whole suite."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.profiles import USUAL_EXAMPLES, same_constants
from support.spark.drivers import start_light

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Timing must not decide the outcome of a test on a busy machine: neither how long an example takes, nor how
# long it takes to generate. One failure is enough to look at, and whoever looks must get it again.
_untimed = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": True,
    "report_multiple_bugs": False,
}

# The suite tries the same examples in every run, so that a change is judged by what it changes, not by luck
# (`same_constants` has its part in that). New examples are what `make soak` is for. A failure is told as it was
# found: making it smaller may take five minutes for a test that takes seconds, and a run that is ended in the middle
# of that tells nothing. `--hypothesis-profile=smaller` tries the same examples and makes them smaller.
_same = {"max_examples": USUAL_EXAMPLES, "derandomize": True, **_untimed}
settings.register_profile("quick", phases=(Phase.explicit, Phase.generate), **_same)
settings.register_profile("smaller", **_same)
settings.register_profile("thorough", max_examples=20 * USUAL_EXAMPLES, **_untimed)
settings.load_profile("quick")  # `--hypothesis-profile` on the command line has the last word
same_constants()
start_light()

# Bytecode is kept, whatever the shell says: tests start hundreds of processes, each of which would compile the package
# anew, and every run would rewrite the assertions of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the suite in the background has it ignore interrupts, and tests send some.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A forked child inherits locks that other threads hold, and files it should not own.
multiprocessing.set_start_method("spawn", force=True)


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    """Kernels are there before tests, which count allocations and calls, and race threads against each other.

    What is in memory by then, Numba and all tests, stays: garbage is collected without a look at it, in a tenth of the
    time.
    """
    from tidelog.lazy import load_kernels

    load_kernels()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session that tests share."""
    from support.spark.session import local_session  # only tests that use Spark pay for its import

    with local_session(tmp_path_factory.mktemp("spark")) as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of the shared session in one worker: a second session takes longer to start than they run."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
