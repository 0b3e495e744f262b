"""tidelog on Spark. Needs the extra ``spark``: ``pip install tidelog[spark]``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tidelog.spark.errors import JavaNotFoundError, MissingDependencyError, UnrepresentableError

if find_spec("pyspark") is None:
    raise MissingDependencyError(
        "tidelog.spark needs PySpark, which is not installed in this environment: pip install tidelog[spark]"
    )

from tidelog.spark.session import session

if TYPE_CHECKING:
    from tidelog.spark.sink import write
    from tidelog.spark.source import read

__all__ = ["JavaNotFoundError", "MissingDependencyError", "UnrepresentableError", "read", "session", "write"]


def __getattr__(name: str) -> Any:
    """Imports ``read`` and ``write`` when they are asked for: they bring the engine, and with it Numba, along."""
    if name == "read":
        from tidelog.spark.source import read

        return read
    if name == "write":
        from tidelog.spark.sink import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
