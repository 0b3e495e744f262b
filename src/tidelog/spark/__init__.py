"""tidelog on Spark. Needs the extra ``spark``: ``pip install tidelog[spark]``."""

from __future__ import annotations

from importlib.util import find_spec

from tidelog.spark.errors import JavaNotFoundError, MissingDependencyError

__all__ = ["JavaNotFoundError", "MissingDependencyError"]

if find_spec("pyspark") is None:
    raise MissingDependencyError(
        "tidelog.spark needs PySpark, which is not installed in this environment: pip install tidelog[spark]"
    )
