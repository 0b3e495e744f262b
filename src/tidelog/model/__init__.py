"""The data model: schemas, event time, conversion of user data, and errors."""

from __future__ import annotations

from tidelog.model.convert import to_batches
from tidelog.model.evolution import Evolution, check_evolution, project
from tidelog.model.infer import infer_schema
from tidelog.model.interval import ALL_TIME, Interval
from tidelog.model.rows import RowReader
from tidelog.model.schema import Schema
from tidelog.model.time import Clock

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
