"""The commands of pipelines: ``pipeline run``, ``pipeline check`` and ``pipeline init``."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli import ENDED_BY_SIGNAL
from tidelog.cli.failures import INTERRUPTED
from tidelog.cli.options import PipelineFile, Quiet
from tidelog.cli.telling.saying import say
from tidelog.model.errors import ExistsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipeline import Pipeline, Progress

TERMINATED: Final = ENDED_BY_SIGNAL + signal.SIGTERM

_QUIET: Final = "TIDELOG_QUIET"
"""Has :mod:`tidelog.jit` not say when it compiles; importing that would load Numba."""


def run(
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Read what there is, in as many batches as it takes, and end.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Where Spark runs, instead of what the file says, e.g. local[2].", show_default=False
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Tell Prometheus, on the loopback interface; 0: any port.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Check a pipeline, then run it until it is done or Ctrl-C; started again, it goes on where it was.

    Exit codes: 0 when everything was read (--once), 1 after an error, 130
    after Ctrl-C and 143 after SIGTERM, both of which let the batch at work
    end first; a second one does not wait for it.
    """
    from tidelog.cli.telling.pipeline_view import PipelineView, summary
    from tidelog.spark import pipeline

    given = pipeline.load(file)
    if master is not None:
        given = dataclasses.replace(given, master=master)
    pipeline.check(given)
    with ExitStack() as stack:
        if quiet:
            stack.enter_context(_silence())
        server = None
        if metrics is not None:
            from tidelog.spark.pipeline.running.metrics import MetricsServer

            server = stack.enter_context(MetricsServer(given.name, metrics))
            _tell(f"metrics: {server.address}", quiet)
        view = stack.enter_context(PipelineView(given.name, enabled=not quiet))

        def watch(sinks: Sequence[Progress]) -> None:
            view.update(sinks)
            if server is not None:
                server.show(sinks)

        session = _start(given, quiet)
        stack.callback(session.stop)
        # Only now: Spark has taken the signal of Ctrl-C for itself when it started.
        stop = stack.enter_context(_signals(quiet))
        outcome = pipeline.run(given, session=session, once=once, watch=watch, stop=stop.event)
    if not quiet:
        say(summary(outcome.sinks, outcome.seconds))
    if outcome.was_stopped:
        _tell("stopped; the next run goes on from here", quiet)
        raise typer.Exit(TERMINATED if stop.came == signal.SIGTERM else INTERRUPTED)


def check(file: PipelineFile) -> None:
    """Say what a pipeline will do, or everything that is wrong with it and where, without starting anything."""
    from tidelog.spark import pipeline
    from tidelog.spark.pipeline.running.explaining import explain

    say(explain(pipeline.check(pipeline.load(file))))


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("pipeline.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented pipeline to start from."""
    from tidelog.spark.pipeline.file.template import TEMPLATE

    try:
        with file.open("w" if force else "x") as target:
            target.write(TEMPLATE)
    except FileExistsError:
        raise ExistsError(f"{file} is there already; name another file, or say --force to replace it") from None
    say(f"wrote {file}; edit it, then run `tidelog pipeline check {file}`")


def _start(given: Pipeline, quiet: bool) -> SparkSession:
    """The session; with ``quiet``, nothing is heard of it, unless it does not start."""
    from tidelog.spark.pipeline.running.runner import start_session
    from tidelog.spark.runtime.muffling import Muffled

    if not quiet:
        return start_session(given)
    muffled = Muffled()
    try:
        with muffled:
            return start_session(given)
    except BaseException:
        sys.stderr.write(muffled.text())
        raise


def _tell(text: str, quiet: bool) -> None:
    if not quiet:
        say(text, err=True)


@contextmanager
def _silence() -> Iterator[None]:
    """Without warnings, of Python's and in the log, and without news of kernels, also of workers; errors are heard."""
    before = logging.root.manager.disable, os.environ.get(_QUIET)
    logging.disable(logging.WARNING)
    os.environ[_QUIET] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before[0])
        os.environ.pop(_QUIET)
        if before[1] is not None:
            os.environ[_QUIET] = before[1]


class _Stop:
    """Set by the first signal; the second one interrupts."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.event = threading.Event()
        self.came: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.came is not None:
            raise KeyboardInterrupt
        self.came = number
        if not self._quiet:
            sys.stderr.write("\nstopping when the batch at work is done; once more to stop at once\n")
        self.event.set()


@contextmanager
def _signals(quiet: bool) -> Iterator[_Stop]:
    """SIGINT and SIGTERM as a wish to stop."""
    stop = _Stop(quiet)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
