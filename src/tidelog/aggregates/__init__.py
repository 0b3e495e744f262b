"""Aggregates that inner nodes of a stream's trees keep, besides the built-in ones: ready-made ones, and your own.

See docs/aggregates.md. Importing this package registers the ready-made ones; libraries that some of them need are
loaded when they are used.
"""

from __future__ import annotations

from tidelog.aggregates import extremes, places, sketches, totals
from tidelog.aggregates.base import (
    REQUIRED,
    Aggregate,
    Dependent,
    Incremental,
    Needs,
    Virtual,
)
from tidelog.aggregates.binding import Binding, bind, find, named, names, register, unregister

__all__ = [
    "REQUIRED",
    "Aggregate",
    "Binding",
    "Dependent",
    "Incremental",
    "Needs",
    "Virtual",
    "bind",
    "extremes",
    "find",
    "named",
    "names",
    "places",
    "register",
    "sketches",
    "totals",
    "unregister",
]
