"""A log that survives its writer: write events into a container, kill the writer, reopen, verify.

    python demo/demo.py [--events N] [--keep DIRECTORY]

A second process writes synthetic sensor events and says after every flush how many are durable. It is killed in the
middle (SIGKILL, no chance to clean up). Then this process opens the container, checks every structure, compares every
event with the generator, and writes the rest.
"""

from __future__ import annotations

import argparse
import signal
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

from tidelog.storage import Container, ContainerReader, FileMedium

NAME = "sensors.tl"
BATCH = 1 << 18
BATCHES_PER_FLUSH = 4
SCHEMA = pa.schema(
    [pa.field("ts", pa.timestamp("us"), nullable=False), *((f"s{k}", pa.float64()) for k in range(6))],
)
console = Console()


def event_batches(first: int, last: int) -> Iterator[pa.RecordBatch]:
    """The events with numbers from ``first`` (a multiple of the batch size) to ``last``: the same in every process."""
    for start in range(first, last, BATCH):
        dice = np.random.default_rng(start)
        count = min(BATCH, last - start)
        times = 1_700_000_000_000_000 + 1000 * np.arange(start, start + count) + dice.integers(0, 900, count)
        walks = np.round(20 + np.cumsum(dice.normal(0, 0.05, (6, count)), axis=1), 2)
        yield pa.record_batch([pa.array(times, pa.timestamp("us")), *map(pa.array, walks)], schema=SCHEMA)


def write(directory: Path, events: int) -> None:
    """Append events and say, after each flush, how many are durable and how long appending them took."""
    medium = FileMedium(directory)
    spent = 0.0
    with Container.open(medium, NAME) as container:
        for number, batch in enumerate(event_batches(0, events), start=1):
            began = time.perf_counter()
            container.extend(batch)
            if number % BATCHES_PER_FLUSH == 0:
                durable = container.flush().rows
                print(durable, spent + time.perf_counter() - began, flush=True)
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
        size = (directory / NAME).stat().st_size
        while (directory / NAME).stat().st_size == size and writer.poll() is None:
            time.sleep(0.001)  # until it is writing again
        writer.kill()
    if writer.returncode != -signal.SIGKILL:
        raise SystemExit(f"the writer ended by itself, with {writer.returncode}")
    (_, _), (first, before), *_, (last, after) = reports  # the first flush includes loading the kernels
    return last, (last - first) / (after - before)


def verify(directory: Path, events: int, progress: Progress, title: str) -> float:
    """Compare every event in the container with the generator; returns the rate of scanning."""
    task = progress.add_task(title, total=events)
    scanning = 0.0
    with ContainerReader.open(FileMedium(directory), NAME) as reader:
        expected = pa.Table.from_batches(event_batches(0, reader.rows), SCHEMA)
        done, scan = 0, reader.scan()
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


def show(directory: Path, events: int) -> None:
    """The whole demonstration."""
    medium = FileMedium(directory)
    Container.create(medium, NAME, SCHEMA).close()
    with Progress(console=console, transient=True) as progress:
        acknowledged, rate = killed_writer(directory, events, progress)
        began = time.perf_counter()
        container = Container.open(medium, NAME)
        opening = time.perf_counter() - began
        with container:
            recovery = container.recovery
            kept = recovery.commit.rows
            if kept < acknowledged:
                raise SystemExit(f"{acknowledged} events were acknowledged, only {kept} are there")
            findings = container.check()
            if findings:
                raise SystemExit("\n".join(map(str, findings)))
        verify(directory, kept, progress, "verifying what survived")
        with Container.open(medium, NAME) as container:
            task = progress.add_task("writing the rest", total=events - kept)
            for batch in event_batches(kept, events):
                container.extend(batch)
                progress.update(task, advance=len(batch))
            commit = container.flush()
        scan_rate = verify(directory, events, progress, "verifying everything")
    size = (directory / NAME).stat().st_size
    raw = events * 56

    table = Table(title="a log that survives its writer", show_header=False)
    table.add_row("written by a process, killed with SIGKILL", f"{acknowledged:,} events acknowledged")
    table.add_row("its rate, flush included", f"{rate / 1e6:.1f} million events/s")
    table.add_row("reopened in", f"{opening * 1e3:.1f} ms")
    table.add_row("events there", f"{kept:,} (none acknowledged was lost)")
    table.add_row("never acknowledged, cut off", f"{recovery.dropped_bytes:,} bytes")
    table.add_row("check of every structure", "clean")
    table.add_row("every event compared, after writing the rest", f"{commit.rows:,} equal")
    table.add_row("rate of scanning to Arrow", f"{scan_rate / 1e6:.1f} million events/s")
    table.add_row(
        "size", f"{size / 1e6:.1f} MB, {size / events:.2f} bytes an event ({raw / size:.1f} times less than raw)"
    )
    console.print(table)


def main() -> None:
    """Read the arguments; ``--write-to`` is the part of the writing process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=24 * BATCH, help="how many events (default %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the files there")
    parser.add_argument("--write-to", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    events = max(16, arguments.events // BATCH) * BATCH
    if arguments.write_to:
        write(arguments.write_to, events)
    elif arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        show(arguments.keep, events)
    else:
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
            show(Path(directory), events)


if __name__ == "__main__":
    main()
