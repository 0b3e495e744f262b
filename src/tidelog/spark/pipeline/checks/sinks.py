"""Whether a sink can be written, with the columns that come; and the sink in Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.errors import InputError, TidelogError, TimeError, did_you_mean
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.checks.sources import Tell, check_format, texts
from tidelog.spark.pipeline.description.formats import FILES, unknown_options
from tidelog.spark.pipeline.description.objects import TIDELOG, Pipeline, Sink
from tidelog.spark.pipeline.description.places import unreadable, unwritable
from tidelog.spark.pipeline.description.plans import SinkPlan
from tidelog.spark.pipeline.description.relations import (
    Columns,
    Relation,
    family,
    folded,
    is_time,
    misfit,
    type_text,
    unstorable,
)

if TYPE_CHECKING:
    from sqlglot import exp

    from tidelog.store.manifest.options import StreamOptions

ON_COMMIT: Final = "commit"
NEVER: Final = "never"
STREAMING_MODES: Final = ("append", "update", "complete")
BATCH_MODES: Final = ("append", "overwrite")
_STREAM_KEYS: Final = ("stream", "time", "stream_options")


def check_sink(pipeline: Pipeline, sink: Sink, relation: Relation, tell: Tell) -> None:
    """Tell what is wrong with a sink for rows of a relation."""
    check_format(pipeline, sink.format, tell)
    for option, message in unknown_options(sink.format, sink.options, reads=False):
        tell(("options", option), message)
    modes = STREAMING_MODES if relation.is_streaming else BATCH_MODES
    if sink.mode is not None and sink.mode not in modes:
        rows = "rows that keep arriving" if relation.is_streaming else "rows of sources that are no streams"
        tell(("mode",), f"found {sink.mode!r}; {rows} are written in one of the modes {', '.join(modes)}")
    if sink.trigger is not None and not relation.is_streaming:
        tell(("trigger",), f"{sink.input!r} is no stream, so it is written once; leave 'trigger' out")
    if relation.columns is not None:
        for column in sink.partition_by:
            if column.lower() not in folded(relation.columns):
                hint = did_you_mean(column, relation.columns)
                tell(("partition_by",), f"{sink.input!r} has no column {column!r}; {hint}")
    if sink.format == TIDELOG:
        _check_stream(pipeline, sink, relation, tell)
        return
    for key in _STREAM_KEYS:
        if getattr(sink, key):
            tell((key,), f"a sink of format {sink.format!r} has no streams; leave {key!r} out")
    if sink.compaction != ON_COMMIT:
        tell(("compaction",), f"a sink of format {sink.format!r} is not compacted; leave 'compaction' out")
    if sink.format in FILES:
        if sink.path is None:
            tell((), f"[sinks.{sink.name}] lacks the key 'path', the directory for the files")
        elif (refusal := unwritable(pipeline.place(sink.path))) is not None:
            tell(("path",), refusal)
        if relation.is_streaming and sink.mode in ("update", "complete"):
            tell(("mode",), f"files can only be added, so mode {sink.mode!r} cannot be; leave it out")


def maintenance_seconds(sink: Sink) -> float | None:
    """How often the runner maintains the stream of a sink; None: not at all. Raises :class:`TimeError`."""
    if sink.compaction in (ON_COMMIT, NEVER):
        return None
    seconds = read_duration(sink.compaction)
    if seconds <= 0:
        raise TimeError(f"found {sink.compaction!r}; expected a duration above zero")
    return float(seconds)


def stream_options(sink: Sink) -> StreamOptions:
    """The options of the stream that is created. Raises :class:`TidelogError`."""
    from tidelog.store.manifest.options import StreamOptions

    return StreamOptions.from_dict(sink.stream_options)


def sink_texts(pipeline: Pipeline, sink: Sink) -> dict[str, str]:
    """The options of a sink as Spark's writer is told them."""
    told = texts(sink.options)
    if sink.format == TIDELOG:
        told["stream"] = str(sink.stream)
        told["compact"] = "true" if sink.compaction == ON_COMMIT else "false"
        if sink.time is not None:
            told["time"] = sink.time
    if sink.path is not None:
        told["path"] = pipeline.place(sink.path)
    return told


def _check_stream(pipeline: Pipeline, sink: Sink, relation: Relation, tell: Tell) -> None:
    for key in ("path", "stream"):
        if getattr(sink, key) is None:
            what = "the directory of the store" if key == "path" else "the name of the stream"
            tell((), f"[sinks.{sink.name}] lacks the key {key!r}, {what}")
    if relation.is_streaming and sink.mode in ("update", "complete"):
        tell(
            ("mode",),
            f"found {sink.mode!r}, and Spark only adds rows to streams; leave 'mode' out, and give sources of steps "
            "that group a watermark, which says when a result is final",
        )
    if sink.partition_by:
        tell(
            ("partition_by",),
            "streams are divided by time alone; leave 'partition_by' out, or set stream_options.split",
        )
    try:
        maintenance_seconds(sink)
    except TimeError as error:
        tell(("compaction",), f"{error}; or 'commit', or 'never'")
    options = None
    try:
        options = stream_options(sink)
    except TidelogError as error:
        tell(("stream_options",), str(error))
    if sink.path is None or sink.stream is None:
        return
    from tidelog.spark.datasource.options import SinkOptions

    place = pipeline.place(sink.path)
    refusal = unwritable(place)
    if refusal is not None:
        tell(("path",), refusal)
        return
    try:
        SinkOptions.read(sink_texts(pipeline, sink)).check_mode(sink.mode == "overwrite")
    except InputError as error:
        tell(("options",), str(error))
    existing = _existing(place, sink, tell)
    if existing is None:
        _check_new(sink, relation, options, tell)
    elif existing is not _BROKEN:
        _check_existing(sink, relation, existing, options, tell)


_BROKEN: Final[Any] = object()


def _existing(place: str, sink: Sink, tell: Tell) -> Any:
    """The schema and options of the stream, if it is there; ``_BROKEN`` if the store cannot be opened."""
    import tidelog

    if not os.path.isdir(place) or not os.listdir(place):
        return None
    refusal = unreadable(place)
    if refusal is not None:
        tell(("path",), refusal)
        return _BROKEN
    try:
        with tidelog.open(place, read_only=True) as store:
            if sink.stream not in store:
                return None
            stream = store.stream(str(sink.stream))
            return stream.schema, stream.options
    except TidelogError as error:
        tell(("path",), str(error))
        return _BROKEN


def _check_new(sink: Sink, relation: Relation, options: StreamOptions | None, tell: Tell) -> None:
    """A stream that is to be created."""
    if sink.time is None:
        hint = _times(relation.columns)
        tell(
            (),
            f"there is no stream {sink.stream!r} yet, and [sinks.{sink.name}] lacks the key 'time', its "
            f"time column{hint}",
        )
        return
    if relation.columns is None:
        return
    for name, type_ in relation.columns.items():
        if (why := unstorable(type_)) is not None:
            tell(("input",), f"column {name!r} of {sink.input!r} is {why}")
    own = folded(relation.columns).get(sink.time.lower())
    if own is None:
        tell(("time",), f"{sink.input!r} has no column {sink.time!r}; {did_you_mean(sink.time, relation.columns)}")
        return
    if options is not None and options.aggregates != "all":
        for column in options.aggregates:
            if column.lower() not in folded(relation.columns):
                tell(("stream_options",), f"aggregates: {sink.input!r} has no column {column!r}")
    type_ = relation.columns[own]
    if not _may_be_time(type_):
        tell(("time",), f"column {own!r} is {type_text(type_)}; expected a timestamp or a bigint for a time column")


def _check_existing(sink: Sink, relation: Relation, existing: Any, options: StreamOptions | None, tell: Tell) -> None:
    """A stream that is there: columns must fit, and options be those it has."""
    schema, kept = existing
    if sink.time not in (None, schema.time):
        tell(("time",), f"stream {sink.stream!r} is there, and its time column is {schema.time!r}; leave 'time' out")
    for name in sink.stream_options:
        if options is not None and getattr(options, name) != getattr(kept, name):
            tell(
                ("stream_options", name),
                f"stream {sink.stream!r} is there, and its {name} is {getattr(kept, name)!r}; options are chosen when "
                "a stream is created: leave it out, or write another stream",
            )
    if relation.columns is None:
        return
    for name, type_ in relation.columns.items():
        own = folded(dict.fromkeys(schema.names)).get(name.lower())
        if own is None:
            hint = did_you_mean(name, schema.names)
            tell(("input",), f"{sink.input!r} has a column {name!r}, which stream {sink.stream!r} lacks; {hint}")
        elif (why := misfit(type_, schema.field(own).type)) is not None:
            tell(("input",), f"column {name!r} of {sink.input!r} does not fit stream {sink.stream!r}: {why}")
    brought = folded(relation.columns)
    for field in schema:
        if not field.nullable and field.name.lower() not in brought:
            what = "its time" if field.name == schema.time else "which has no nulls"
            tell(("input",), f"{sink.input!r} lacks column {field.name!r} of stream {sink.stream!r}, {what}")


def check_shared(pipeline: Pipeline, plans: Sequence[SinkPlan], tell: Tell) -> None:
    """Tell of sinks that do not agree on a stream which the first of them creates."""
    makers: dict[tuple[str, str], SinkPlan] = {}
    for plan in plans:
        sink = plan.sink
        if sink.format != TIDELOG or sink.path is None or sink.stream is None:
            continue
        place = pipeline.place(sink.path)
        maker = makers.setdefault((place, sink.stream), plan)
        if maker is not plan and _existing(place, sink, lambda *_: None) is None:
            _check_alike(maker, plan, tell)


def _check_alike(maker: SinkPlan, plan: SinkPlan, tell: Tell) -> None:
    """Whether rows of a sink fit the stream that another one makes."""
    first, sink = maker.sink, plan.sink
    who = f"sink {first.name!r} creates stream {sink.stream!r}"
    if None not in (first.time, sink.time) and first.time != sink.time:
        tell(("sinks", sink.name, "time"), f"{who} with the time column {first.time!r}; say the same")
    if first.stream_options != sink.stream_options and sink.stream_options:
        tell(("sinks", sink.name, "stream_options"), f"{who} with other options; say the same, or leave them out")
    made, brought = maker.relation.columns, plan.relation.columns
    if made is None or brought is None:
        return
    at = ("sinks", sink.name, "input")
    own = folded(made)
    for name, type_ in brought.items():
        if name.lower() not in own:
            columns = ", ".join(made)
            tell(at, f"{who} with the columns {columns}, and {sink.input!r} has {name!r}; select the same in both")
        elif None not in (kinds := {family(type_), family(made[own[name.lower()]])}) and len(kinds) > 1:
            types = f"{type_text(made[own[name.lower()]])}, and in {sink.input!r} it is {type_text(type_)}"
            tell(at, f"{who} with a column {name!r} of type {types}; make them one type by CAST")
    if first.time is not None and first.time.lower() not in folded(brought):
        tell(at, f"{who} with the time column {first.time!r}, which {sink.input!r} lacks; select it")


def _times(columns: Columns | None) -> str:
    found = [name for name, type_ in (columns or {}).items() if is_time(type_)]
    return f"; such as time = {found[0]!r}" if found else ""


def _may_be_time(type_: exp.DataType) -> bool:
    from sqlglot.expressions import DataType

    return is_time(type_) or type_.this in (DataType.Type.BIGINT, DataType.Type.UNKNOWN)
