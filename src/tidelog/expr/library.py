"""All functions and operators: importing this module registers every one of them."""

from __future__ import annotations

from tidelog.expr import (
    arithmetic,
    buckets,
    clock_functions,
    comparison,
    date_functions,
    logic,
    numeric_functions,
    pattern_functions,
    text_functions,
)
from tidelog.expr.signatures import ALIASES, FUNCTIONS, Function, choose, function_named

__all__ = ["ALIASES", "FUNCTIONS", "Function", "choose", "function_named"]

_MODULES = (
    arithmetic,
    buckets,
    clock_functions,
    comparison,
    date_functions,
    logic,
    numeric_functions,
    pattern_functions,
    text_functions,
)
