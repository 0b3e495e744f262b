"""Steps that merge copies of one stream, such as what two receivers have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from tidelog.model.errors import InputError, TimeError, did_you_mean
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.durations import read_duration
from tidelog.spark.pipeline.description.relations import Columns, Relation, family, folded, type_text, unlike
from tidelog.spark.pipeline.description.steps import Fault, Reference, Step, StepError, register_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERYTHING: Final = "*"


@register_step("merge")
@dataclass(frozen=True, kw_only=True)
class Merge(Step):
    """One stream of sources or steps that are copies of it, by a logical merge: docs/merging.md.

    Rows may be as late as the watermarks of the sources say, or ``delay``; later ones are dropped, and counted.
    """

    has_own_time: ClassVar[bool] = True

    inputs: tuple[str, ...]
    key: tuple[str, ...] = ()
    """Columns that tell events of one time apart; ``"*"`` for all. Without, equal events are counted."""
    time: str = ""
    delay: str = ""
    order: str = SEQUENCE_COLUMN
    algorithm: str = "auto"
    policy: str = "lazy"
    tasks: int = 0
    """Shares of the payloads that are merged by themselves; 0 for the usual number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "key", tuple(self.key))

    def references(self) -> Sequence[Reference]:
        """The copies."""
        if not self.inputs:
            raise StepError(Fault("inputs", "found no inputs; name the sources that are copies of one stream"))
        twice = [name for at, name in enumerate(self.inputs) if name.lower() in map(str.lower, self.inputs[:at])]
        if twice:
            raise StepError(Fault("inputs", f"found {twice[0]!r} twice; name each source once"))
        return [Reference(name, "inputs") for name in self.inputs]

    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """Those of all inputs."""
        faults = self._words()
        if len({each.is_streaming for each in inputs.values()}) > 1:
            faults.append(Fault("inputs", "some inputs keep arriving, and others do not; expected either"))
        first = inputs[self.inputs[0]].columns
        if first is not None:
            for name in self.inputs[1:]:
                faults += self._unlike(name, first, inputs[name].columns)
            names = folded(first)
            wanted = [("key", each) for each in self.key if each != EVERYTHING]
            wanted += [("time", self.time)] if self.time else []
            for field, column in wanted:
                if column.lower() not in names:
                    faults.append(Fault(field, f"there is no column {column!r}; {did_you_mean(column, first)}"))
        if faults:
            raise StepError(*faults)
        if first is None or {"kind", "valid_from"} <= set(first):
            return None
        return {name: type_ for name, type_ in first.items() if name != self.order}

    def _words(self) -> list[Fault]:
        from tidelog.operators.merge.algorithms import ALGORITHMS
        from tidelog.operators.merge.options import AUTO
        from tidelog.operators.merge.policies import POLICIES

        faults = []
        try:
            if self.delay and not self.delay.isdigit():  # else ticks of a clock of integers
                read_duration(self.delay)
        except TimeError as error:
            faults.append(Fault("delay", str(error)))
        if self.algorithm != AUTO and self.algorithm not in ALGORITHMS:
            told = did_you_mean(self.algorithm, [AUTO, *ALGORITHMS])
            faults.append(Fault("algorithm", f"there is no algorithm {self.algorithm!r}; {told}"))
        policy = self.policy.partition(" ")[0]
        if policy not in POLICIES:
            faults.append(Fault("policy", f"there is no policy {policy!r}; {did_you_mean(policy, POLICIES)}"))
        if self.tasks < 0:
            faults.append(Fault("tasks", f"found {self.tasks}; expected at least 1, or 0 for the usual number"))
        if EVERYTHING in self.key and len(self.key) > 1:
            faults.append(Fault("key", "found '*' beside names; expected '*' alone, or names of columns"))
        return faults

    def _unlike(self, name: str, first: Columns, own: Columns | None) -> list[Fault]:
        """Columns of an input that those of the first one are not."""
        if own is None:
            return []
        others = {each.lower(): type_ for each, type_ in own.items()}
        faults = [
            Fault("inputs", f"{name!r} has no column {each!r}, which {self.inputs[0]!r} has")
            for each in first
            if each.lower() not in others and each != self.order
        ]
        known = folded(first)
        faults += [
            Fault(
                "inputs", f"{name!r} has a column {each!r}, which {self.inputs[0]!r} does not have; leave it out before"
            )
            for each in own
            if each.lower() not in known and each != self.order
        ]
        return faults + [
            Fault(
                "inputs",
                f"column {each!r} of {name!r} is {type_text(others[each.lower()])}; expected {type_text(type_)}, as of "
                f"{self.inputs[0]!r}",
            )
            for each, type_ in first.items()
            if each.lower() in others and unlike(family(type_), family(others[each.lower()]))
        ]

    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The merge in Spark."""
        from tidelog.spark.operators.merging import logical_merge

        delay: str | int | None = self.delay or None
        if isinstance(delay, str) and delay.isdigit():
            delay = int(delay)
        if any(name not in inputs for name in self.inputs):
            raise InputError(f"found the inputs {', '.join(inputs)}; expected {', '.join(self.inputs)}")
        names = {each.lower(): each for each in inputs[self.inputs[0]].columns}
        key = None if not self.key else [] if self.key == (EVERYTHING,) else [_own(names, each) for each in self.key]
        return logical_merge(
            [_renamed(inputs[name], names) for name in self.inputs],
            names=[name.lower() for name in self.inputs],
            time=_own(names, self.time) or None,
            key=key,
            delay=delay,
            order=_own(names, self.order),
            algorithm=self.algorithm,
            policy=self.policy,
            tasks=self.tasks or None,
            metrics=f"tidelog.{self.name}",
        )

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """How events are told apart."""
        if not any(each.is_streaming for each in inputs.values()):
            return None
        shares = f", in {self.tasks} shares" if self.tasks else ""
        return f"merge by {', '.join(self.key)} with {self.algorithm}, {self.policy}{shares}"


def _own(names: Mapping[str, str], name: str) -> str:
    """A column as the first input writes it: to Spark case does not matter."""
    return names.get(name.lower(), name)


def _renamed(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Columns as the first input writes them."""
    changes = {each: _own(names, each) for each in frame.columns if _own(names, each) != each}
    return frame.withColumnsRenamed(changes) if changes else frame
