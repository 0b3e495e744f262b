"""How long do the numbers of payloads take, which is apart from merging?"""

from __future__ import annotations

import pyarrow as pa

from formats.ours import NAME as OURS
from harness import Bench, Case, Figures, Question
from questions.merge.copies import PAYLOAD_BYTES, payloads
from tidelog.operators.merge.payloads.hashing import hash_rows

TITLE = "payloads hashed"


def ask(bench: Bench, events: int) -> None:
    """Hash random payloads."""
    fixed = pa.Array.from_buffers(pa.binary(PAYLOAD_BYTES), events, [None, pa.py_buffer(payloads(events))])
    column = fixed.cast(pa.binary())
    outcomes = bench.race(TITLE, [Case(OURS, lambda _: hash_rows([column], events))])
    figures = Figures.of(outcomes[OURS], lambda sample: events / sample.wall / 1e6)
    bench.answer(
        Question(TITLE, "million payloads/s", events, figures, {}, [], note="1,000 bytes each, 128 bits of hash")
    )
