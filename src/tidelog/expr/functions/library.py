"""All functions and operators: those computed here, and those of DuckDB that expressions may use.

The latter are a list. Each is a function of its arguments and nothing else: not of the time, of chance, of settings,
of the session. Each is old and stable enough to mean the same in every version of DuckDB that is supported, and what it
makes of a text is bounded (:mod:`tidelog.expr.database.lengths`).
"""

from __future__ import annotations

from typing import Final

from tidelog.expr.functions import arithmetic, comparison, logic, patterns, texts
from tidelog.expr.functions.registry import NATIVE, NATIVE_ALIASES, Function

__all__ = ["ALIASES", "CONSTANTS", "FUNCTIONS", "NATIVE", "STRICT", "Function"]

_MODULES = (arithmetic, comparison, logic, patterns, texts)

_BY_DUCKDB: Final = {
    "operator": "& ** << >> | || ~",
    "condition": "greatest if least nullif",
    "number": """
        abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil cos cosh cot degrees even exp factorial fdiv
        floor fmod gamma gcd isfinite isinf isnan lcm lgamma ln log log10 log2 nextafter pi radians round sign signbit
        sin sinh sqrt tan tanh trunc xor""",
    "text": """
        ascii bin bit_length chr concat concat_ws decode encode from_base64 hamming hex left levenshtein
        lpad ltrim md5 octet_length regexp_extract regexp_full_match regexp_matches regexp_replace
        repeat replace reverse right rpad rtrim sha1 sha256 split_part strpos substr to_base64
        translate trim unhex unicode""",
    "date and time": """
        century date_add date_diff date_part date_sub date_trunc day dayname dayofweek dayofyear decade epoch epoch_ms
        epoch_ns epoch_us era hour isodow isoyear julian last_day make_date make_timestamp make_timestamp_ms
        make_timestamp_ns microsecond millennium millisecond minute month monthname nanosecond quarter second strftime
        time_bucket timezone to_centuries to_days to_decades to_hours to_microseconds to_millennia to_milliseconds
        to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years week year yearweek""",
}

FUNCTIONS: Final[dict[str, str]] = {
    **{name: function.theme for name, function in NATIVE.items()},
    **{name: theme for theme, names in _BY_DUCKDB.items() for name in names.split()},
}
"""The theme of every function and operator, by its one name."""

ALIASES: Final[dict[str, str]] = {
    **NATIVE_ALIASES,
    **dict.fromkeys(("pow", "power", "^"), "**"),
    "@": "abs",
    "base64": "to_base64",
    "ceiling": "ceil",
    "datediff": "date_diff",
    "datepart": "date_part",
    "datesub": "date_sub",
    "datetrunc": "date_trunc",
    "dayofmonth": "day",
    "editdist3": "levenshtein",
    "from_hex": "unhex",
    "instr": "strpos",
    "mismatches": "hamming",
    "ord": "unicode",
    "substring": "substr",
    "to_binary": "bin",
    "to_hex": "hex",
    "weekday": "dayofweek",
    "weekofyear": "week",
}
"""Other names of functions, to the one in :data:`FUNCTIONS`."""

CONSTANTS: Final[dict[str, tuple[int, ...]]] = {
    "like": (1, 2),
    "ilike": (1, 2),
    "regexp_matches": (1, 2),
    "regexp_full_match": (1, 2),
    "regexp_replace": (1, 2, 3),
    "regexp_extract": (1, 2, 3),
    "date_part": (0,),
    "date_trunc": (0,),
    "date_diff": (0,),
    "date_sub": (0,),
    "timezone": (0,),
}
"""Arguments that must be the same for every row: patterns, units and zones, to be understood once."""

STRICT: Final = frozenset(name for theme in ("operator", "number", "text") for name in _BY_DUCKDB[theme].split()) - {
    "concat",
    "concat_ws",
}
"""Functions of DuckDB that are NULL where an argument is, and nowhere else."""
