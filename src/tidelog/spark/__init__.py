"""tidelog on Spark. Needs the extra ``spark``: ``pip install tidelog[spark]``."""

from __future__ import annotations

from importlib.util import find_spec

from tidelog.spark.errors import JavaNotFoundError, MissingDependencyError, UnrepresentableError

if find_spec("pyspark") is None:
    raise MissingDependencyError(
        "tidelog.spark needs PySpark, which is not installed in this environment: pip install tidelog[spark]"
    )

from tidelog.spark.session import session
from tidelog.spark.sink import write
from tidelog.spark.source import read

__all__ = ["JavaNotFoundError", "MissingDependencyError", "UnrepresentableError", "read", "session", "write"]
