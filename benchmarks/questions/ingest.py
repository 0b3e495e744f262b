"""How fast is a stream made durable, and how many bytes does it take?"""

from __future__ import annotations

from dataclasses import dataclass

from harness import Bench, Bound, Comparison, Figures, Question
from questions.contest import Contest, split

RAW = "raw"
BLOCKS = "LZ4 blocks"


@dataclass(frozen=True)
class IngestBounds:
    """Floors and targets of one stream; None: for information only."""

    against_raw: Bound
    against_fastest: Bound
    size: Bound


def ask(bench: Bench, contest: Contest, bounds: IngestBounds | None) -> None:
    """Race all formats writing a stream and answer for speed and for size."""
    outcomes = contest.write(bench)
    gigabytes = contest.table.nbytes / 1e9
    ours, peers = split(
        {name: Figures.of(outcome, lambda sample: gigabytes / sample.wall) for name, outcome in outcomes.items()}
    )
    stores = tuple(name for name in peers if name not in (RAW, BLOCKS))
    bench.answer(
        Question(
            f"ingest {contest.stream}",
            "GB/s of Arrow bytes, durable",
            contest.events,
            ours,
            peers,
            [
                Comparison(RAW, (RAW,), bounds and bounds.against_raw),
                Comparison("fastest store", stores, bounds and bounds.against_fastest),
                Comparison(BLOCKS, (BLOCKS,)),
            ],
        )
    )
    ours, peers = split(
        {
            name: Figures(tuple(size / contest.events for size in outcome.sizes))
            for name, outcome in outcomes.items()
            if name != RAW
        }
    )
    bench.answer(
        Question(
            f"size {contest.stream}",
            "bytes a row on disk",
            contest.events,
            ours,
            peers,
            [Comparison("smallest", tuple(peers), bounds and bounds.size)],
            higher_is_better=False,
            note=f"{contest.table.nbytes / contest.events:.1f} B a row in Arrow",
        )
    )
