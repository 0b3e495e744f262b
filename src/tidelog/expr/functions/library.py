"""All functions and operators: importing this module registers every one of them."""

from __future__ import annotations

from tidelog.expr.functions import arithmetic, buckets, clock, comparison, dates, logic, numeric, patterns, text
from tidelog.expr.functions.signatures import ALIASES, FUNCTIONS, Function, choose, function_named

__all__ = ["ALIASES", "FUNCTIONS", "Function", "choose", "function_named"]

_MODULES = (arithmetic, buckets, clock, comparison, dates, logic, numeric, patterns, text)
