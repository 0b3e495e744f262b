"""Progress and metrics from what Spark reports, counted by hand."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

import pytest

import tidelog
from tidelog.spark.pipeline.running.metrics import MetricsServer, rendered
from tidelog.spark.pipeline.running.progress import Account, Progress


def report(second: int, rows: int, **more: Any) -> str:
    return json.dumps(
        {
            "timestamp": f"2026-01-01T00:00:{second:02d}.000Z",
            "batchId": second,
            "numInputRows": rows,
            "durationMs": {"triggerExecution": 500},
            "stateOperators": [],
            "sources": [{"endOffset": {"x": 1}, "latestOffset": None}],
            **more,
        }
    )


def test_reports_are_counted_once() -> None:
    account = Account("s")
    first, second, idle = report(1, 10), report(2, 30), report(3, 0)
    assert account.add([first])
    assert account.add([first, second, idle])
    assert not account.add([first, second, idle])
    found = account.progress
    assert (found.batches, found.rows_read, found.busy_seconds, found.rows_per_second) == (2, 40, 1.0, 60.0)
    assert found.behind is None
    assert found.newest is None


def test_what_was_dropped_and_what_is_left() -> None:
    account = Account("s")
    operators = [
        {"numRowsDroppedByWatermark": 3, "customMetrics": {"numDroppedDuplicateRows": 5}},
        {"numRowsDroppedByWatermark": 4, "customMetrics": {}},
    ]
    sources = [
        {"endOffset": {"seen": "[[0, 10]]"}, "latestOffset": {"seen": "[[0, 10], [20, 4000000045]]", "behind": "20"}},
        {"endOffset": '{"seen": "[[0, 1]]"}', "latestOffset": '{"seen": "[[0, 8]]", "behind": "7"}'},
        {"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 4}},
    ]
    event_time = {"max": "2025-12-31T23:00:00.000Z", "watermark": "1970-01-01T00:00:00.000Z"}
    account.add([report(1, 1, stateOperators=operators, sources=sources, eventTime=event_time)])
    account.add([report(2, 1, stateOperators=operators, sources=sources[:1], eventTime=event_time)])
    found = account.progress
    assert (found.dropped, found.duplicates, found.behind) == (14, 10, 20)
    assert found.newest == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert found.lag_seconds is not None


SAMPLE = [
    Progress(sink="a", state="running", batches=2, rows_read=40, late=1, busy_seconds=1.5),
    Progress(sink='b"\\', state="done", dropped=7),
]


def test_metrics_are_in_prometheus_text_format() -> None:
    text = rendered("p\n", SAMPLE)
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) tidelog_pipeline_[a-z_]+ .+", line)
        else:
            found = re.fullmatch(r'(tidelog_pipeline_[a-z_]+)\{pipeline="p\\n",sink="(a|b\\"\\\\)"\} ([0-9.]+)', line)
            assert found is not None, line
            samples[found[1].removeprefix("tidelog_pipeline_"), found[2][0]] = float(found[3])
    assert samples["rows_read_total", "a"] == 40
    assert samples["dropped_rows_total", "b"] == 7
    assert (samples["up", "a"], samples["up", "b"]) == (1, 0)
    assert ("late_rows_total", "a") in samples
    assert ("late_rows_total", "b") not in samples, "no stream tells"
    assert text.count("# TYPE tidelog_pipeline_rows_read_total counter") == 1


def test_metrics_are_served_on_loopback_only() -> None:
    with MetricsServer("p", 0) as server:
        assert server.address.startswith("http://127.0.0.1:")
        server.show(SAMPLE)
        with urllib.request.urlopen(server.address) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == rendered("p", SAMPLE)
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(server.address.replace("metrics", "other"))
        caught.value.close()
        port = int(server.address.split(":")[2].split("/")[0])
        with pytest.raises(tidelog.TidelogError, match=f"port {port} cannot be listened on"):
            MetricsServer("q", port)
