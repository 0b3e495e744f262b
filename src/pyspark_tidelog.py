"""Where Spark finds tidelog by itself: it looks for a ``DefaultSource`` in modules called ``pyspark_...``."""

from __future__ import annotations

from tidelog.spark.datasource.provider import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
