"""What a running pipeline tells Prometheus: its progress as text, served on the loopback interface alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from tidelog.model.errors import StorageError
from tidelog.spark.pipeline.running.progress import Progress

LOOPBACK: Final = "127.0.0.1"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def _seconds(progress: Progress) -> float | None:
    return None if progress.newest is None else progress.newest.timestamp()


_METRICS: Final[tuple[tuple[str, str, str, Callable[[Progress], float | int | None]], ...]] = (
    ("batches_total", "counter", "Batches with rows that were finished.", lambda p: p.batches),
    ("rows_read_total", "counter", "Rows read of all sources.", lambda p: p.rows_read),
    ("busy_seconds_total", "counter", "Time that batches have taken.", lambda p: p.busy_seconds),
    ("rows_per_second", "gauge", "Rows read a second in the last batch.", lambda p: p.rows_per_second),
    ("batch_seconds", "gauge", "How long the last batch took.", lambda p: p.batch_seconds),
    ("late_rows_total", "counter", "Rows that came late into the stream.", lambda p: p.late),
    ("dropped_rows_total", "counter", "Rows that came behind the watermark and were dropped.", lambda p: p.dropped),
    ("duplicate_rows_total", "counter", "Rows that were dropped as duplicates.", lambda p: p.duplicates),
    ("newest_event_seconds", "gauge", "The newest event time, since 1970.", _seconds),
    ("lag_seconds", "gauge", "How old the newest event was when it was seen.", lambda p: p.lag_seconds),
    ("rows_behind", "gauge", "Rows of source streams that are not read yet.", lambda p: p.behind),
    ("maintenance_total", "counter", "How often the runner maintained the stream.", lambda p: p.maintained),
    ("maintenance_failures_total", "counter", "How often that failed.", lambda p: p.maintenance_failures),
    ("up", "gauge", "1 while the sink's query is at work.", lambda p: int(p.state in ("waiting", "running"))),
)


def rendered(pipeline: str, sinks: Sequence[Progress]) -> str:
    """Progress in Prometheus' text format; what is not known is left out."""
    lines = []
    for name, kind, told, value_of in _METRICS:
        samples = [(each.sink, value) for each in sinks if (value := value_of(each)) is not None]
        if samples:
            full = f"tidelog_pipeline_{name}"
            lines += [f"# HELP {full} {told}", f"# TYPE {full} {kind}"]
            lines += [
                f'{full}{{pipeline="{_escaped(pipeline)}",sink="{_escaped(sink)}"}} {value}' for sink, value in samples
            ]
    return "\n".join(lines) + "\n"


class MetricsServer:
    """Answers ``GET /metrics`` on the loopback interface with what it was last shown. A context manager."""

    def __init__(self, pipeline: str, port: int) -> None:
        """Port 0 takes any that is free. Raises :class:`StorageError` for one that is taken."""
        self._pipeline = pipeline
        self._text = rendered(pipeline, [])
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in ("/metrics", "/"):
                    self.send_error(404, "only /metrics is here")
                    return
                body = outer._text.encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass  # a line for each question would drown the progress

        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        except OSError as error:
            raise StorageError(f"port {port} cannot be listened on: {error.strerror}; choose another, or 0") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="tidelog metrics", daemon=True)

    @property
    def address(self) -> str:
        """Where to ask."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/metrics"

    def show(self, sinks: Sequence[Progress]) -> None:
        """Answer with this from now on."""
        self._text = rendered(self._pipeline, sinks)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
