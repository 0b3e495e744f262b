"""``tidelog.spark.row_pattern``: the matches of a row pattern in a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model.arguments import text
from tidelog.spark.operators.running import Late
from tidelog.spark.sql.statement import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def row_pattern(
    df: DataFrame,
    clause: str,
    params: Any = None,
    *,
    timezone: str = "UTC",
    lateness: Any = None,
    late: Late = "drop",
    tasks: int | None = None,
    imports: Sequence[str] = (),
) -> DataFrame:
    """The matches of a row pattern in a DataFrame, of batches or streaming.

    ``clause`` is what stands between the parentheses of ``MATCH_RECOGNIZE ( ... )``, see docs/patterns.md; the rest is
    as for :func:`tidelog.spark.sql`. Partitions are divided among tasks. Of a stream, the order begins with its time,
    and a match comes out as soon as no later row can change it.
    """
    statement = f"SELECT * FROM input MATCH_RECOGNIZE (\n{text('a clause', clause)}\n)"
    return sql(
        df.sparkSession,
        statement,
        params,
        tables={"input": df},
        timezone=timezone,
        lateness=lateness,
        late=late,
        tasks=tasks,
        imports=imports,
    )
