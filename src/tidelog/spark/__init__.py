"""tidelog on Spark. Needs the extra ``spark``: ``pip install tidelog[spark]``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tidelog.spark.runtime.errors import JavaNotFoundError, MissingDependencyError, UnrepresentableError

if find_spec("pyspark") is None:
    raise MissingDependencyError(
        "tidelog.spark needs PySpark, which is not installed in this environment: pip install tidelog[spark]"
    )

from tidelog.spark.runtime.session import session

if TYPE_CHECKING:
    from tidelog.spark.datasource.sink import write
    from tidelog.spark.datasource.source import read
    from tidelog.spark.jobs.aggregating import aggregate
    from tidelog.spark.jobs.compacting import compact
    from tidelog.spark.jobs.counting import count
    from tidelog.spark.jobs.rebuilding import rebuild
    from tidelog.spark.operators.merging import logical_merge
    from tidelog.spark.operators.running import run_operator
    from tidelog.spark.operators.windows import window_aggregate
    from tidelog.spark.sql.row_pattern import row_pattern
    from tidelog.spark.sql.situations import situations
    from tidelog.spark.sql.statement import sql

__all__ = [
    "JavaNotFoundError",
    "MissingDependencyError",
    "UnrepresentableError",
    "aggregate",
    "compact",
    "count",
    "logical_merge",
    "read",
    "rebuild",
    "row_pattern",
    "run_operator",
    "session",
    "situations",
    "sql",
    "window_aggregate",
    "write",
]

_MODULES = {
    "aggregate": "tidelog.spark.jobs.aggregating",
    "compact": "tidelog.spark.jobs.compacting",
    "count": "tidelog.spark.jobs.counting",
    "logical_merge": "tidelog.spark.operators.merging",
    "read": "tidelog.spark.datasource.source",
    "rebuild": "tidelog.spark.jobs.rebuilding",
    "row_pattern": "tidelog.spark.sql.row_pattern",
    "run_operator": "tidelog.spark.operators.running",
    "situations": "tidelog.spark.sql.situations",
    "sql": "tidelog.spark.sql.statement",
    "window_aggregate": "tidelog.spark.operators.windows",
    "write": "tidelog.spark.datasource.sink",
}


def __getattr__(name: str) -> Any:
    """Imports functions when they are asked for: they bring the engine, and with it Numba, along."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
