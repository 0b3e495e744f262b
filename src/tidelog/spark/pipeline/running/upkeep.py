"""Maintenance of the streams that a pipeline writes, every so often, in a thread beside the queries."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import tidelog
from tidelog.model.errors import TidelogError
from tidelog.spark.pipeline.checks.sinks import maintenance_seconds
from tidelog.spark.pipeline.description.objects import Pipeline, Sink

_log = logging.getLogger("tidelog.maintenance")


@dataclass
class Upkept:
    """What was done for the stream of a sink."""

    path: str
    stream: str
    every: float
    """Seconds."""
    due: float
    done: int = 0
    failures: int = 0


class Upkeep:
    """Enforces retention, merges splits and removes old files while rows are written. A context manager.

    Being killed in the middle does no harm: what was not committed is not seen.
    """

    def __init__(self, pipeline: Pipeline, sinks: Sequence[Sink]) -> None:
        now = time.monotonic()
        self.streams: dict[str, Upkept] = {}
        for sink in sinks:
            every = maintenance_seconds(sink)
            if every is not None and sink.path is not None and sink.stream is not None:
                place = pipeline.place(sink.path)
                self.streams[sink.name] = Upkept(place, sink.stream, every, now + every)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidelog pipeline upkeep", daemon=True)

    def _run(self) -> None:
        while self.streams:
            soonest = min(each.due for each in self.streams.values())
            if self._over.wait(max(0.0, soonest - time.monotonic())):
                return
            for each in self.streams.values():
                if each.due <= time.monotonic():
                    self._maintain(each)
                    each.due = time.monotonic() + each.every

    def _maintain(self, each: Upkept) -> None:
        try:
            with tidelog.open(each.path, maintenance="manual") as store:
                store.stream(each.stream).maintain()
            each.done += 1
        except TidelogError as error:
            each.failures += 1
            _log.warning("maintenance of stream %r failed, and is tried again later: %s", each.stream, error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
