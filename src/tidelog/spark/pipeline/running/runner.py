"""Running a pipeline: a query of Spark for each sink, watched until all have ended or somebody asks them to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.model.errors import TidelogError
from tidelog.spark.pipeline.checks import checkpoint
from tidelog.spark.pipeline.checks.checking import check, refuse_relative
from tidelog.spark.pipeline.description.objects import TIDELOG, Pipeline
from tidelog.spark.pipeline.description.plans import Plan, SinkPlan
from tidelog.spark.pipeline.running.building import build, create_streams, drop_views, first_lines, frame_of, start
from tidelog.spark.pipeline.running.jobs import run_job
from tidelog.spark.pipeline.running.lateness import LateRows
from tidelog.spark.pipeline.running.progress import Account, Progress
from tidelog.spark.pipeline.running.upkeep import Upkeep
from tidelog.spark.runtime.errors import own_errors
from tidelog.spark.runtime.session import SQL_SETTINGS, is_remote, make_active, running, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Watch: TypeAlias = Callable[[Sequence[Progress]], None]
"""Is shown how far the sinks have come, twice a second."""

POLL_SECONDS: Final = 0.5

_log = logging.getLogger("tidelog.pipeline")


class PipelineFailedError(TidelogError, RuntimeError):
    """A query or job of a running pipeline failed. What was committed stays, and a restart goes on behind it."""


@dataclass(frozen=True)
class Outcome:
    """How a run has ended."""

    sinks: tuple[Progress, ...]
    seconds: float
    was_stopped: bool
    """Whether somebody asked for the end, so that there may be more to read."""


def start_session(pipeline: Pipeline) -> SparkSession:
    """A session of Spark with the pipeline's master and settings; the one there is, if there is one."""
    quiet = {"spark.log.level": "ERROR"}
    remote = pipeline.master if pipeline.master.startswith("sc://") else None
    master = "local[*]" if remote is not None else pipeline.master
    return session(master=master, remote=remote, app_name=pipeline.name, config={**quiet, **pipeline.config})


def run(
    pipeline: Pipeline,
    *,
    session: SparkSession | None = None,
    once: bool = False,
    watch: Watch | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Check a pipeline and run it until all its sinks are done, ``stop`` is set, or something fails.

    ``once`` reads what there is, whatever the triggers say, and ends. Without ``session`` one is started, and stopped
    at the end. Sinks of rows that do not keep arriving are written first, one after the other. When ``stop`` is set,
    the batches at work are finished; an exception out of ``watch``, or an interrupt, ends them at once, which loses
    nothing: they are run again by the next run.

    What :func:`check` warns of is logged. Raises :class:`PipelineError` before anything is started,
    :class:`LockedError` if the pipeline is running already, :class:`PipelineFailedError` or the error of tidelog that a
    query failed with.
    """
    plan = check(pipeline)
    if session is not None and is_remote(session):
        refuse_relative(pipeline)
    for warning in plan.warnings:
        _log.warning("%s", warning)
    began = time.monotonic()
    over = threading.Event() if stop is None else stop
    with checkpoint.held(pipeline, plan.sinks), _own_session(pipeline, session) as own:
        frames = build(own, plan)
        create_streams(plan, frames)
        watched = _Watched(plan, watch)
        for each in plan.sinks:
            if not each.relation.is_streaming and not over.is_set():
                watched.running(each)
                with _failure(each), own_errors():
                    run_job(pipeline, each.sink, frame_of(frames, each.sink))
                watched.done(each)
        with Upkeep(pipeline, [each.sink for each in plan.sinks]) as upkeep:
            watched.upkeep = upkeep
            try:
                for each in plan.sinks:
                    if each.relation.is_streaming:
                        with _failure(each):
                            watched.start(each, start(plan, each, frames, once=once))
                while watched.look() and not over.wait(POLL_SECONDS):
                    pass
                was_stopped = over.is_set() and watched.look()
                if was_stopped:
                    watched.finish()
            finally:
                watched.stop()
        watched.look()
        return Outcome(tuple(watched.progress()), time.monotonic() - began, was_stopped)


@contextmanager
def _own_session(pipeline: Pipeline, given: SparkSession | None) -> Iterator[SparkSession]:
    """A session whose views and settings are the pipeline's own; one that was there is as it was afterwards."""
    there = running() if given is None else given
    base = start_session(pipeline) if there is None else there
    try:
        make_active(base)
        own = base if is_remote(base) else base.newSession()
        settings = {**SQL_SETTINGS, **{key: _text(value) for key, value in pipeline.config.items()}}
        before = {key: own.conf.get(key, None) for key in settings if own.conf.isModifiable(key)}
        for key in before:
            own.conf.set(key, settings[key])
        try:
            yield own
        finally:
            if is_remote(base):  # has no sessions within, so that the settings are those of the caller's
                drop_views(own, pipeline)
                for key, value in before.items():
                    own.conf.unset(key) if value is None else own.conf.set(key, value)
    finally:
        if there is None:
            base.stop()


class _Watched:
    """The sinks of a run and what is known of them."""

    def __init__(self, plan: Plan, watch: Watch | None) -> None:
        self._plan = plan
        self._watch = watch
        self._accounts = {each.sink.name: Account(each.sink.name) for each in plan.sinks}
        self._queries: dict[str, StreamingQuery] = {}
        self._late: dict[str, LateRows] = {}
        self.upkeep: Upkeep | None = None

    def progress(self) -> list[Progress]:
        return [account.progress for account in self._accounts.values()]

    def running(self, each: SinkPlan) -> None:
        self._accounts[each.sink.name].update(state="running")
        self._show()

    def done(self, each: SinkPlan) -> None:
        self._accounts[each.sink.name].update(state="done", batches=1)
        self._show()

    def start(self, each: SinkPlan, query: StreamingQuery) -> None:
        sink = each.sink
        self._queries[sink.name] = query
        if sink.format == TIDELOG:
            place = self._plan.pipeline.place(str(sink.path))
            self._late[sink.name] = LateRows(place, str(sink.stream), each.relation.delay or Fraction(0))

    def look(self) -> bool:
        """Count what is new, show it, and tell whether some query is still at work. Raises what one failed with."""
        is_active = False
        for name, query in self._queries.items():
            account = self._accounts[name]
            active = query.isActive
            had_rows = account.add(report.json for report in query.recentProgress)
            if had_rows and name in self._late:
                account.update(late=self._late[name].look())
            if active:
                is_busy = query.status["isTriggerActive"]
                account.update(state="running" if is_busy else "waiting")
            else:
                self._ended(name, query, account)
            is_active |= active
        for name, kept in self.upkeep.streams.items() if self.upkeep is not None else ():
            self._accounts[name].update(maintained=kept.done, maintenance_failures=kept.failures)
        self._show()
        return is_active

    def _ended(self, name: str, query: StreamingQuery, account: Account) -> None:
        if account.progress.state in ("done", "failed"):
            return
        error = query.exception()
        account.update(state="done" if error is None else "failed")
        if error is not None:
            plan = next(each for each in self._plan.sinks if each.sink.name == name)
            with _failure(plan):
                raise error

    def finish(self) -> None:
        """Stop each query when the batch that it is at work on is done."""
        waiting = {name: _last_batch(query) for name, query in self._queries.items() if query.isActive}
        while waiting:
            for name, batch in list(waiting.items()):
                query = self._queries[name]
                if not query.isActive or not query.status["isTriggerActive"] or _last_batch(query) != batch:
                    query.stop()
                    del waiting[name]
            self.look()
            if waiting:
                time.sleep(POLL_SECONDS / 10)

    def stop(self) -> None:
        """Stop whatever is left, at once."""
        for query in self._queries.values():
            with suppress(Exception):  # what failed is told already; the others are to be stopped in any case
                query.stop()

    def _show(self) -> None:
        if self._watch is not None:
            self._watch(self.progress())


@contextmanager
def _failure(each: SinkPlan) -> Iterator[None]:
    """Errors of Spark as those of tidelog that they came from, or as a failure of the sink."""
    from pyspark.errors import PySparkException

    try:
        with own_errors():
            yield
    except PySparkException as error:
        raise PipelineFailedError(f"sink {each.sink.name!r} failed: {first_lines(error)}") from error
    except TidelogError as error:
        error.add_note(f"sink {each.sink.name!r} failed with this; what was committed before stays")
        raise


def _last_batch(query: StreamingQuery) -> int | None:
    last = query.lastProgress
    return None if last is None else last.batchId


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
