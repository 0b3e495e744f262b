"""What a manifest says about one closed split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tidelog.model.errors import InputError
from tidelog.model.times.interval import Interval
from tidelog.store.log.file_names import check_plain_name

SplitKind: TypeAlias = Literal["regular", "late", "loaded", "compacted", "coarse"]
"""Closed by the tail, or merged from splits of the tail's; written from late rows by the tail; written whole by others;
merged from splits some of which were; the entries of one level of a split's tree."""

Bytes: TypeAlias = bytes  # the class has a field of that name
Correlation: TypeAlias = tuple[float | None, ...]
SPLIT_KINDS: Final[tuple[str, ...]] = get_args(SplitKind)


@dataclass(frozen=True, slots=True)
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
    kind: SplitKind
    created_at: float
    """Seconds since 1970."""
    seq_base: int = 0
    """What is added to the sequence numbers in the file: rows written before it was known which ones they would get.

    The bounds above are those of the rows as they are read, with the base.
    """
    boundary: Interval | None = None
    """The regular interval of time that all its events are in; None if it has none."""
    root: Bytes = b""
    """Where its tree begins, as the tree itself writes it down."""
    entry: Bytes = b""
    """The entries of the root merged into one: rows, bounds and sums of every column, as they are in the file."""
    states: str = ""
    """Which states of user-defined aggregates its entries have: their digest, empty for none."""
    clean_at: int = 0
    """Rows that deletions of the manifest of this number, or of one before, apply to were left out of it."""
    dead_bytes: int = 0
    """How many of its bytes are of leaves and nodes that were written again for late rows."""
    schema: int = 0
    """The version of the stream's schema that it was written under."""
    sampled: int = 0
    """Rows that were looked at for its statistics; all of them if these are exact
    (:mod:`tidelog.store.split.statistics`)."""
    correlation: Correlation = ()
    """The temporal correlation of each column of its schema; None for those that are no numbers, or hardly have any."""

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
