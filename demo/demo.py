"""A log that survives its writer and is its own index: write events, kill the writer, reopen, verify, ask.

    python demo/demo.py [--events N] [--pipeline-events N] [--keep DIRECTORY] [--page FILE]

A second process writes synthetic sensor events into a stream and says after every flush how many are durable. It is
killed in the middle (SIGKILL, no chance to clean up). Then this process opens the store, checks every structure,
compares every event with the generator, writes the rest and some late events, and asks for aggregates of random ranges.
Last, a pipeline on Spark merges the files of two receivers, which differ, and one of which dies, into one stream; it is
killed and resumed while the library answers questions on the growing stream. A table sums everything up, and a page of
its own has plots (``--page``).
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from with_pipeline import show_pipeline

import tidelog
from tidelog.engine.stream import Stream

NAME = "sensors"
BATCH = 1 << 18
BATCHES_PER_FLUSH = 4
START = 1_700_000_000_000_000
STEP = 1000
SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False), *((f"s{k}", pa.float64()) for k in range(6))])
QUERIES = 200
console = Console()


def event_batches(first: int, last: int) -> Iterator[pa.RecordBatch]:
    """The events with numbers from ``first`` (a multiple of the batch size) to ``last``: the same in every process."""
    for start in range(first, last, BATCH):
        dice = np.random.default_rng(start)
        count = min(BATCH, last - start)
        times = START + STEP * np.arange(start, start + count) + dice.integers(0, STEP - 100, count)
        walks = np.round(20 + np.cumsum(dice.normal(0, 0.05, (6, count)), axis=1), 2)
        yield pa.record_batch([pa.array(times, pa.timestamp("us")), *map(pa.array, walks)], schema=SCHEMA)


def write(directory: Path, events: int) -> None:
    """Append events and say, after each flush, how many are durable and how long appending them took."""
    spent = 0.0
    with tidelog.open(directory) as store:
        stream = store.stream(NAME)
        for number, batch in enumerate(event_batches(0, events), start=1):
            began = time.perf_counter()
            stream.append(batch)
            if number % BATCHES_PER_FLUSH == 0:
                stream.flush()
                print(number * BATCH, spent + time.perf_counter() - began, flush=True)
            spent += time.perf_counter() - began


def killed_writer(directory: Path, events: int, progress: Progress) -> tuple[int, float]:
    """Let another process write and kill it half-way, between flushes; returns what it acknowledged and its rate."""
    task = progress.add_task("writing in another process", total=events)
    command = [sys.executable, __file__, "--write-to", str(directory), "--events", str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reports = [(0, 0.0)]
        for line in writer.stdout:
            durable, spent = line.split()
            reports.append((int(durable), float(spent)))
            progress.update(task, completed=int(durable))
            if int(durable) >= events // 2:
                break
        size = size_of(directory)
        while size_of(directory) == size and writer.poll() is None:
            time.sleep(0.001)  # until it is writing again
        writer.kill()
    if writer.returncode != -signal.SIGKILL:
        raise SystemExit(f"the writer ended by itself, with {writer.returncode}")
    (_, _), (first, before), *_, (last, after) = reports  # the first flush includes loading the kernels
    return last, (last - first) / (after - before)


def size_of(directory: Path) -> int:
    """Bytes of all files of the store."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def verify(stream: Stream, events: int, progress: Progress, title: str) -> float:
    """Compare every event with the generator; returns the rate of scanning."""
    task = progress.add_task(title, total=events)
    expected = pa.Table.from_batches(event_batches(0, events), SCHEMA)
    done, scanning, scan = 0, 0.0, iter(stream.scan())
    while True:
        began = time.perf_counter()
        batch = next(scan, None)
        scanning += time.perf_counter() - began
        if batch is None:
            break
        if not pa.Table.from_batches([batch]).equals(expected.slice(done, len(batch)).combine_chunks()):
            raise SystemExit(f"event {done} or one of the next {len(batch)} is not what was written")
        done += len(batch)
        progress.update(task, completed=done)
    if done != events:
        raise SystemExit(f"{done} events are there, {events} were written")
    return done / scanning


def ask(stream: Stream, events: int) -> tuple[float, float]:
    """Aggregates of random time ranges, from the index and from the events; returns the median seconds of both."""
    dice = np.random.default_rng(1)
    quick, slow = [], []
    for number in range(QUERIES):
        start, end = sorted((START + STEP * dice.integers(0, events, 2)).tolist())
        began = time.perf_counter()
        answer = stream.aggregate(start, end, ["count(*)", "min(s0)", "max(s0)", "avg(s0)"])
        quick.append(time.perf_counter() - began)
        if number % 40 == 0:  # the same from the events, because of the condition
            began = time.perf_counter()
            check = stream.aggregate(start, end, ["count(*)", "min(s0)", "max(s0)"], where="ts IS NOT NULL")
            slow.append(time.perf_counter() - began)
            if any(answer[text] != check[text] for text in check):
                raise SystemExit(f"the index says {answer}, the events say {check}")
    return statistics.median(quick), statistics.median(slow)


def show(directory: Path, events: int, piped: int, page: Path) -> None:
    """The whole demonstration."""
    log = directory / "log"
    with tidelog.open(log) as store:
        store.create_stream(NAME, SCHEMA, time="ts")
    with Progress(console=console, transient=True) as progress:
        acknowledged, rate = killed_writer(log, events, progress)
        store = tidelog.open(log)
        stream = store.stream(NAME)
        began = time.perf_counter()
        kept = len(stream)
        opening = time.perf_counter() - began
        if kept < acknowledged:
            raise SystemExit(f"{acknowledged} events were acknowledged, only {kept} are there")
        findings = store.check()
        if findings:
            raise SystemExit("\n".join(map(str, findings)))
        verify(stream, kept, progress, "verifying what survived")
        task = progress.add_task("writing the rest", total=events - kept)
        done = 0
        for batch in event_batches(0, events):
            rest = batch.slice(max(0, min(kept - done, len(batch))))
            done += len(batch)
            if len(rest):
                stream.append(rest)
                progress.update(task, advance=len(rest))
        stream.flush()
        scan_rate = verify(stream, events, progress, "verifying everything")
        indexed, scanned = ask(stream, events)
        late = pa.array(np.full(1000, START), pa.timestamp("us"))
        stream.append(pa.record_batch([late, *(pa.array(np.full(1000, -1.0)) for _ in range(6))], schema=SCHEMA))
        if stream.aggregate(None, START + 1, ["count(*)"], where="s0 = -1")["count(*)"] != 1000:
            raise SystemExit("late events were not found")
        store.close()
        size, raw = size_of(log), events * 56
        pipeline = show_pipeline(directory / "pipeline", page, piped, progress)

    table = Table(title="a log that survives its writer and is its own index", show_header=False)
    table.add_row("written by a process, killed with SIGKILL", f"{acknowledged:,} events acknowledged")
    table.add_row("its rate, flush included", f"{rate / 1e6:.1f} million events/s")
    table.add_row("reopened and counted in", f"{opening * 1e3:.1f} ms")
    table.add_row("events there", f"{kept:,} (none acknowledged was lost)")
    table.add_row("check of every structure", "clean")
    table.add_row("every event compared, after writing the rest", f"{events:,} equal")
    table.add_row("rate of scanning to Arrow", f"{scan_rate / 1e6:.1f} million events/s")
    table.add_row("aggregates of a random range, from the index", f"{indexed * 1e3:.2f} ms")
    table.add_row("the same from the events", f"{scanned * 1e3:.2f} ms")
    table.add_row("events that came hours late", "found")
    table.add_row(
        "size", f"{size / 1e6:.1f} MB, {size / events:.2f} bytes an event ({raw / size:.1f} times less than raw)"
    )
    for what, found in pipeline.items():
        table.add_row(what, found)
    console.print(table)


def main() -> None:
    """Read the arguments; ``--write-to`` is the part of the writing process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=24 * BATCH, help="how many events (default %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the files there")
    parser.add_argument("--pipeline-events", type=int, default=200_000, help="how many in files (default %(default)s)")
    parser.add_argument("--page", type=Path, default=Path("build/demo.html"), help="the page (default %(default)s)")
    parser.add_argument("--write-to", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    events = max(16, arguments.events // BATCH) * BATCH
    if arguments.write_to:
        write(arguments.write_to, events)
    elif arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        show(arguments.keep, events, arguments.pipeline_events, arguments.page)
    else:
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
            show(Path(directory), events, arguments.pipeline_events, arguments.page)


if __name__ == "__main__":
    main()
