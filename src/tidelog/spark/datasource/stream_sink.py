"""Streams as sinks of Structured Streaming: every batch of a query once, through failures and restarts.

A batch becomes visible by one commit, which also notes its number. Spark calls ``commit`` again after a restart, and
``abort`` even after a commit that went through: the first finds the number taken and does nothing, the second finds
the splits in use and leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.model.errors import InputError
from tidelog.spark.datasource.committing import Written, commit_splits, remove_splits, splits_of
from tidelog.spark.datasource.many_sink import ManyWriter
from tidelog.spark.datasource.options import SinkOptions
from tidelog.spark.datasource.sink import TidelogWriter
from tidelog.spark.runtime.errors import plainly

_QUERY_ID = "sql.streaming.queryId"


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a streaming query."""

    def __init__(self, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        """Creates the stream if it has to be; raises unless the columns fit it."""
        if overwrite:
            raise InputError(
                "the output mode is complete, which replaces everything with each batch; expected append, or update"
            )
        if options.transaction is not None:
            raise InputError("option 'transaction' is for single jobs; the batches of a query are numbered by Spark")
        self._options = options
        kind = TidelogWriter if options.stream_column is None else ManyWriter
        self._tasks = kind(options, brought, overwrite=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into closed, durable splits of its own."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        if query is None:
            raise InputError(f"Spark did not say which query this task is of ({_QUERY_ID}); use Spark 4.3 or newer")
        return replace(self._tasks.write(iterator), query=query)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make a batch visible, unless that was done before."""
        splits = splits_of(messages)
        queries = {str(message.query) for message in messages if isinstance(message, Written)}
        if not splits:
            return  # of an empty batch there is nothing to be done twice
        if len(queries) != 1:
            raise InputError(f"found tasks of the queries {sorted(queries)} in one batch; expected those of one")
        commit_splits(self._options, splits, (transaction_name(queries.pop()), batchId))

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what tasks that succeeded have written, unless it was committed all the same."""
        remove_splits(self._options, splits_of(messages))


def transaction_name(query: str) -> str:
    """The name under which the manifest keeps the last batch of a query."""
    return f"spark/{query}"
