"""Operators behind one another, and several in front of one: a plan, which is itself an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import TypeVar

import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Batches, LookBack, Needs, Operator, Shape
from tidelog.operators.ordering import Reorder
from tidelog.operators.properties import Properties
from tidelog.operators.state import State, together

_T = TypeVar("_T")


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
        self.leaves_behind = any(each is not None and each.leaves_behind for each in (operator, *sources))
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
        backs = operator.looks_back
        behind = [_before(own, source) for own, source in zip(backs, self._sources, strict=True)]
        self._is_told = tuple(own is None or each is not None for own, each in zip(backs, behind, strict=True))
        """Whether what the operator needs of old rows can be told of the rows that its sources get."""
        self.looks_back = tuple(
            back
            for source, found in zip(self._sources, behind, strict=True)
            for back in ((found,) if source is None or found is not None else source.looks_back)
        )

    @property
    def waits(self) -> bool:
        """Whether rows wait anywhere."""
        return any(each is not None and each.waits for each in (self._operator, *self._sources))

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

    def stages(self, watermark: int) -> Iterable[int]:
        """Those of all of them."""
        sources = [each.stages(watermark) for each in self._sources if each is not None]
        return merge(self._operator.stages(self._reached(watermark)), *sources)

    def next_deadline(self) -> int | None:
        """The first of all."""
        found = [each.next_deadline() for each in (self._operator, *self._sources) if each is not None]
        return min((each for each in found if each is not None), default=None)

    def progress(self, marks: Sequence[int | None]) -> int | None:
        """How far the last one is, by how far those in front are."""
        parts = self._parts(marks)
        return self._operator.progress([own[0] if each is None else each.progress(own) for each, own in parts])

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
        """The last one says what it does not need, and so on to the first.

        Where the last rows of a key that one needs are not those of its source's input, they are chosen there alone.
        """
        found: list[int] = []
        for source, own, is_told in zip(self._sources, self._operator.skip(horizon), self._is_told, strict=True):
            wanted = own if is_told else INT64_MIN
            found += [wanted] if source is None else source.skip(wanted)
        return tuple(found)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """What is known behind the last one."""
        parts = self._parts(inputs)
        return self._operator.derive([own[0] if each is None else each.derive(own) for each, own in parts])

    def _parts(self, given: Sequence[_T]) -> Iterator[tuple[Operator | None, Sequence[_T]]]:
        """Each source with what is given for the inputs that are its own."""
        at = 0
        for source in self._sources:
            count = 1 if source is None else len(source.inputs)
            yield source, given[at : at + count]
            at += count

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

    def keyed(self) -> tuple[Operator, Operator] | None:
        """The sources of an operator with keys, if these look at rows alone, and all from it on."""
        if len(self._sources) > 1:
            return None
        (source,) = self._sources
        if source is None:
            return self._operator.keyed()
        needs = source.needs
        if self._operator.needs.keys and needs.keys == () and not needs.order and len(source.inputs) == 1:
            return source, self._operator
        parts = source.keyed()
        return None if parts is None else (parts[0], Composed(self._operator, [parts[1]]))

    @property
    def steps(self) -> list[Operator] | None:
        """The operators behind one another; None if one of them has several inputs."""
        if len(self._sources) > 1:
            return None
        (source,) = self._sources
        before, own = [] if source is None else steps(source), steps(self._operator)
        return None if before is None or own is None else [*before, *own]

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


def steps(operator: Operator) -> list[Operator] | None:
    """The operators, behind one another, that one is made of; None if one of them has several inputs."""
    return operator.steps if isinstance(operator, Composed) else [operator] if len(operator.inputs) == 1 else None


def _before(needed: LookBack | None, source: Operator | None) -> LookBack | None:
    """The rows of a source's only input that become those that are needed behind it; None if that cannot be told."""
    if needed is None or source is None:
        return needed
    keys = [source.origin(name) for name in needed.keys]
    if not source.keeps_rows or len(source.inputs) > 1 or None in keys or any(source.looks_back):
        return None
    return LookBack(needed.rows, tuple(name for name in keys if name is not None))


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
