"""What a pipeline will do, told in words before anything is started."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tidelog.spark.pipeline.checks.checkpoint import checkpoint_of
from tidelog.spark.pipeline.checks.sinks import NEVER, ON_COMMIT
from tidelog.spark.pipeline.description.objects import ONCE, TIDELOG, Sink, Source
from tidelog.spark.pipeline.description.plans import Plan, SinkPlan
from tidelog.spark.pipeline.description.relations import Columns, type_text
from tidelog.spark.pipeline.description.steps import Step


def explain(plan: Plan) -> str:
    """A checked pipeline as text: sources, steps and sinks with their columns, and how each sink is run."""
    pipeline = plan.pipeline
    lines = [f"pipeline {pipeline.name!r} on {pipeline.master}, checkpoint {pipeline.place(pipeline.checkpoint)}"]
    for source in pipeline.sources:
        lines += ["", f"source {source.name}: {_source(plan, source)}", *_columns(plan.relations[source.name].columns)]
    for step in pipeline.steps:
        lines += ["", f"step {step.name}: {_step(step)}", *_columns(plan.relations[step.name].columns)]
    for each in plan.sinks:
        lines += ["", f"sink {each.sink.name}: {_sink(plan, each.sink)}", *(f"    {line}" for line in _run(plan, each))]
    lines += [f"\nnote: {note}" for note in plan.notes]
    lines += [f"\nwarning: {warning}" for warning in plan.warnings]
    return "\n".join(lines)


def _source(plan: Plan, source: Source) -> str:
    place = "" if source.path is None else f" {plan.pipeline.place(source.path)}"
    what = f"stream {source.stream!r} of{place}" if source.format == TIDELOG else f"{source.format}{place}"
    how = "as rows arrive" if source.streaming else "as a table"
    mark = source.watermark
    late = "" if mark is None else f", waiting {mark.delay} for late rows by {mark.column}"
    return f"{what}, read {how}{late}"


def _step(step: Step) -> str:
    reads = ", ".join(each.name for each in step.references())
    return f"{step.kind} of {reads}"


def _sink(plan: Plan, sink: Sink) -> str:
    place = "" if sink.path is None else f" {plan.pipeline.place(sink.path)}"
    what = f"stream {sink.stream!r} of{place}" if sink.format == TIDELOG else f"{sink.format}{place}"
    return f"{sink.input} into {what}"


def _run(plan: Plan, each: SinkPlan) -> Iterator[str]:
    sink = each.sink
    if each.relation.is_streaming:
        trigger = sink.trigger or plan.pipeline.trigger
        often = "until everything there is has been read" if trigger == ONCE else f"a batch every {trigger}"
        place = checkpoint_of(plan.pipeline, sink)
        goes_on = "goes on with" if os.path.isdir(place) else "begins"
        yield f"a query in mode {sink.mode or 'append'}, {often}; {goes_on} checkpoint {place}"
    else:
        yield f"a job in mode {sink.mode or 'append'}, at each start"
    through = f" through {', '.join(each.steps)}" if each.steps else ""
    yield f"reads {', '.join(each.inputs)}{through}"
    for state in each.states:
        yield f"keeps state: {' '.join(state.split())}"
    if sink.format == TIDELOG:
        if sink.stream_options:
            options = ", ".join(f"{name} = {value}" for name, value in sink.stream_options.items())
            yield f"options of the stream: {options}"
        when = {ON_COMMIT: "with each commit, within limits", NEVER: "by others"}
        yield f"maintenance: {when.get(sink.compaction, f'every {sink.compaction}')}"


def _columns(columns: Columns | None) -> list[str]:
    if columns is None:
        return ["    columns are known to Spark alone"]
    return [f"    {', '.join(f'{name} {type_text(type_)}' for name, type_ in columns.items())}"]
