"""Steps between sources and sinks, and the registry of their kinds.

A kind of step is a frozen dataclass below :class:`Step`, registered under the name that files call it by. Its fields
are its keys in the file; what it reads, what it makes and whether it keeps state it says itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tidelog.model.errors import ExistsError, InputError, did_you_mean
from tidelog.spark.pipeline.description.relations import Columns, Relation, folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Fault:
    """What is wrong with a step: in which of its fields and, for texts, at which character of it."""

    field: str
    message: str
    offset: int | None = None


class StepError(InputError):
    """A step makes no sense; ``faults`` says where."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


@dataclass(frozen=True)
class Reference:
    """A source or an earlier step that a step reads, and where it says so."""

    name: str
    field: str
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Step(ABC):
    """One step. Subclasses are frozen dataclasses whose fields are texts, numbers, flags, or tuples of texts."""

    kind: ClassVar[str] = ""
    """The name that :func:`register_step` has given."""
    has_own_time: ClassVar[bool] = False
    """Whether it knows by itself when a result is final, whatever watermarks there are."""
    name: str
    """What later steps and sinks call it."""

    @abstractmethod
    def references(self) -> Sequence[Reference]:
        """What it reads, in the order in which Spark will find it. Raises :class:`StepError`."""

    @abstractmethod
    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """The columns it makes of its inputs, None if only Spark can tell. Raises :class:`StepError`."""

    @abstractmethod
    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The step in Spark. Inputs are there as temporary views of their names, too."""

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """What its state in a checkpoint depends on, as text; None if it keeps none. Such a step cannot change."""
        return None

    def unsupported(self, inputs: Mapping[str, Relation], mode: str) -> Sequence[Fault]:
        """What a streaming query that takes this step cannot do in an output mode, as far as that is known."""
        return ()


_S = TypeVar("_S", bound=type[Step])
_kinds: dict[str, type[Step]] = {}


def register_step(kind: str) -> Callable[[_S], _S]:
    """A decorator that makes a kind of step known: files say ``kind = "..."``.

    Raises :class:`ExistsError` for a kind that another class has.
    """

    def register(cls: _S) -> _S:
        other = _kinds.get(kind)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ExistsError(f"there is a kind of step {kind!r} already, {other.__module__}.{other.__qualname__}")
        cls.kind = kind
        _kinds[kind] = cls
        return cls

    return register


def step_kinds() -> Mapping[str, type[Step]]:
    """All kinds of steps by their names."""
    return dict(_kinds)


@register_step("deduplicate")
@dataclass(frozen=True, kw_only=True)
class Deduplicate(Step):
    """Of rows with equal keys the first one stays.

    Streaming rows need a watermark: equal keys are noticed as long as their times are within its delay of each other,
    and rows that come later than the watermark are dropped, and counted.
    """

    input: str
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))

    def references(self) -> Sequence[Reference]:
        """Its input."""
        return [Reference(self.input, "input")]

    def columns(self, inputs: Mapping[str, Relation]) -> Columns | None:
        """Those of the input."""
        given = inputs[self.input]
        faults = []
        if not self.keys:
            faults.append(Fault("keys", "found no keys; name the columns that tell events apart, such as ['id']"))
        if given.is_streaming and given.delay is None:
            faults.append(
                Fault(
                    "input",
                    f"{self.input!r} has no watermark, so that every key would have to be remembered for ever; give "
                    "its source one, such as watermark = { column = 'ts', delay = '10m' }",
                )
            )
        if given.columns is not None:
            known = folded(given.columns)
            faults += [
                Fault("keys", f"{self.input!r} has no column {key!r}; {did_you_mean(key, given.columns)}")
                for key in self.keys
                if key.lower() not in known
            ]
        if faults:
            raise StepError(*faults)
        return given.columns

    def build(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The step in Spark."""
        frame = inputs[self.input]
        keys = list(self.keys)
        return frame.dropDuplicatesWithinWatermark(keys) if frame.isStreaming else frame.dropDuplicates(keys)

    def state(self, inputs: Mapping[str, Relation]) -> str | None:
        """The keys; a query remembers the values that it has seen."""
        return f"deduplicate by {', '.join(self.keys)}" if inputs[self.input].is_streaming else None
