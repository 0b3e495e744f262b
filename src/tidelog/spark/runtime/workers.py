"""What tidelog does about the Python processes that Spark runs it in."""

from __future__ import annotations

import gc
import sys
from typing import Final

DAEMON: Final = "tidelog.spark.runtime.daemon"
"""The module of Spark's daemon with tidelog loaded."""

LOADED_EARLY: Final = (
    "tidelog.spark.jobs.aggregating",
    "tidelog.spark.jobs.compacting",
    "tidelog.spark.datasource.many_sink",
    "tidelog.spark.datasource.many_source",
    "tidelog.spark.datasource.provider",
    "tidelog.spark.jobs.rebuilding",
    "tidelog.spark.datasource.sink",
    "tidelog.spark.datasource.source",
    "tidelog.spark.datasource.stream_sink",
    "tidelog.spark.datasource.stream_source",
    "tidelog.spark.operators.windows",
    "tidelog.spark.sql.continuous",
    "pandas",
)
"""What workers need, with all that it takes in turn; pandas, because Arrow loads it with the first array it makes."""

_modules_settled = 0


def settle() -> None:
    """Take what has been loaded out of garbage collections, if this is a worker of Spark and something new was loaded.

    Workers collect all garbage after every task, and the next task waits for that: a tenth of a second with the engine,
    Numba and the parser of expressions in memory. Modules stay as long as the process, so nobody has to look at them.
    """
    global _modules_settled
    loaded = len(sys.modules)
    if loaded > _modules_settled and is_worker():
        gc.freeze()
        _modules_settled = loaded


def is_worker() -> bool:
    """Whether this process was forked by Spark's daemon to run tasks, or to plan queries, one after the other."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in ("pyspark.daemon", DAEMON)
