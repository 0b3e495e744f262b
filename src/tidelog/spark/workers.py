"""What tidelog does about the Python processes that Spark runs it in."""

from __future__ import annotations

import gc
import sys

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
    return spec is not None and spec.name == "pyspark.daemon"
