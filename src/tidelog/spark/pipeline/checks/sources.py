"""Whether a source can be read, and with which columns; and the source in Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.model.errors import InputError, TidelogError, TimeError, did_you_mean
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.description.formats import BUILT_IN, FILES, unknown_options
from tidelog.spark.pipeline.description.objects import TIDELOG, Pipeline, Scalar, Source
from tidelog.spark.pipeline.description.places import files_below, header_of, is_address, unreadable
from tidelog.spark.pipeline.description.relations import (
    Columns,
    Relation,
    columns_of_arrow,
    columns_of_ddl,
    columns_of_stream,
    ddl_of,
    folded,
    is_time,
    type_text,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tell: TypeAlias = Callable[[tuple[str, ...], str], None]
"""Is told what is wrong: which key, and why."""

_SELF_DESCRIBING: Final = ("parquet", "orc", "text")


def texts(options: Mapping[str, Scalar]) -> dict[str, str]:
    """Options as Spark wants them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def check_format(pipeline: Pipeline, format: str, tell: Tell) -> None:
    """Complain about formats that nobody brings along."""
    may_be_added = pipeline.modules or "." in format or any(key.startswith("spark.jars") for key in pipeline.config)
    if format not in BUILT_IN and not may_be_added:
        tell(
            ("format",),
            f"Spark brings no format {format!r} along; {did_you_mean(format, BUILT_IN)} One of a package needs "
            "'spark.jars.packages' in [spark.config]",
        )


def check_source(pipeline: Pipeline, source: Source, tell: Tell) -> Relation:
    """What is known of a source; ``tell`` hears what is wrong with it."""
    check_format(pipeline, source.format, tell)
    for option, message in unknown_options(source.format, source.options, reads=True):
        tell(("options", option), message)
    columns = _declared(source, tell)
    if source.format == TIDELOG:
        columns = _stream_columns(pipeline, source, tell)
    else:
        if source.stream is not None:
            tell(("stream",), f"a source of format {source.format!r} has no streams; leave 'stream' out")
        if source.format in FILES:
            found = _file_columns(pipeline, source, columns, tell)
            columns = found if source.schema is None else columns
    return Relation(columns, source.streaming, _delay(source, columns, tell))


def _declared(source: Source, tell: Tell) -> Columns | None:
    if source.schema is None:
        return None
    if source.format == TIDELOG:
        tell(("schema",), "a stream has its own schema; leave 'schema' out, and choose columns with options.columns")
        return None
    try:
        return columns_of_ddl(source.schema)
    except InputError as error:
        tell(("schema",), str(error))
        return None


def _stream_columns(pipeline: Pipeline, source: Source, tell: Tell) -> Columns | None:
    """The columns of a stream that is there."""
    import tidelog
    from tidelog.spark.datasource.options import SourceOptions

    for key in ("path", "stream"):
        if getattr(source, key) is None:
            what = "the directory of the store" if key == "path" else "the name of the stream"
            tell((), f"[sources.{source.name}] lacks the key {key!r}, {what}")
    if source.path is None or source.stream is None:
        return None
    place = pipeline.place(source.path)
    refusal = unreadable(place)
    if refusal is not None:
        tell(("path",), refusal)
        return None
    told = {"path": place, "stream": source.stream}
    try:
        SourceOptions.read({**texts(source.options), **told})
    except InputError as error:
        tell(("options",), str(error))
        return None
    key = "path"
    try:
        with tidelog.open(place, read_only=True) as store:
            key = "stream"
            schema = store.stream(source.stream).schema
        key = "options"
        return columns_of_stream(schema, {**texts(source.options), **told})
    except TidelogError as error:
        tell((key,), str(error))
        return None


def _file_columns(pipeline: Pipeline, source: Source, declared: Columns | None, tell: Tell) -> Columns | None:
    """What the files say of their columns, as far as a look at the first one tells."""
    if source.path is None:
        tell((), f"[sources.{source.name}] lacks the key 'path', the directory of the files")
        return None
    place = pipeline.place(source.path)
    refusal = unreadable(place)
    if refusal is not None:
        tell(("path",), refusal)
        return None
    first = next(iter(files_below(place)), None)
    if source.format == "text":
        return columns_of_ddl("value string")
    if source.format == "parquet" and source.schema is None and first is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return columns_of_arrow(pq.read_schema(first))
        except (OSError, pa.ArrowException) as error:
            tell(("path",), f"{first} is no Parquet file: {error}")
            return None
    if source.format == "csv":
        names = _csv_header(source, first)
        if source.schema is None and source.streaming:
            hint = f"; {first} has the columns {', '.join(names)}" if names and first else ""
            tell((), f"[sources.{source.name}] lacks the key 'schema', which Spark needs for files that arrive{hint}")
        elif declared is not None and names is not None and first is not None:
            _compare_header(declared, names, first, tell)
    elif source.schema is None and source.streaming and not (source.format == "parquet" and is_address(place)):
        reason = "no file is there yet to tell it" if source.format in _SELF_DESCRIBING else "files that arrive need it"
        tell(
            (), f"[sources.{source.name}] lacks the key 'schema': {reason}; expected such as 'ts timestamp, id bigint'"
        )
    return None


def _csv_header(source: Source, file: str | None) -> list[str] | None:
    told = {key.lower(): value for key, value in texts(source.options).items()}
    if file is None or told.get("header") != "true":
        return None
    return header_of(file, told.get("sep", told.get("delimiter", ",")))


def _compare_header(declared: Columns, names: list[str], file: str, tell: Tell) -> None:
    """Spark takes columns by their place and does not look at the header: a mismatch would go unnoticed."""
    found = [name.strip().lower() for name in names]
    wanted = [name.lower() for name in declared]
    if found != wanted:
        tell(
            ("schema",),
            f"the schema has the columns {', '.join(declared)}, but {file} has {', '.join(names)}; name all of them, "
            "in the same order",
        )


def _delay(source: Source, columns: Columns | None, tell: Tell) -> Fraction | None:
    """The delay of a source's watermark, in seconds."""
    mark = source.watermark
    if mark is None:
        return None
    if not source.streaming:
        tell(("watermark",), "a source that is no stream has no watermark; leave it out")
    if columns is not None:
        own = folded(columns).get(mark.column.lower())
        if own is None:
            hint = did_you_mean(mark.column, columns)
            tell(("watermark", "column"), f"{source.name!r} has no column {mark.column!r}; {hint}")
        elif not is_time(columns[own]):
            tell(
                ("watermark", "column"),
                f"column {own!r} is {type_text(columns[own])}; expected a timestamp, made by a cast in the schema",
            )
    try:
        delay = read_duration(mark.delay)
    except TimeError as error:
        tell(("watermark", "delay"), str(error))
        return None
    if delay < 0:
        tell(("watermark", "delay"), f"found {mark.delay!r}, which is negative; expected a duration such as '10m'")
    return delay


def build_source(session: SparkSession, pipeline: Pipeline, source: Source, columns: Columns | None) -> DataFrame:
    """A source in Spark."""
    reader = (session.readStream if source.streaming else session.read).format(source.format)
    reader = reader.options(**texts(source.options))
    if source.stream is not None:
        reader = reader.option("stream", source.stream)
    schema = source.schema
    if schema is None and columns is not None and source.streaming and source.format == "parquet":
        schema = ddl_of(columns)  # Spark does not look for it in files that arrive
    if schema is not None:
        reader = reader.schema(schema)
    frame: DataFrame = reader.load() if source.path is None else reader.load(pipeline.place(source.path))
    if source.watermark is not None:
        delay = read_duration(source.watermark.delay)
        frame = frame.withWatermark(source.watermark.column, f"{int(delay * 1_000_000)} microseconds")
    return frame
