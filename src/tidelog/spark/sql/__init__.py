"""SQL over streams on Spark: the statement that ``store.sql`` takes, bound by DuckDB, computed by Spark.

DuckDB reads the statement, finds what every name means and gives every expression its type; its plan, operator by
operator, becomes Spark SQL (:mod:`tidelog.spark.sql.operators`). docs/design/008-sql.md says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Callable(ModuleType):
    """This package, which is called like the function that it takes the place of as soon as it is imported."""

    def __call__(
        self,
        session: SparkSession,
        text: str,
        params: Any = None,
        *,
        store: str | os.PathLike[str] | None = None,
        tables: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        as_of: int | None = None,
        partition_size: int | None = None,
        lateness: Any = None,
        late: Literal["drop", "keep"] = "drop",
        tasks: int | None = None,
        imports: Sequence[str] = (),
    ) -> DataFrame:
        """See :func:`tidelog.spark.sql.statement.sql`."""
        from tidelog.spark.sql.statement import sql

        return sql(
            session,
            text,
            params,
            store=store,
            tables=tables,
            timezone=timezone,
            as_of=as_of,
            partition_size=partition_size,
            lateness=lateness,
            late=late,
            tasks=tasks,
            imports=imports,
        )


sys.modules[__name__].__class__ = _Callable
