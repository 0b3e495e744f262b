"""What Spark knows of tidelog by name: the data source ``tidelog``.

Spark imports this wherever some data source in Python is used for the first time, be it another one. So what takes long
to load, the engine above all, is imported only by methods.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.spark.datasource.options import NAME, SinkOptions, SourceOptions
from tidelog.spark.datasource.types import spark_schema
from tidelog.spark.runtime.errors import plainly


class TidelogSource(DataSource):
    """Streams of a store as tables of Spark; options are those of :mod:`tidelog.spark.datasource.options`."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format(...)``."""
        return NAME

    @plainly
    def schema(self) -> StructType:
        """The schema of the columns asked for, all by default."""
        from tidelog.engine.store import Store
        from tidelog.spark.datasource.many_source import is_pattern, many_schema, refuse_stream_column

        options = SourceOptions.read(self.options)
        with Store.open(options.path, read_only=True) as store:
            if is_pattern(store, options.stream):
                return many_schema(store, options)
            schema = store.stream(options.stream).schema
        refuse_stream_column(options)
        return spark_schema(schema, options.columns, seq=options.seq, ns=options.ns)

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans and reads the columns of ``schema``."""
        from tidelog.engine.store import Store
        from tidelog.spark.datasource.many_source import ManyReader, is_pattern
        from tidelog.spark.datasource.source import FilteringReader, TidelogReader

        options = SourceOptions.read(self.options)
        with Store.open(options.path, read_only=True) as store:
            is_many = is_pattern(store, options.stream)
        if is_many:
            return ManyReader(options, schema)
        return (FilteringReader if options.push_filters else TidelogReader)(options, schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes rows of ``schema``."""
        from tidelog.spark.datasource.many_sink import ManyWriter
        from tidelog.spark.datasource.sink import TidelogWriter

        options = SinkOptions.read(self.options)
        return (TidelogWriter if options.stream_column is None else ManyWriter)(options, schema, overwrite)

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (the name is Spark's)
        """What reads what comes into a stream."""
        from tidelog.spark.datasource.stream_source import TidelogStreamReader

        return TidelogStreamReader(SourceOptions.read(self.options), schema)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """What appends the batches of a streaming query."""
        from tidelog.spark.datasource.stream_sink import TidelogStreamWriter

        return TidelogStreamWriter(SinkOptions.read(self.options), schema, overwrite)
