"""How far the sinks of a pipeline have come, from what Spark tells about each batch."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

_METRICS: Final = "tidelog"
"""What names of what continuous queries tell of themselves begin with."""

State: TypeAlias = Literal["starting", "waiting", "running", "done", "failed"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One sink, since the pipeline was started."""

    sink: str
    state: State = "starting"
    batches: int = 0
    """Batches with rows that were finished."""
    rows_read: int = 0
    """Rows that its query was given by all its sources, which may apply filters themselves."""
    rows_per_second: float = 0.0
    """Rows read, in the last batch."""
    batch_seconds: float = 0.0
    """How long the last batch took."""
    busy_seconds: float = 0.0
    """How long all batches took."""
    late: int | None = None
    """Rows that came into the stream older than its newest event by more than the delay; None: no stream."""
    dropped: int = 0
    """Rows, or partial results, that steps with state have dropped, because they came behind the watermark."""
    duplicates: int = 0
    """Rows that steps have dropped as duplicates."""
    newest: datetime | None = None
    """The newest event time that was seen, where there is a watermark."""
    lag_seconds: float | None = None
    """How long ago that was, when it was seen."""
    behind: int | None = None
    """Rows of streams that are there and not read yet; None: no source tells."""
    maintained: int = 0
    """How often the runner has maintained the stream."""
    maintenance_failures: int = 0


class Account:
    """Adds up what Spark tells about the batches of one query."""

    def __init__(self, sink: str) -> None:
        self.progress = Progress(sink=sink)
        self._last = ""

    def add(self, reports: Iterable[str]) -> bool:
        """Count reports, as JSON, that have not been counted before; True if there was a batch with rows among them."""
        counted = False
        for text in reports:
            report = json.loads(text)
            if report["timestamp"] <= self._last:
                continue
            self._last = report["timestamp"]
            counted |= self._count(report)
        return counted

    def update(self, **changes: Any) -> None:
        """Note what else is known."""
        self.progress = replace(self.progress, **changes)

    def _count(self, report: Mapping[str, Any]) -> bool:
        before = self.progress
        rows = _rows(report)
        operators = report.get("stateOperators") or []
        seconds = (report.get("durationMs") or {}).get("triggerExecution", report.get("batchDuration", 0)) / 1000
        newest = _time((report.get("eventTime") or {}).get("max"))
        self.progress = replace(
            before,
            rows_read=before.rows_read + rows,
            dropped=before.dropped + _dropped(operators) + _late(report.get("observedMetrics") or {}),
            duplicates=before.duplicates + sum(_duplicates(each) for each in operators),
            behind=_behind(report.get("sources") or []),
        )
        if newest is not None and (before.newest is None or newest >= before.newest):
            self.update(newest=newest, lag_seconds=time.time() - newest.timestamp())
        if rows:
            rate = rows / seconds if seconds > 0 else 0.0
            busy = before.busy_seconds + seconds
            self.update(batches=before.batches + 1, batch_seconds=seconds, busy_seconds=busy, rows_per_second=rate)
        return rows > 0


def _rows(report: Mapping[str, Any]) -> int:
    """Rows of all sources. Spark Connect leaves their sum out, and tells those of each source alone."""
    found = report.get("numInputRows")
    return int(
        found if found is not None else sum(each.get("numInputRows") or 0 for each in report.get("sources") or ())
    )


def _dropped(operators: Iterable[Mapping[str, Any]]) -> int:
    """Rows that Spark's own operators have dropped."""
    return sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators)


def _late(observed: Mapping[str, Any]) -> int:
    """Rows that continuous queries have dropped."""
    return sum(int(each.get("late_rows") or 0) for name, each in observed.items() if name.startswith(_METRICS))


def _duplicates(operator: Mapping[str, Any]) -> int:
    return int((operator.get("customMetrics") or {}).get("numDroppedDuplicateRows") or 0)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def _behind(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Rows of streams that were there and not read, as their sources tell."""
    counts = [count for each in sources if (count := _told(each.get("latestOffset"))) is not None]
    return sum(counts) if counts else None


def _told(offset: Any) -> int | None:
    """What the newest offset of a stream tells; None for other sources."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return int(found["behind"])
    except (TypeError, KeyError, ValueError):
        return None
