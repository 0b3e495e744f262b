"""How do patterns of situations compare with the same as sequences, by our own row patterns?

The first encoding finds each situation as a sequence of rows, and then sequences of situations in the order of their
ends. The second is one sequence of rows, in which conditions hold together or not; it knows nothing of situations, and
so neither tells where they start nor what they aggregate to.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

import tidelog
from formats import ours
from harness import Bench, Comparison, Figures, Question
from questions.situations import queries, rows
from questions.situations.answering import race
from questions.situations.iseq import operator as iseq
from tidelog.operators.situations.syntax import Mode

TWO_STEPS: Final = "sequences of situations"
ONE_STEP: Final = "one sequence of rows"
PATTERNS: Final = {"full": queries.AGGRESSIVE, "simplified": queries.SIMPLIFIED}
_WITHIN: Final = 1_000_000
"""So long that it excludes nothing: the second encoding does not know where a match starts."""
_CARS: Final = 1_000

_SITUATION: Final = """
    SELECT car, {kind} AS kind, s, e FROM rows MATCH_RECOGNIZE (
        PARTITION BY car ORDER BY t MEASURES first(t) AS s, last(t) AS e
        AFTER MATCH SKIP TO LAST N PATTERN (S+ N) DEFINE S AS {condition}, N AS NOT ({condition})
    )"""

_SECOND: Final = """
    SELECT count(*) FROM found MATCH_RECOGNIZE (
        PARTITION BY car ORDER BY e, kind MEASURES A.s AS first ALL MATCHES
        PATTERN (A (B C | C B)) SKIP TILL ANY
        DEFINE A AS kind = 0,
            B AS kind = 1 AND ({before_b}) AND ({before_c_b}),
            C AS kind = 2 AND C.s > A.e AND ({before_b_c})
    )"""

_ROWS: Final = """
    SELECT count(*) FROM rows MATCH_RECOGNIZE (
        PARTITION BY car ORDER BY t MEASURES first(t) AS first ALL MATCHES
        PATTERN (({prefix}) (B* BN)? ({suffix}))
        DEFINE {variables}
    )"""


def title(name: str) -> str:
    """The question about a pattern."""
    return f"against sequences, {name} pattern"


def ask(bench: Bench, events: int, name: str, published: str) -> None:
    """Race the operator against both encodings, and ISEQ."""
    table = rows.cars(events, _CARS)
    batches = queries.batches(table)
    query = partial(queries.drivers, table, pattern=PATTERNS[name], within=_WITHIN)
    texts = dict(zip("abc", (each.condition for each in query(Mode.COMPLETED).definitions), strict=True))
    is_full = name == "full"

    def run() -> int:
        return queries.matches(queries.operator_of(table, query(Mode.COMPLETED)), batches)

    def scan() -> int:
        return queries.matches(iseq.operator_of(table, query(Mode.COMPLETED)), batches)

    def two_steps() -> int:
        parts = [
            tidelog.sql(_SITUATION.format(kind=kind, condition=text), tables={"rows": table}).arrow()
            for kind, text in enumerate(texts.values())
        ]
        return _number(_second(is_full), found=pa.concat_tables(parts))

    def one_step() -> int:
        return _number(_rows(is_full, texts), rows=table)

    work = {ours.NAME: run, iseq.NAME: scan, TWO_STEPS: two_steps, ONE_STEP: one_step}
    comparisons = [Comparison(each, (each,)) for each in (iseq.NAME, TWO_STEPS, ONE_STEP)]
    race(bench, title(name), events, work, comparisons, note=published)


def _number(text: str, **tables: pa.Table) -> int:
    (row,) = tidelog.sql(text, tables=tables).fetchall()
    return int(row[0])


def _second(is_full: bool) -> str:
    """Situations in the order of their ends; of equal ones in that of definitions, so that B comes before C."""
    before_b = "A.e = B.s OR (A.s < B.s AND B.s < A.e)"
    if is_full:  # starts; during
        before_b += " OR A.s = B.s OR B.s < A.s"
    # B may be before C in the order although both end at once.
    behind = "C.s = B.e OR (B.s < C.s AND C.s < B.e AND C.e > B.e)"
    if is_full:
        behind += " OR (B.s < C.s AND C.e = B.e)"
    ahead = "B.s < C.s AND C.e < B.e" if is_full else "FALSE"
    return _SECOND.format(
        before_b=f"B.e > A.e AND ({before_b})",
        before_c_b=f"C.e IS NULL OR ({ahead})",
        before_b_c=f"B.e IS NULL OR ({behind})",
    )


def _rows(is_full: bool, texts: dict[str, str]) -> str:
    """Rows in which conditions hold or not: A ends while B goes on and C has not begun, then C begins and ends.

    What is behind the beginning of A need not be looked at, but for what makes the relation to B.
    """

    def rows_of(**holds: bool) -> str:
        return " AND ".join(f"({texts[each]})" if is_on else f"NOT ({texts[each]})" for each, is_on in holds.items())

    variables = {
        "AN": rows_of(a=True, b=False),  # meets, overlaps
        "AB": rows_of(a=True, b=True),
        "NN": rows_of(a=False, b=False),  # starts
        "NB": rows_of(a=False, b=True),  # during
        "E": rows_of(a=False, b=True, c=False),  # the end of A
        "B": rows_of(b=True),
        "BN": rows_of(b=True, c=False),
        "BC": rows_of(b=True, c=True),
        "NC": rows_of(b=False, c=True),
        "XN": rows_of(c=False),
        "NX": rows_of(b=False, c=False),
    }
    prefix = "AN E | AN AB+ E"
    suffix = "BC+ NC+ XN | NC+ XN"
    if is_full:
        prefix += " | NN AB+ E | NB AB+ E"
        suffix += " | BC+ BN | BC+ NX"
    used = f"{prefix} {suffix} B BN".replace("+", "").split()
    return _ROWS.format(
        prefix=prefix,
        suffix=suffix,
        variables=", ".join(f"{name} AS {text}" for name, text in variables.items() if name in used),
    )


DETECTION: Final = "detection latency of drivers, early against completed"


def ask_detection(bench: Bench, events: int) -> None:
    """By how much sooner matches are known, from their first start on; the same on every machine."""
    table = rows.cars(events, _CARS)
    batches = queries.batches(table)
    latencies = []
    for mode in (Mode.EARLY, Mode.COMPLETED):
        operator = queries.operator_of(table, queries.drivers(table, mode))
        found = pa.Table.from_batches(queries.found(operator, batches), operator.output.schema)
        starts = np.stack([np.asarray(found.column(f"{name}_start")) for name in "ABC"])
        keys = [np.asarray(found.column("car")), *starts]
        waits = np.asarray(found.column("match_time")) - starts.min(axis=0)
        latencies.append(dict(zip(zip(*(each.tolist() for each in keys), strict=True), waits.tolist(), strict=True)))
    early, completed = latencies
    both = np.array([(early[key], completed[key]) for key in completed], float)
    ratios = both[:, 0] / both[:, 1]
    note = f"mean {1 - ratios.mean():.0%} sooner, up to {1 - ratios.min():.0%}; published 13 % and 70 %"
    bench.answer(
        Question(DETECTION, "share of the latency", events, Figures((float(ratios.mean()),)), {}, [], note=note)
    )
