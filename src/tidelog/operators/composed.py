"""Operators behind one another, and several in front of one: a plan, which is itself an operator."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.operators.base import Batches, Needs, Operator, Shape
from tidelog.operators.ordering import Reorder
from tidelog.operators.properties import Properties
from tidelog.operators.state import State, together


class Composed(Operator):
    """An operator whose inputs are the outputs of others, or inputs of the whole.

    The inputs of the whole are those of its sources, one after the other; where a source is None the input of the
    operator itself.
    """

    def __init__(self, operator: Operator, sources: Sequence[Operator | None]) -> None:
        if len(sources) != len(operator.inputs):
            raise SchemaError(f"found {len(sources)} sources for an operator of {len(operator.inputs)} inputs")
        for shape, source in zip(operator.inputs, sources, strict=True):
            if source is not None and source.output != shape:
                raise SchemaError(
                    f"a source gives the columns {source.output.schema}, in time by {source.output.time!r}; expected "
                    f"{shape.schema}, by {shape.time!r}"
                )
        if operator.needs.order:
            sources = [_in_order(source) for source in sources]
        self.gives_order = operator.gives_order
        self.keeps_rows = operator.keeps_rows and all(each is None or each.keeps_rows for each in sources)
        self.mixes = operator.mixes or (
            not (operator.needs.order or operator.gives_order)
            and any(each is not None and each.mixes for each in sources)
        )
        limits = [each.most_rows for each in (operator, *sources) if each is not None]
        self.most_rows = min((each for each in limits if each is not None), default=None)
        self._operator = operator
        self._sources = tuple(sources)
        self._ports: list[tuple[int, int]] = []
        """For each input of the whole the source and its input."""
        inputs: list[Shape] = []
        for place, (shape, source) in enumerate(zip(operator.inputs, self._sources, strict=True)):
            own = [shape] if source is None else source.inputs
            self._ports += [(place, each) for each in range(len(own))]
            inputs += own
        super().__init__(inputs, operator.output, _needs(operator, self._sources))

    def use_threads(self, most: int) -> None:
        """For each of them."""
        for each in (self._operator, *self._sources):
            if each is not None:
                each.use_threads(most)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """What comes out in the end."""
        place, inner = self._ports[port]
        source = self._sources[place]
        return (
            self._operator.push(place, batch) if source is None else self._passed_on(place, source.push(inner, batch))
        )

    def advance(self, watermark: int) -> Batches:
        """What comes out of all of them, those in front first."""
        found: Batches = []
        for place, source in enumerate(self._sources):
            if source is not None:
                found += self._passed_on(place, source.advance(watermark))
        return found + self._operator.advance(self._reached(watermark))

    def _passed_on(self, place: int, batches: Batches) -> Batches:
        return [out for batch in batches for out in self._operator.push(place, batch)]

    def _reached(self, watermark: int) -> int:
        return min(watermark if source is None else source.passed(watermark) for source in self._sources)

    def next_deadline(self) -> int | None:
        """The first of all."""
        found = [each.next_deadline() for each in (self._operator, *self._sources) if each is not None]
        return min((each for each in found if each is not None), default=None)

    def passed(self, watermark: int) -> int:
        """How far the last one is."""
        return self._operator.passed(self._reached(watermark))

    def origin(self, column: str) -> str | None:
        """What is passed on by all of them."""
        if len(self._sources) > 1:
            return None
        between = self._operator.origin(column)
        (source,) = self._sources
        return between if source is None or between is None else source.origin(between)

    def skip(self, horizon: int) -> tuple[int, ...]:
        """The last one says what it does not need, and so on to the first."""
        found: list[int] = []
        for source, own in zip(self._sources, self._operator.skip(horizon), strict=True):
            found += [own] if source is None else source.skip(own)
        return tuple(found)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """What is known behind the last one."""
        found: list[Properties] = []
        at = 0
        for source in self._sources:
            count = 1 if source is None else len(source.inputs)
            own = inputs[at : at + count]
            found.append(own[0] if source is None else source.derive(own))
            at += count
        return self._operator.derive(found)

    def split(self) -> tuple[Operator, Operator] | None:
        """What rows go through first, each by itself, and the rest."""
        if len(self._sources) > 1:
            return None
        (source,) = self._sources
        if source is None:
            return self._operator.split()
        if source.keeps_rows:
            parts = self._operator.split()
            return None if parts is None else (Composed(parts[0], [source]), parts[1])
        parts = source.split()
        return None if parts is None else (parts[0], Composed(self._operator, [parts[1]]))

    def snapshot(self) -> State:
        """The states of all of them."""
        parts = {str(place): source.snapshot() for place, source in enumerate(self._sources) if source is not None}
        return together({"operator": self._operator.snapshot(), **parts})

    def restore(self, state: State) -> None:
        """Go on with all of them."""
        self._operator.restore(state.part("operator"))
        for place, source in enumerate(self._sources):
            if source is not None:
                source.restore(state.part(str(place)))


def _in_order(source: Operator | None) -> Operator | None:
    """A source whose rows may be needed in order."""
    return Composed(Reorder(source.output), [source]) if source is not None and source.mixes else source


def chain(*operators: Operator) -> Operator:
    """Operators of one input each, behind one another; the first may have several."""
    whole, *rest = operators
    for operator in rest:
        whole = Composed(operator, [whole])
    return whole


def _needs(operator: Operator, sources: Sequence[Operator | None]) -> Needs:
    needs = operator.needs
    own = [each.needs for each in sources if each is not None]
    order = needs.order and any(each is None or not (each.needs.order or each.gives_order) for each in sources)
    reach = [(each.behind, each.ahead) for each in (needs, *own)]
    if any(each.last_before for each in (needs, *own)):  # of which the whole knows nothing
        reach.append((None, None))
    behind, ahead = (None if None in side else sum(each or 0 for each in side) for side in zip(*reach, strict=True))
    return Needs(order or any(each.order for each in own), _keys(needs, sources), behind, ahead)


def _keys(needs: Needs, sources: Sequence[Operator | None]) -> tuple[tuple[str, ...], ...] | None:
    """The keys of the whole: those of the one operator that has some, as columns of what comes in."""
    own = [() if each is None else each.needs.keys for each in sources]
    if needs.keys == ():  # whatever stands before it, rows of one key are of one key behind it
        if not any(own):
            return () if None not in own else None
        keys = [key for each in own for key in each or ()]
        return tuple(keys) if all(own) else None
    if needs.keys is None or any(each != () for each in own):
        return None
    found = []
    for source, key in zip(sources, needs.keys, strict=True):
        columns = [name if source is None else source.origin(name) for name in key]
        if None in columns or (source is not None and len(source.inputs) > 1):
            return None
        found.append(tuple(name for name in columns if name is not None))
    return tuple(found)
