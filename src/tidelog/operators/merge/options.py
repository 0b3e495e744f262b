"""How a merge is asked for, by words and plain values: the same in every runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidelog.model.arguments import found, one_of, text
from tidelog.model.errors import InputError
from tidelog.operators.merge.choice import choose
from tidelog.operators.merge.operator import MergeOperator, Output
from tidelog.operators.merge.policies import policy_of
from tidelog.operators.merge.ports import Input
from tidelog.operators.properties import Properties

AUTO: Final = "auto"


@dataclass(frozen=True)
class MergeOptions:
    """What is asked of a merge, as plain values."""

    algorithm: str = AUTO
    """``"auto"``: by whether there are revisions, and a key."""
    key: tuple[str, ...] | None = None
    """Columns that tell events of one start apart; empty for all. None: equal events are counted, unless the algorithm
    is one with a key, which is all columns then."""
    policy: str = "lazy"
    """Its name; behind ``fraction`` and ``lagging`` stands how much, as in ``"fraction 0.5"`` and ``"lagging 10s"``."""
    output: Output | None = None
    """``"events"`` or ``"elements"``; by default events where none is ever taken back."""

    @classmethod
    def of(cls, algorithm: Any = AUTO, key: Any = None, policy: Any = "lazy", output: Any = None) -> MergeOptions:
        """Checked for what they are, but not for whether they go together."""
        for name, value in (("algorithm", algorithm), ("policy", policy)):
            text(name, value, "a text, its name")
        if output is not None:
            one_of("output", output, ("events", "elements"))
        if isinstance(key, str):
            key = [key]
        elif isinstance(key, bool):
            key = [] if key else None
        if key is not None and not (isinstance(key, Sequence) and all(isinstance(each, str) for each in key)):
            raise found("key", key, "names of columns, or True for all of them")
        return cls(algorithm, None if key is None else tuple(key), policy, output)

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> MergeOptions:
        """What :meth:`to_json` gave."""
        return cls.of(**values)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {**values, "key": None if self.key is None else list(self.key)}

    def make(self, inputs: Sequence[Input]) -> MergeOperator:
        """The operator for some inputs."""
        if not inputs:
            raise InputError("found no inputs to merge; expected at least one, others may be attached later")
        policy = policy_of(self.policy, inputs[0].shape.clock)
        algorithm = self.algorithm
        if algorithm == AUTO:
            is_revised = any(each.is_elements for each in inputs)
            algorithm = choose(Properties(inserts_only=not is_revised, key=self.key), policy).algorithm
        return MergeOperator(inputs, algorithm, key=self.key or None, policy=policy, output=self.output)
