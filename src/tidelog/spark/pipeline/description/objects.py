"""Pipelines as Python objects: where events come from, what becomes of them, where they go.

The same as a ``pipeline.toml``, key for key (:mod:`tidelog.spark.pipeline.checks.decoding` reads one into the other).
Objects are plain values; whether they make sense together is the business of :func:`tidelog.spark.pipeline.check`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.spark.pipeline.file.document import Document

if TYPE_CHECKING:
    from tidelog.spark.pipeline.description.steps import Step

Scalar: TypeAlias = str | int | float | bool
"""What options and settings are made of."""

TIDELOG: Final = "tidelog"
"""The format of streams."""

ONCE: Final = "once"
"""The trigger that reads what there is, in as many batches as it takes, and ends."""


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """How long a query waits for late events: rows older than the newest by more than ``delay`` may be dropped."""

    column: str
    """A timestamp."""
    delay: str
    """A duration such as ``"10m"``."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where events come from: files of a directory, a stream, or anything that Spark can read."""

    name: str
    """What steps and sinks call it."""
    format: str
    """``csv``, ``json``, ``parquet``, ``tidelog``, or any other that Spark knows."""
    path: str | None = None
    """The directory of the files, or of the store."""
    stream: str | None = None
    """The stream of the store; for ``tidelog`` only."""
    streaming: bool = True
    """Whether rows are read as they arrive. If not, the source is a table that every batch sees as it is then."""
    schema: str | None = None
    """Columns and types as Spark writes them, ``"ts timestamp, price double"``."""
    watermark: Watermark | None = None
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """What Spark's reader is told besides."""


@dataclass(frozen=True, kw_only=True)
class Sink:
    """Where rows go: a stream, or anything that Spark can write."""

    name: str
    input: str
    """The source or step whose rows are written."""
    format: str = TIDELOG
    path: str | None = None
    """The directory of the files, or of the store."""
    stream: str | None = None
    """The stream of the store; for ``tidelog`` only. It is created if there is none."""
    time: str | None = None
    """The time column of a stream that is created."""
    stream_options: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of a stream that is created, e.g. ``{"split": "1d", "retention": "30d"}``."""
    compaction: str = "commit"
    """When small splits of the stream are merged, retention is enforced and old files go: with every ``commit``, as
    far as it takes little; every so often, such as ``"10m"``, and then all that is due; or ``never``."""
    mode: str | None = None
    """The output mode: ``append``, ``update`` or ``complete`` for streaming rows, ``append`` or ``overwrite`` for
    others. By default ``append``."""
    trigger: str | None = None
    """That of this sink, instead of the pipeline's."""
    partition_by: tuple[str, ...] = ()
    """Columns whose values become directories; for formats of files."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """What Spark's writer is told besides."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_by", tuple(self.partition_by))


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Sources, steps and sinks; each sink is one streaming query of Spark, or one job."""

    name: str
    checkpoint: str
    """The directory that remembers how far the pipeline has come. It belongs to this pipeline alone."""
    sources: tuple[Source, ...]
    sinks: tuple[Sink, ...]
    steps: tuple[Step, ...] = ()
    trigger: str = "0s"
    """How often a batch is started, such as ``"10s"``; ``"0s"``: as soon as the last is done. Or ``"once"``."""
    modules: tuple[str, ...] = ()
    """Python modules to import first, for the kinds of steps that they register."""
    master: str = "local[*]"
    config: Mapping[str, Scalar] = field(default_factory=dict)
    """Settings of Spark."""
    base: str = "."
    """The directory that relative paths start from: that of the file."""
    document: Document | None = field(default=None, repr=False, compare=False)
    """The file it was read from."""

    def __post_init__(self) -> None:
        for name in ("sources", "steps", "sinks", "modules"):
            given: Iterable[object] = getattr(self, name)
            object.__setattr__(self, name, tuple(given))

    def place(self, path: str) -> str:
        """A path of the pipeline as every process understands it: absolute, unless it is an address."""
        return path if "://" in path else os.path.abspath(os.path.join(self.base, path))
