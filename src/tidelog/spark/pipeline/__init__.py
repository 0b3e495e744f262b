"""Pipelines: events from sources through steps into sinks, as a file or as Python objects, run by Spark.

A thin layer over Structured Streaming: each sink is a query of Spark with a checkpoint of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.spark.pipeline.checks.checking import check
from tidelog.spark.pipeline.checks.decoding import load
from tidelog.spark.pipeline.description.merging import Merge
from tidelog.spark.pipeline.description.objects import Pipeline, Sink, Source, Watermark
from tidelog.spark.pipeline.description.plans import Plan, SinkPlan
from tidelog.spark.pipeline.description.relations import Relation
from tidelog.spark.pipeline.description.steps import (
    Deduplicate,
    Fault,
    Reference,
    Step,
    StepError,
    register_step,
    step_kinds,
)
from tidelog.spark.pipeline.file.problems import PipelineError, Problem
from tidelog.spark.pipeline.sql.analysis import Sql
from tidelog.spark.pipeline.sql.continuous import Continuous

if TYPE_CHECKING:
    from tidelog.spark.pipeline.running.progress import Progress
    from tidelog.spark.pipeline.running.runner import Outcome, PipelineFailedError, run

__all__ = [
    "Continuous",
    "Deduplicate",
    "Fault",
    "Merge",
    "Outcome",
    "Pipeline",
    "PipelineError",
    "PipelineFailedError",
    "Plan",
    "Problem",
    "Progress",
    "Reference",
    "Relation",
    "Sink",
    "SinkPlan",
    "Source",
    "Sql",
    "Step",
    "StepError",
    "Watermark",
    "check",
    "load",
    "register_step",
    "run",
    "step_kinds",
]


def __getattr__(name: str) -> Any:
    """Imports what runs a pipeline when it is asked for: that brings the engine, and with it Numba, along."""
    if name == "Progress":
        from tidelog.spark.pipeline.running.progress import Progress

        return Progress
    if name in ("Outcome", "PipelineFailedError", "run"):
        from tidelog.spark.pipeline.running import runner

        return getattr(runner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
