"""How fast does a stream become durable with its index, and how many bytes does it take?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from formats.event_store import BareContainer
from harness import Bench, Bound, Comparison, Figures, Outcome, Question
from questions.contest import Contest, split


@dataclass(frozen=True)
class IngestBounds:
    """Floors and targets of one stream; None: for information only."""

    against_fastest: Bound
    against_container: Bound | None = None


def ask(bench: Bench, contest: Contest, bounds: IngestBounds) -> None:
    """Race all formats writing a stream and answer for speed and for size."""
    outcomes = contest.write(bench)
    rows = {format.name: format.share(contest.table).num_rows for format in contest.formats}
    row_bytes = contest.table.nbytes / contest.events

    def speeds(name: str, outcome: Outcome) -> Figures:
        return Figures.of(outcome, lambda sample: rows[name] * row_bytes / sample.wall / 1e9)

    def sizes(name: str, outcome: Outcome) -> Figures:
        return Figures(tuple(size / rows[name] for size in outcome.sizes))

    fewer = [f"{name} wrote {count:,}" for name, count in rows.items() if count < contest.events]
    _answer(bench, contest, outcomes, "ingest", "GB/s of Arrow bytes, durable", speeds, bounds, "; ".join(fewer))
    note = f"{row_bytes:.1f} B a row in Arrow"
    _answer(bench, contest, outcomes, "size", "bytes a row on disk", sizes, None, note)


def _answer(
    bench: Bench,
    contest: Contest,
    outcomes: dict[str, Outcome],
    kind: str,
    unit: str,
    figures: Callable[[str, Outcome], Figures],
    bounds: IngestBounds | None,
    note: str,
) -> None:
    ours, peers = split({name: figures(name, outcome) for name, outcome in outcomes.items()})
    container = BareContainer.name
    others = tuple(name for name in peers if name != container)
    speed = kind == "ingest"
    bench.answer(
        Question(
            f"{kind} {contest.stream}",
            unit,
            contest.events,
            ours,
            peers,
            [
                Comparison(container, (container,), bounds and bounds.against_container),
                Comparison("fastest" if speed else "smallest", others, bounds and bounds.against_fastest),
            ],
            higher_is_better=speed,
            note=note,
        )
    )
