"""What a manifest says about one closed split."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tidelog.model.errors import InputError, NewerReleaseError
from tidelog.model.times.interval import Interval
from tidelog.store.log.documents import refuse_unknown
from tidelog.store.log.file_names import check_plain_name

SplitKind: TypeAlias = Literal["regular", "late", "loaded", "compacted", "reduced"]
"""Closed by the tail, or merged from splits of the tail's; written from late rows by the tail; written whole by others;
merged from splits some of which were; the entries of one level of a split's tree."""

Bytes: TypeAlias = bytes  # the class has a field of that name
SPLIT_KINDS: Final = ("regular", "late", "loaded", "compacted", "reduced")


_MEMBERS: Final = (
    "name",
    "rows",
    "bytes",
    "time",
    "seq",
    "seq_base",
    "kind",
    "boundary",
    "root",
    "entry",
    "states",
    "created_at",
    "clean_at",
    "dead_bytes",
    "schema",
    "statistics",
)


def check_kind(kind: str) -> None:
    """Raise :class:`NewerReleaseError` unless a stored split is of a kind that this release can read."""
    if kind not in SPLIT_KINDS:
        raise NewerReleaseError(f"a split of the kind {kind!r}, which this release does not know")


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """What is known of the columns of a closed split besides what its entry says
    (:mod:`tidelog.store.split.statistics`)."""

    sampled: int
    """Rows that were looked at; all rows of the split if the figures are exact."""
    correlation: tuple[float | None, ...]
    """Of each column of the split's schema, in their order; None for those that are no numbers, or hardly have any."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"sampled": self.sampled, "correlation": list(self.correlation)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SplitStatistics:
        """What :meth:`to_dict` described; raises :class:`NewerReleaseError` for what is not known here."""
        refuse_unknown("the statistics of a split", values, ("sampled", "correlation"))
        return cls(values["sampled"], tuple(values["correlation"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInfo:
    """A closed split: its file, what is in it, where to begin reading. Bounds of times and numbers are inclusive."""

    name: str
    """The file, in the directory ``splits`` of the stream; made by :func:`tidelog.store.log.file_names.new_file_name`.
    """
    rows: int
    bytes: int
    time_min: int
    time_max: int
    seq_min: int
    seq_max: int
    seq_base: int = 0
    """What is added to the sequence numbers in the file: rows written before it was known which ones they would get.

    The bounds above are those of the rows as they are read, with the base.
    """
    kind: SplitKind
    boundary: Interval | None = None
    """The regular interval of time that all its events are in; None if it has none."""
    root: Bytes = b""
    """Where its tree begins, as the tree itself writes it down."""
    entry: Bytes = b""
    """The entries of the root merged into one: rows, bounds and sums of every column, as they are in the file."""
    states: str = ""
    """Which states of user-defined aggregates its entries have: their digest, empty for none."""
    created_at: float
    """Seconds since 1970."""
    clean_at: int = 0
    """Rows that deletions of the manifest of this number, or of one before, apply to were left out of it."""
    dead_bytes: int = 0
    """How many of its bytes are of leaves and nodes that were written again for late rows."""
    schema: int = 0
    """The version of the stream's schema that it was written under."""
    statistics: SplitStatistics | None = None
    """None for splits written before there were any."""

    def __post_init__(self) -> None:
        check_plain_name(self.name)
        if self.kind not in SPLIT_KINDS:
            raise InputError(f"split {self.name}: found kind {self.kind!r}; expected one of {', '.join(SPLIT_KINDS)}")
        if self.rows < 1 or self.bytes < 0:
            raise InputError(f"split {self.name}: found {self.rows} rows in {self.bytes} bytes; expected some rows")
        if not 0 <= self.dead_bytes <= self.bytes:
            raise InputError(
                f"split {self.name}: found {self.dead_bytes} dead bytes of {self.bytes}; expected no more than all"
            )
        if self.time_min > self.time_max or self.seq_min > self.seq_max or self.seq_min < 0:
            raise InputError(
                f"split {self.name}: found times {self.time_min} to {self.time_max} and sequence numbers "
                f"{self.seq_min} to {self.seq_max}; expected each to ascend, and numbers from 0"
            )
        if not 0 <= self.seq_base <= self.seq_min:
            raise InputError(
                f"split {self.name}: found {self.seq_base} to be added to sequence numbers that become {self.seq_min} "
                "and more; expected a base from 0, and numbers from it on"
            )
        if self.seq_max - self.seq_min + 1 < self.rows:
            raise InputError(
                f"split {self.name}: found {self.rows} rows with sequence numbers {self.seq_min} to {self.seq_max}; "
                "expected a number for each row"
            )
        inside = self.boundary is None or all(map(self.boundary.contains, (self.time_min, self.time_max)))
        if not inside:
            raise InputError(
                f"split {self.name}: found times {self.time_min} to {self.time_max}, not all inside its "
                f"boundary {self.boundary}"
            )

    @property
    def interval(self) -> Interval:
        """The smallest half-open interval of time that all its events are in."""
        return Interval(self.time_min, self.time_max + 1)

    def to_dict(self) -> dict[str, Any]:
        """The split as JSON values."""
        values: dict[str, Any] = {
            "name": self.name,
            "rows": self.rows,
            "bytes": self.bytes,
            "time": [self.time_min, self.time_max],
            "seq": [self.seq_min, self.seq_max],
            "kind": self.kind,
            "created_at": self.created_at,
        }
        if self.seq_base:
            values["seq_base"] = self.seq_base
        if self.clean_at:
            values["clean_at"] = self.clean_at
        if self.dead_bytes:
            values["dead_bytes"] = self.dead_bytes
        if self.states:
            values["states"] = self.states
        if self.schema:
            values["schema"] = self.schema
        if self.statistics is not None:
            values["statistics"] = self.statistics.to_dict()
        if self.boundary is not None:
            values["boundary"] = [self.boundary.start, self.boundary.end]
        for name, content in (("root", self.root), ("entry", self.entry)):
            if content:
                values[name] = base64.b64encode(content).decode("ascii")
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SplitInfo:
        """The split that :meth:`to_dict` described; raises :class:`NewerReleaseError` for what is not known here."""
        refuse_unknown("a split", values, _MEMBERS)
        check_kind(values["kind"])
        time_min, time_max = values["time"]
        seq_min, seq_max = values["seq"]
        boundary, statistics = values.get("boundary"), values.get("statistics")
        return cls(
            name=values["name"],
            rows=values["rows"],
            bytes=values["bytes"],
            time_min=time_min,
            time_max=time_max,
            seq_min=seq_min,
            seq_max=seq_max,
            seq_base=values.get("seq_base", 0),
            kind=values["kind"],
            boundary=None if boundary is None else Interval(*boundary),
            root=base64.b64decode(values.get("root", ""), validate=True),
            entry=base64.b64decode(values.get("entry", ""), validate=True),
            states=values.get("states", ""),
            created_at=values["created_at"],
            clean_at=values.get("clean_at", 0),
            dead_bytes=values.get("dead_bytes", 0),
            schema=values.get("schema", 0),
            statistics=None if statistics is None else SplitStatistics.from_dict(statistics),
        )
