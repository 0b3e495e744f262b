"""What every benchmark shares: how work is measured, raced, judged and reported (see ``benchmarks/README.md``)."""

from __future__ import annotations

from harness.bench import Bench, main
from harness.judging import Bound, Comparison, Judgement, Verdict, judge
from harness.measuring import Sample, measure, peak_private_memory
from harness.question import Figures, Question
from harness.racing import Case, Outcome, race
from harness.workspace import Workspace, bytes_on_disk, sync_tree

__all__ = [
    "Bench",
    "Bound",
    "Case",
    "Comparison",
    "Figures",
    "Judgement",
    "Outcome",
    "Question",
    "Sample",
    "Verdict",
    "Workspace",
    "bytes_on_disk",
    "judge",
    "main",
    "measure",
    "peak_private_memory",
    "race",
    "sync_tree",
]
