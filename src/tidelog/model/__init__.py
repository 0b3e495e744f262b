"""The data model: schemas, event time, conversion of user data, and errors."""

from __future__ import annotations

from tidelog.model.conversion.convert import to_batches
from tidelog.model.conversion.infer import infer_schema
from tidelog.model.conversion.rows import RowReader
from tidelog.model.evolution import Evolution, check_evolution, project
from tidelog.model.schema import Schema
from tidelog.model.times.clock import Clock
from tidelog.model.times.interval import ALL_TIME, Interval

__all__ = [
    "ALL_TIME",
    "Clock",
    "Evolution",
    "Interval",
    "RowReader",
    "Schema",
    "check_evolution",
    "infer_schema",
    "project",
    "to_batches",
]
