"""Continuous queries over streaming DataFrames: the operator of a text, run by Spark."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.arguments import integer, one_of
from tidelog.model.errors import InputError, did_you_mean
from tidelog.operators.base import Operator, Shape
from tidelog.spark.operators.columns import shape_of
from tidelog.spark.operators.inputs import Input, check_names
from tidelog.spark.operators.running import LATE_RULES, Late, lateness_of, run
from tidelog.spark.operators.streaming import LATE, METRICS
from tidelog.sql.continuous import Continuous, read_continuous
from tidelog.sql.database import shared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_read: OrderedDict[str, Continuous] = OrderedDict()
"""Queries by their tokens, so that a process reads each once."""
_MOST_READ: Final = 64


@dataclass(frozen=True)
class ContinuousText:
    """A continuous query as its text, which gives the operator of it wherever it is called. Pickled."""

    text: str
    params: Any
    timezone: str
    shapes: Mapping[str, Shape]
    tables: Mapping[str, Any]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def read(self) -> Continuous:
        """The query. Raises :class:`SqlError` for what is none."""
        if self.token not in _read:
            database, names = shared(self.timezone), list(self.shapes)
            _read[self.token] = read_continuous(
                self.text, self.params, database, names, self.shapes.__getitem__, self.tables
            )
            while len(_read) > _MOST_READ:
                _read.popitem(last=False)
        return _read[self.token]

    def __call__(self) -> Operator:
        """A new operator."""
        return self.read().make()


def continuous(
    text: str,
    params: Any,
    timezone: str,
    frames: Mapping[str, DataFrame],
    tables: Mapping[str, Any] | None = None,
    *,
    lateness: Any = None,
    late: Late = "drop",
    tasks: int | None = None,
    imports: Sequence[str] = (),
    metrics: str = METRICS,
) -> DataFrame:
    """What a continuous query gives for streaming DataFrames. Raises :class:`SqlError` for what is none.

    ``tables`` are looked up; those that are DataFrames are collected here, if the text names them.
    """
    one_of("late", late, LATE_RULES)
    known = {
        name: each.toArrow() if hasattr(each, "toArrow") else each
        for name, each in (tables or {}).items()
        if name.lower() in text.lower()
    }
    asked = ContinuousText(text, params, timezone, {name: _shape(name, each) for name, each in frames.items()}, known)
    query = asked.read()
    shapes = query.make().inputs
    inputs = [
        Input(frames[name], shape, name=own)
        for name, own, shape in zip(query.streams, _apart(query.streams), shapes, strict=True)
    ]
    allowed = _by_name(lateness, frames)
    out = run(
        inputs,
        asked,
        lateness=[lateness_of(allowed[name], each) for name, each in zip(query.streams, inputs, strict=True)],
        late=late,
        tasks=None if tasks is None else integer("tasks", tasks, 1),
        imports=imports,
        metrics=metrics,
        query=f"{query.meaning} in {timezone}",
    )
    return out.select(*(_quoted(name) for name in [*query.columns, *([LATE] if LATE in out.columns else [])]))


def _shape(name: str, frame: DataFrame) -> Shape:
    check_names(frame, f"table {name!r}")
    return shape_of(frame.schema, None, f"table {name!r}")


def _by_name(lateness: Any, frames: Mapping[str, DataFrame]) -> dict[str, Any]:
    if not isinstance(lateness, Mapping):
        return dict.fromkeys(frames, lateness)
    for name in lateness:
        if name not in frames:
            raise InputError(f"found the lateness of {name!r}, which is no table; {did_you_mean(name, list(frames))}")
    return {name: lateness.get(name) for name in frames}


def _apart(names: Sequence[str]) -> list[str]:
    """Names of inputs: one that is read twice gets a number."""
    return [name if names.count(name) == 1 else f"{name}_{names[:at].count(name)}" for at, name in enumerate(names)]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
