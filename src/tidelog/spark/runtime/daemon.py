"""Spark's daemon for Python, with tidelog loaded: the workers that it forks need not load it, each for itself.

Loading takes a worker longer than most of what it is started for. :func:`tidelog.spark.session` names this
module in ``spark.python.daemon.module``; in other sessions everything works as well, and every worker starts two
seconds later.
"""

from __future__ import annotations

import gc
import importlib
import sys

from pyspark.daemon import manager

from tidelog.lazy import load_kernels
from tidelog.spark.runtime.workers import LOADED_EARLY


def main() -> None:
    """Load what workers need, then fork them as Spark asks for them."""
    for name in (*sys.argv[1:2], *LOADED_EARLY):  # the first argument is the module that a worker is to run
        importlib.import_module(name)
    load_kernels()
    gc.freeze()  # what is loaded stays, and pages that nobody writes to are shared by all workers
    manager()


if __name__ == "__main__":
    main()
