"""tidelog: an event store and event-stream engine whose log is the database."""

from __future__ import annotations

from tidelog.model import Interval, Schema
from tidelog.model.errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    InputError,
    LockedError,
    NotFoundError,
    ReadOnlyError,
    SchemaError,
    StorageError,
    TidelogError,
    TimeError,
)

__all__ = [
    "ClosedError",
    "CorruptionError",
    "ExistsError",
    "InputError",
    "Interval",
    "LockedError",
    "NotFoundError",
    "ReadOnlyError",
    "Schema",
    "SchemaError",
    "StorageError",
    "TidelogError",
    "TimeError",
]
