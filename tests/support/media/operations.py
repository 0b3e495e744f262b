"""What a recording medium writes down, in one global order.

A file is identified by the number of its inode, so that operations keep their meaning when its names come
and go. ``covers`` of a sync is the position in the log at which it *began*: it makes durable what was
recorded before that position, not what other threads did while it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Create:
    name: str
    inode: int


@dataclass(frozen=True, slots=True)
class Link:
    source: str
    name: str
    inode: int


@dataclass(frozen=True, slots=True)
class Remove:
    name: str
    inode: int


@dataclass(frozen=True, slots=True)
class SyncNames:
    directory: str
    covers: int


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    name: str


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    offset: int
    data: bytes

    def __repr__(self) -> str:
        return f"Write(inode={self.inode}, {len(self.data)} bytes at {self.offset})"


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    inode: int
    covers: int
    since: int = 0
    """Covers nothing recorded before this position: of a write through, only that write is durable."""


@dataclass(frozen=True, slots=True)
class FailedSync:
    """The writes it should have covered are forgotten by the system: no later sync makes them durable."""

    inode: int
    covers: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Not an operation: a remark of the test, such as "record 7 is acknowledged"."""

    value: Any


Operation: TypeAlias = Create | Link | Remove | SyncNames | MakeDirectory | Write | Truncate | Sync | FailedSync | Mark
