"""A question a benchmark asks, with everybody's figures and the judgements on them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging import Comparison, Judgement, judge
from harness.measuring import Sample
from harness.racing import Outcome


@dataclass(frozen=True)
class Figures:
    """One contestant's answers, one for each repetition."""

    values: tuple[float, ...]
    samples: tuple[Sample, ...] = ()
    """The runs behind the values, if they were timed."""
    peak_memory: int | None = None

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)

    @property
    def disturbed(self) -> int:
        """In how many repetitions other processes disturbed the run."""
        return sum(sample.disturbed for sample in self.samples)

    @classmethod
    def of(cls, outcome: Outcome, value: Callable[[Sample], float]) -> Figures:
        """The figures of a race's outcome; ``value`` makes one from a sample, e.g. a rate."""
        samples = tuple(outcome.samples)
        return cls(tuple(value(sample) for sample in samples), samples, outcome.peak_memory)


@dataclass
class Question:
    """One row group of the table."""

    name: str
    unit: str
    events: int
    """The size of the run, against which a bound's ``judged_at`` is held."""
    ours: Figures | None
    peers: dict[str, Figures]
    comparisons: Sequence[Comparison]
    higher_is_better: bool = True
    missing: dict[str, str] = field(default_factory=dict)
    """Contestants that could not take part, and why."""
    note: str = ""

    def judgements(self) -> list[Judgement]:
        """A judgement for each comparison."""
        values = {name: figures.values for name, figures in self.peers.items()}
        return [
            judge(
                comparison,
                self.ours.values if self.ours else None,
                values,
                self.events,
                higher_is_better=self.higher_is_better,
            )
            for comparison in self.comparisons
        ]

    def as_json(self) -> dict[str, Any]:
        """Everything about the question in plain types."""
        return {
            "question": self.name,
            "unit": self.unit,
            "events": self.events,
            "higher_is_better": self.higher_is_better,
            "note": self.note,
            "ours": _figures_json(self.ours) if self.ours else None,
            "peers": {name: _figures_json(figures) for name, figures in self.peers.items()},
            "missing": self.missing,
            "judgements": [_judgement_json(judgement) for judgement in self.judgements()],
        }


def _figures_json(figures: Figures) -> dict[str, Any]:
    return {
        "median": figures.median,
        "values": list(figures.values),
        "wall_seconds": [sample.wall for sample in figures.samples],
        "cpu_seconds": [sample.cpu for sample in figures.samples],
        "disturbed": [sample.disturbed for sample in figures.samples],
        "peak_private_bytes": figures.peak_memory,
    }


def _judgement_json(judgement: Judgement) -> dict[str, Any]:
    bound = judgement.comparison.bound
    return {
        "against": judgement.comparison.label,
        "peer": judgement.peer,
        "ratios": list(judgement.ratios),
        "median": judgement.median if judgement.ratios else None,
        "quartiles": list(judgement.quartiles) if judgement.ratios else None,
        "floor": bound.floor if bound else None,
        "target": bound.target if bound else None,
        "judged_at": bound.judged_at if bound else None,
        "verdict": judgement.verdict.value,
    }
