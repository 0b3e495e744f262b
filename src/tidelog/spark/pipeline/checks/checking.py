"""Whether a pipeline makes sense, asked before Spark is started: names, paths, permissions, SQL, types, checkpoint.

Everything is looked at, so that all that is wrong is told at once. What only Spark can know, such as the columns of
formats of others, is passed over; Spark is asked about it before the first query is started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tidelog.model.errors import TimeError, did_you_mean
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.checks import checkpoint
from tidelog.spark.pipeline.checks.sinks import check_shared, check_sink
from tidelog.spark.pipeline.checks.sources import check_source
from tidelog.spark.pipeline.description.merging import Merge
from tidelog.spark.pipeline.description.objects import ONCE, Pipeline, Sink
from tidelog.spark.pipeline.description.places import is_address, unwritable
from tidelog.spark.pipeline.description.plans import Plan, SinkPlan
from tidelog.spark.pipeline.description.relations import Relation
from tidelog.spark.pipeline.description.steps import Deduplicate, Reference, Step, StepError
from tidelog.spark.pipeline.file.positions import KeyPath
from tidelog.spark.pipeline.file.problems import PipelineError, Problem
from tidelog.spark.pipeline.sql.analysis import Sql
from tidelog.spark.pipeline.sql.continuous import Continuous
from tidelog.spark.pipeline.sql.streaming import COMPLETE

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MASTER: Final = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|(spark|k8s|sc)://.+|yarn")


def check(pipeline: Pipeline) -> Plan:
    """What a pipeline will do. Raises :class:`PipelineError` with everything that is wrong; starts and writes nothing.

    The checkpoint is compared, too: one that belongs to another pipeline, or to this one as it was before its sources
    or sinks were changed, is refused.
    """
    found = _Check(pipeline)
    found.run()
    if found.problems:
        raise PipelineError(located(pipeline, found.problems))
    notes = [f"{name!r} is read by nothing" for name in found.relations if name not in found.used]
    warnings = checkpoint.forsaken(pipeline, found.plans)
    return Plan(pipeline, found.relations, tuple(found.plans), tuple(notes), tuple(warnings))


class _Check:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.problems: list[Problem] = []
        self.relations: dict[str, Relation] = {}
        self.read_by: dict[str, tuple[str, ...]] = {}
        """Of each step, what it reads."""
        self.used: set[str] = set()
        self.plans: list[SinkPlan] = []

    def add(self, path: KeyPath, message: str, offset: int | None = None) -> None:
        self.problems.append(Problem(path, message, offset))

    def run(self) -> None:
        pipeline = self.pipeline
        if not pipeline.name.strip():
            self.add(("pipeline", "name"), "the pipeline's name is empty; give it one")
        self._trigger(("pipeline", "trigger"), pipeline.trigger)
        if not _MASTER.fullmatch(pipeline.master):
            self.add(
                ("spark", "master"),
                f"found {pipeline.master!r}; expected local[N], local[*], spark://host:port, k8s://..., yarn, or "
                "sc://host:port",
            )
        for source in pipeline.sources:
            path: KeyPath = ("sources", source.name)
            is_free = self._name(path, source.name)
            relation = check_source(pipeline, source, lambda *told, at=path: self._told(at, *told))
            if is_free:
                self.relations[source.name] = relation
        for index, step in enumerate(pipeline.steps):
            self._step(step, ("steps", index))
        for sink in pipeline.sinks:
            self._sink(sink, ("sinks", sink.name))
        self._doubles()
        if pipeline.master.startswith("sc://"):
            self.problems += _relative(pipeline)
        refusal = unwritable(pipeline.place(pipeline.checkpoint))
        if refusal is not None:
            self.add(("pipeline", "checkpoint"), refusal)
        elif not self.problems:
            for path, message in checkpoint.changes(pipeline, self.plans):
                self.add(path, message)

    def _told(self, at: KeyPath, field: tuple[str, ...], message: str) -> None:
        self.add((*at, *field), message)

    def _name(self, path: KeyPath, name: str) -> bool:
        """Complain about a name; False if another source or step has it, which then is the one that it means."""
        where = path if path[0] == "sources" else (*path, "name")
        if not _NAME.fullmatch(name):
            self.add(where, f"{name!r} cannot be the name of a table; expected letters, digits and _, such as 'trades'")
        if name.lower() in {each.lower() for each in self.relations}:
            self.add(where, f"there are two sources or steps called {name!r}; give each a name of its own")
            return False
        return True

    def _trigger(self, path: KeyPath, text: str) -> None:
        try:
            if text != ONCE and read_duration(text) < 0:
                raise TimeError(f"found the trigger {text!r}, which is negative; expected a duration, or 'once'")
        except TimeError as error:
            self.add(path, f"{error}; or 'once', to read what there is and end")

    def _step(self, step: Step, path: KeyPath) -> None:
        """Look at a step. It can read only what is known by then, so that nothing reads itself, by whatever detour."""
        is_free = self._name(path, step.name)
        inputs: dict[str, Relation] = {}
        relation: Relation | None = None
        read: tuple[str, ...] = ()
        try:
            references = step.references()
            for each in references:
                found = self._find(each, path, None if is_free else step.name)
                if found is not None:
                    inputs[each.name] = found
            read = tuple(self._spelt(name) for name in inputs)
            if len(inputs) == len(references):
                columns = step.columns(inputs)
                delays = [each.delay for each in inputs.values() if each.delay is not None]
                is_streaming = any(each.is_streaming for each in inputs.values())
                relation = Relation(columns, is_streaming, max(delays, default=None))
        except StepError as error:
            for fault in error.faults:
                self.add((*path, fault.field), fault.message, fault.offset)
        if is_free:
            self.relations[step.name] = _half_known(inputs) if relation is None else relation
            self.read_by[step.name] = read

    def _spelt(self, name: str) -> str:
        return next((each for each in self.relations if each.lower() == name.lower()), name)

    def _find(self, reference: Reference, path: KeyPath, doubled: str | None = None) -> Relation | None:
        """What is meant by a name. ``doubled`` is that of a step which something else has, told already."""
        name = self._spelt(reference.name)
        self.used.add(name)
        if name in self.relations:
            return None if name.lower() == str(doubled).lower() else self.relations[name]
        later = [step.name for step in self.pipeline.steps if step.name.lower() == name.lower()]
        hint = "that step comes later; move it up" if later else did_you_mean(name, self.relations)
        if (
            path[0] == "steps"
            and isinstance(path[1], int)
            and self.pipeline.steps[path[1]].name.lower() == name.lower()
        ):
            hint = f"the step itself is called so, and cannot read what it makes; {did_you_mean('', self.relations)}"
        self.add((*path, reference.field), f"there is no source and no earlier step {name!r}; {hint}", reference.offset)
        return None

    def _sink(self, sink: Sink, path: KeyPath) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", sink.name):
            self.add(path, f"{sink.name!r} cannot be the name of a sink; expected letters, digits, - and _")
        if sink.trigger is not None:
            self._trigger((*path, "trigger"), sink.trigger)
        relation = self._find(Reference(sink.input, "input"), path)
        if relation is None:
            return
        check_sink(self.pipeline, sink, relation, lambda field, message: self.add((*path, *field), message))
        steps = self._steps_of(self._spelt(sink.input))
        states = [state for step in steps if (state := self._state(step)) is not None]
        waits = any(self._state(step) is not None for step in steps if not step.has_own_time)
        if relation.is_streaming and waits and relation.delay is None and sink.mode in (None, "append"):
            self.add(
                (*path, "input"),
                f"{sink.input!r} groups or joins rows that keep arriving, and no source has a watermark that says when "
                "a result is final; give one a watermark",
            )
        if relation.is_streaming:
            self._unsupported(sink, path, steps)
        inputs = self._sources_of(self._spelt(sink.input))
        names = tuple(step.name for step in steps)
        self.plans.append(SinkPlan(sink, relation, inputs, names, tuple(states)))

    def _inputs(self, step: Step) -> dict[str, Relation]:
        """What a step reads, as far as it is there."""
        return {
            each.name: self.relations[self._spelt(each.name)]
            for each in (step.references() if self.read_by[step.name] else [])
            if self._spelt(each.name) in self.relations
        }

    def _state(self, step: Step) -> str | None:
        inputs = self._inputs(step)
        return step.state(inputs) if inputs else None

    def _unsupported(self, sink: Sink, path: KeyPath, steps: list[Step]) -> None:
        """What Spark cannot do with rows that keep arriving, in the steps that lead to a sink."""
        mode = sink.mode or "append"
        for step in steps:
            at = ("steps", self.pipeline.steps.index(step))
            inputs = self._inputs(step)
            for fault in step.unsupported(inputs, mode) if inputs else ():
                problem = Problem((*at, fault.field), fault.message, fault.offset)
                if problem not in self.problems:  # another sink takes the step, too
                    self.problems.append(problem)
        is_known = all(isinstance(step, Sql | Deduplicate | Continuous | Merge) for step in steps)
        if mode == COMPLETE and is_known and not any(isinstance(step, Sql) and step.gathers() for step in steps):
            self.add(
                (*path, "mode"),
                f"found {mode!r}, which writes all results anew, and no step before it groups; leave 'mode' out",
            )

    def _steps_of(self, name: str) -> list[Step]:
        """The steps that lead to a source or step, in the order of the pipeline."""
        wanted, waiting = set(), [name]
        while waiting:
            each = waiting.pop()
            if each in self.read_by and each not in wanted:
                wanted.add(each)
                waiting += self.read_by[each]
        return [step for step in self.pipeline.steps if step.name in wanted]

    def _sources_of(self, name: str) -> tuple[str, ...]:
        """The sources behind a source or step, in the order in which they are named, each once."""
        if name not in self.read_by:
            return (name,)
        found = [source for each in self.read_by[name] for source in self._sources_of(each)]
        return tuple(dict.fromkeys(found))

    def _doubles(self) -> None:
        """Two sinks may write one stream, if they agree on it, but not the same directory of files."""
        check_shared(self.pipeline, self.plans, self.add)
        taken: dict[str, str] = {}
        for sink in self.pipeline.sinks:
            if sink.path is None or sink.stream is not None:
                continue
            place = self.pipeline.place(sink.path)
            if place in taken:
                self.add(("sinks", sink.name, "path"), f"sink {taken[place]!r} writes {place} already; choose another")
            taken.setdefault(place, sink.name)


def refuse_relative(pipeline: Pipeline) -> None:
    """Raise :class:`PipelineError` for paths that a Spark Connect server, which may be elsewhere, cannot understand."""
    found = _relative(pipeline)
    if found:
        raise PipelineError(located(pipeline, found))


def _relative(pipeline: Pipeline) -> list[Problem]:
    given: list[tuple[KeyPath, str | None]] = [
        (("pipeline", "checkpoint"), pipeline.checkpoint),
        *((("sources", each.name, "path"), each.path) for each in pipeline.sources),
        *((("sinks", each.name, "path"), each.path) for each in pipeline.sinks),
    ]
    return [
        Problem(
            path,
            f"{text!r} is relative, and a Spark Connect server does not know to what; expected an absolute path, such "
            f"as {pipeline.place(text)!r} if it is there that this directory is on the server's machine, too",
        )
        for path, text in given
        if text is not None and not os.path.isabs(text) and not is_address(text)
    ]


def _half_known(inputs: Mapping[str, Relation]) -> Relation:
    """A step that has problems: what reads it is asked only for what does not follow from them."""
    is_streaming = any(each.is_streaming for each in inputs.values()) or not inputs
    return Relation(None, is_streaming, delay=Fraction(0))


def located(pipeline: Pipeline, problems: list[Problem]) -> list[Problem]:
    """Problems with their lines, in the order of the file; without a file, with the names of steps."""
    if pipeline.document is None:
        return [Problem(_by_names(pipeline, each.path), each.message, each.offset) for each in problems]
    found = []
    for each in problems:
        text = None
        if each.path[0] == "steps" and each.path[-1] in ("sql", "query") and isinstance(each.path[1], int):
            text = getattr(pipeline.steps[each.path[1]], str(each.path[-1]), None)
        found.append(pipeline.document.locate(each, text))
    return sorted(found, key=lambda each: (each.line or 0, each.column or 0))


def _by_names(pipeline: Pipeline, path: KeyPath) -> KeyPath:
    """Steps by their names instead of their numbers, for whoever has no file to look at."""
    if path[0] == "steps" and isinstance(path[1], int):
        return ("steps", pipeline.steps[path[1]].name, *path[2:])
    return path
