"""Files into a stream, with bounded memory, and nothing lost of what came before a bad row.

With a producer, every append is numbered by the last row it holds, counted over all inputs. So the stream knows how
many rows of these inputs it has, and a second run of the command goes on with the next one, whatever ended the first.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import tidelog
from tidelog.cli.formats import Format
from tidelog.cli.interrupts import interrupts_held
from tidelog.cli.reading.detect import STDIN, Input
from tidelog.cli.reading.open import open_source
from tidelog.cli.reading.source import Source
from tidelog.cli.stream_options import refuse_other_options
from tidelog.cli.telling.progress import IngestProgress
from tidelog.cli.telling.units import count, duration, rows, size
from tidelog.model.errors import InputError, NotFoundError, SchemaError, StorageError, TidelogError
from tidelog.model.types import type_name

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.engine.store import Store
    from tidelog.engine.stream import Stream
    from tidelog.store.manifest.sequence_set import SeqSet

FLUSH_ROWS = 1 << 20
"""A crash costs at most the rows of one stretch of this length, which a producer's next run brings again."""


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """What the command line says about an ingestion."""

    stream: str
    time: str | None = None
    create: bool = True
    format: Format = Format.AUTO
    types: dict[str, pa.DataType] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    """The columns that are taken, besides that of event times; None takes all."""
    stream_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the stream, should it be created."""
    nulls: Sequence[str] = ()
    delimiter: str | None = None
    batch_rows: int = 1 << 16
    producer: str | None = None
    progress: bool = True


@dataclass
class IngestResult:
    """What an ingestion did, finished or not."""

    stream: str
    created: bool = False
    rows: int = 0
    """Rows appended by this run."""
    stored: int = 0
    """Those of them that were flushed: whatever happens, they are there."""
    before: SeqSet | None = None
    """The sequence numbers of the stream's rows before this run; None as long as that is not known."""
    known_rows: int = 0
    """Rows passed over, because the producer had brought them before."""
    bytes: int = 0
    """Bytes of the inputs as stored, compressed if they are."""
    seconds: float = 0.0

    def __str__(self) -> str:
        seconds = max(self.seconds, 1e-9)
        known = f" ({count(self.known_rows)} more were there already)" if self.known_rows else ""
        return (
            f"{'created' if self.created else 'appended to'} {self.stream!r}: {rows(self.rows)}{known}, "
            f"{size(self.bytes)} in {duration(self.seconds)}, {count(self.rows / seconds)} rows/s, "
            f"{size(self.bytes / seconds)}/s"
        )


def ingest_files(store_path: Path, files: Sequence[str], options: IngestOptions) -> IngestResult:
    """Append files to a stream, one after the other, and flush.

    The stream is created, if there is none and options allow it, with the schema of the first file. Every error, and an
    interrupt too, leaves the stream with all rows before it, durable, as far as the disk takes them; the error has a
    note that says how many. A stream that was created and got none is removed again.
    """
    sizes = [_size(file) for file in files]  # also: complain about a missing file before anything is written
    total = None if None in sizes else sum(each for each in sizes if each is not None)
    result = IngestResult(options.stream)
    started = time.perf_counter()
    store: Store | None = None
    try:
        store = tidelog.open(store_path)
        with IngestProgress(total, enabled=options.progress) as progress:
            _Ingestion(store, options, result, progress).run(files)
        store.close()
    except BaseException as error:
        if store is None and not isinstance(error, KeyboardInterrupt):
            raise  # where there is no store nobody asks what it has got
        with interrupts_held():
            if store is not None:
                with suppress(TidelogError):  # it has nothing to say that the error does not
                    store.close()
            is_certain = result.rows == result.stored or _find_out(store_path, result, options.producer)
            if result.created and not result.stored:
                _remove_empty(store_path, options.stream)
            error.add_note(_left_behind(result, options.producer, is_certain=is_certain))
        raise
    finally:
        result.seconds = time.perf_counter() - started
    return result


class _Ingestion:
    """One run over some files."""

    def __init__(self, store: Store, options: IngestOptions, result: IngestResult, progress: IngestProgress) -> None:
        self._store = store
        self._options = options
        self._result = result
        self._progress = progress
        self._stream: Stream | None = None
        self._seen_rows = 0
        """Rows of all inputs so far, those passed over included."""
        self._known_rows = 0
        """Rows of all inputs that the producer has brought in earlier runs."""

    def run(self, files: Sequence[str]) -> None:
        try:
            for file in files:
                self._read(file)
        except BaseException as error:
            try:
                self._flush()
            except TidelogError as failure:
                if not isinstance(error, StorageError):  # else this is what is wrong with the disk, once more
                    error.add_note(f"besides: {failure}")
            raise
        self._flush()

    def _flush(self) -> None:
        if self._stream is not None:
            with interrupts_held():
                self._stream.flush()
                self._result.stored = self._result.rows

    def _read(self, file: str) -> None:
        options = self._options
        with Input(file, options.format) as content:
            stream = self._stream or self._existing()
            source = open_source(
                content,
                delimiter=options.delimiter,
                nulls=options.nulls,
                columns=self._columns(stream),
                told=options.types,
            )
            if stream is None:
                stream = self._created(source)
            if self._stream is None:
                self._stream = stream
                from tidelog.engine.stream import writer_of  # not before somebody has opened a store

                self._result.before = writer_of(stream).published().visible
                if options.producer is not None:
                    last = stream.last_number(options.producer)
                    self._known_rows = 0 if last is None else last + 1
            before = self._result.bytes
            self._progress.update(content.name, self._result.rows, before)
            for batch in rebatched(source.batches(stream.schema), options.batch_rows):
                with interrupts_held():  # an append that stops half-way would be neither stored nor missing
                    self._append(stream, batch)
                self._progress.update(content.name, self._result.rows, before + content.position)
            self._result.bytes = before + (content.position if content.size is None else content.size)

    def _columns(self, stream: Stream | None) -> list[str] | None:
        """The columns to take, that of event times among them; None: all."""
        options = self._options
        if options.columns is None:
            return None
        if stream is not None:
            for column in options.columns:
                stream.schema.index(column)
        time = options.time if stream is None else stream.schema.time
        return list(dict.fromkeys([*options.columns, *([] if time is None else [time])]))

    def _append(self, stream: Stream, batch: pa.RecordBatch) -> None:
        known = min(max(self._known_rows - self._seen_rows, 0), batch.num_rows)
        self._result.known_rows += known
        self._seen_rows += batch.num_rows
        batch = batch.slice(known)
        if not batch.num_rows:
            return
        if self._options.producer is None:
            stream.append(batch)
        else:
            stream.append(batch, producer=self._options.producer, number=self._seen_rows - 1)
        self._result.rows += batch.num_rows
        if self._result.rows - self._result.stored >= FLUSH_ROWS:
            stream.flush()
            self._result.stored = self._result.rows

    def _existing(self) -> Stream | None:
        """The stream if there is one, and the command does not contradict it."""
        options = self._options
        try:
            stream = self._store.stream(options.stream)
        except NotFoundError:
            if not options.create:
                raise
            if options.time is None:
                raise InputError(
                    f"there is no stream {options.stream!r} yet; to create it, name the column of event times with "
                    "--time"
                ) from None
            return None
        if options.time not in (None, stream.schema.time):
            raise InputError(
                f"stream {options.stream!r} takes its times from column {stream.schema.time!r}, not from "
                f"{options.time!r}; leave out --time, or name another stream"
            )
        for column, type_ in options.types.items():
            has = stream.schema.field(column).type
            if has != type_:
                raise InputError(
                    f"stream {options.stream!r} exists and its column {column!r} has the type {type_name(has)}, not "
                    f"{type_name(type_)}; leave out --type {column}, or name another stream"
                )
        refuse_other_options(options.stream, options.stream_options, stream.options)
        return stream

    def _created(self, source: Source) -> Stream:
        options = self._options
        assert options.time is not None
        schema = self._inferred(source, options.time)
        stream = self._store.create_stream(options.stream, schema, options.time, **options.stream_options)
        self._result.created = True
        return stream

    def _inferred(self, source: Source, time_column: str) -> tidelog.Schema:
        try:
            return source.infer(time_column, self._options.types)
        except SchemaError as error:
            if "type" not in str(error):  # but a column that is not there, for example
                raise
            raise SchemaError(f"{error}. A type other than the one found can be given as --type COLUMN=TYPE") from error


def rebatched(batches: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows, ``batch_rows`` in each batch but the last; an error comes after all rows before it."""
    waiting: list[pa.RecordBatch] = []
    waiting_rows = 0
    failure: Exception | None = None
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except InputError as error:
            failure = error
            break
        while waiting_rows + batch.num_rows >= batch_rows:
            room = batch_rows - waiting_rows
            yield pa.concat_batches([*waiting, batch.slice(0, room)]) if waiting else batch.slice(0, room)
            waiting, waiting_rows, batch = [], 0, batch.slice(room)
        if batch.num_rows:
            waiting.append(batch)
            waiting_rows += batch.num_rows
    if waiting:
        yield pa.concat_batches(waiting)
    if failure is not None:
        raise failure


def _size(file: str) -> int | None:
    """Bytes of a regular file; None for standard input, pipes and devices. Raises OSError if there is no such file."""
    if file == STDIN:
        return None
    status = os.stat(file)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _find_out(store_path: Path, result: IngestResult, producer: str | None) -> bool:
    """Find out what a failed write has left of rows that were not flushed, and keep that; False if nobody can tell."""
    try:
        with tidelog.open(store_path, maintenance="manual") as store:
            stream = store.stream(result.stream)
            last = stream.last_number(producer or "")  # which mends what the failure has left
            if producer is not None:
                found = 0 if last is None else last + 1 - result.known_rows
            elif result.before is None:
                return False
            else:
                found = len(stream) - _count(stream, result.before)
    except TidelogError:
        return False
    result.stored = min(max(found, result.stored), result.rows)
    return True


def _count(stream: Stream, seen: SeqSet) -> int:
    return int(stream.aggregate(None, None, "count(*)", as_of=seen)["count(*)"])


def _remove_empty(store_path: Path, stream: str) -> None:
    """Remove a stream that was made in vain, unless somebody else has found a use for it."""
    with suppress(TidelogError), tidelog.open(store_path) as store:
        if not len(store.stream(stream)):
            store.drop_stream(stream)


def _left_behind(result: IngestResult, producer: str | None, *, is_certain: bool) -> str:
    if not result.stored and is_certain:
        return "nothing was stored"
    again = (
        "run the same command again to go on from there"
        if producer is not None
        else "leave that out when you try again, or use --producer, which does so by itself"
        if is_certain
        else "look how many there are before you try again, or use --producer, which does so by itself"
    )
    number = rows(result.stored) if is_certain else f"at least {rows(result.stored)}"
    return f"{number} before that {'is' if result.stored == 1 else 'are'} stored; {again}"
