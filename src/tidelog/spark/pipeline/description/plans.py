"""A pipeline that makes sense, and what is known of it before Spark runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.spark.pipeline.description.objects import Pipeline, Sink
from tidelog.spark.pipeline.description.relations import Relation


@dataclass(frozen=True)
class SinkPlan:
    """What writes one sink."""

    sink: Sink
    relation: Relation
    inputs: tuple[str, ...]
    """The sources it reads, in the order in which its steps name them."""
    steps: tuple[str, ...]
    """The steps it takes, in order."""
    states: tuple[str, ...]
    """What the state of these depends on."""


@dataclass(frozen=True)
class Plan:
    """A pipeline that makes sense, and what is known of it."""

    pipeline: Pipeline
    relations: Mapping[str, Relation]
    """Sources and steps by their names."""
    sinks: tuple[SinkPlan, ...]
    notes: tuple[str, ...]
    """What is odd, and no mistake."""
    warnings: tuple[str, ...] = ()
    """What is no mistake, and will cost if it was not meant."""
