"""``tidelog.spark.situations``: patterns of situations in a DataFrame, or the situations themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from tidelog.spark.operators.running import Late
from tidelog.spark.sql.statement import sql
from tidelog.sql.situations import asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def situations(
    df: DataFrame,
    text: str | None = None,
    *,
    define: Mapping[str, str] | Sequence[str] | None = None,
    pattern: str | Sequence[str] | None = None,
    within: str | timedelta | int | None = None,
    returns: Mapping[str, str] | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    time: str | None = None,
    mode: Literal["completed", "early"] = "completed",
    dialect: Literal["allen", "thesis"] = "allen",
    timezone: str = "UTC",
    lateness: Any = None,
    late: Late = "drop",
    tasks: int | None = None,
    imports: Sequence[str] = (),
) -> DataFrame:
    """The matches of a pattern of situations in a DataFrame, of batches or streaming; without one the situations.

    What is asked is a ``text`` of the language of situations or its parts as arguments, as for
    :func:`tidelog.situations`; see docs/situations.md. The rest is as for :func:`tidelog.spark.sql`. Keys are divided
    among tasks; without them ranges of time are, if the window is short enough. Of a stream, a match comes out when
    the watermark has passed the row by which it is known.
    """
    question = asked(
        text,
        define=define,
        pattern=pattern,
        within=within,
        returns=returns,
        partition_by=partition_by,
        time=time,
        mode=mode,
        dialect=dialect,
    )
    with question.placed():
        return sql(
            df.sparkSession,
            question.statement,
            tables={question.table: df},
            timezone=timezone,
            lateness=lateness,
            late=late,
            tasks=tasks,
            imports=imports,
        )
