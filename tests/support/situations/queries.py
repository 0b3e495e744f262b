"""Random queries about situations, and rows for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from support.situations.oracle import GROUPS, RELATIONS, Kind, relation, situations
from tidelog.operators.base import Shape
from tidelog.operators.situations.checks import relations_of
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.relations import mask_of
from tidelog.operators.situations.syntax import (
    Aggregate,
    Constraint,
    Definition,
    Mode,
    Returned,
    Situations,
    default_returned,
)

NAMES = "ABCDE"
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), *((name.lower(), pa.bool_()) for name in NAMES)])
SHAPE = Shape(SCHEMA, "t")


def random_rows(
    dice: np.random.Generator, keys: int, rows: int, *, ties: bool = True, ends: bool = True
) -> pa.RecordBatch:
    """Rows of some keys, in the order of time; the last of each key ends everything, unless nothing is to."""
    shape = (keys, rows)
    times = np.cumsum(dice.integers(0 if ties else 1, 3, shape), axis=1)
    conditions = []
    for _ in NAMES:
        flips = dice.random(shape) < 1 / dice.integers(1, 5, (keys, 1))
        conditions.append((np.cumsum(flips, axis=1) + dice.integers(0, 2, (keys, 1))) % 2 == 1)
    if ends:
        times = np.append(times, times[:, -1:] + 1, axis=1)
        conditions = [np.append(each, np.zeros((keys, 1), np.bool_), axis=1) for each in conditions]
    numbers = np.repeat(np.arange(keys), times.shape[1])
    order = np.argsort(times.ravel(), kind="stable")
    is_null = dice.random(times.size) < 0.03
    columns = [pa.array(each[order]) for each in (numbers, times.ravel())]
    for each in conditions:  # what is unknown does not hold
        own = each.ravel()[order]
        columns.append(pa.array(own, mask=is_null & ~own))
    return pa.record_batch(columns, schema=SCHEMA)


def of_key(rows: pa.RecordBatch, key: int) -> tuple[list[int], list[list[bool]]]:
    """The times of a key, and for each definition where its condition holds."""
    own = rows.filter(pa.array(np.asarray(rows.column("k")) == key))
    return own.column("t").to_pylist(), [own.column(name.lower()).to_pylist() for name in NAMES]


def random_query(
    dice: np.random.Generator, rows: pa.RecordBatch, mode: Mode, *, partition: Sequence[str] = ("k",)
) -> tuple[Situations, list[Kind], dict[tuple[int, int], set[str]]]:
    """A query for which rows are likely to have matches; also as the oracle takes it."""
    while True:
        count = int(dice.choice([2, 2, 3, 3, 4, 5]))
        kinds = [_kind(dice) for _ in range(count)]
        times, holds = of_key(rows, int(dice.integers(0, int(np.asarray(rows.column("k")).max()) + 1)))
        streams = [situations(times, own, kind) for own, kind in zip(holds, kinds, strict=False)]
        if not all(streams):
            continue
        example = [own[int(dice.integers(len(own)))] for own in streams]
        pairs = {(int(dice.integers(each)), each) for each in range(1, count)}
        pairs |= {(a, b) for b in range(count) for a in range(b) if dice.random() < 0.2}
        constraints = {}
        for one, other in sorted(pairs):
            allowed = {relation(example[one], example[other])}
            for group in GROUPS:
                if dice.random() < 0.3:
                    allowed |= group
            allowed |= {str(each) for each in dice.choice(list(RELATIONS), int(dice.integers(0, 4)))}
            constraints[one, other] = allowed
        definitions = tuple(
            Definition(NAMES[at], NAMES[at].lower(), kind.least, kind.most) for at, kind in enumerate(kinds)
        )
        own = tuple(Constraint(NAMES[a], mask_of(allowed), NAMES[b]) for (a, b), allowed in constraints.items())
        counts = tuple(
            Returned(f"rows_{each.name}", '"#0"', (Aggregate(each.name, "count(*)"),)) for each in definitions
        )
        query = Situations(
            definitions,
            own,
            int(dice.integers(1, 40)),
            (*default_returned(definitions), *counts),
            tuple(partition),
            mode,
        )
        try:
            relations_of(query)
        except SituationError:
            continue
        return query, kinds, constraints


def _kind(dice: np.random.Generator) -> Kind:
    least = int(dice.integers(1, 4)) if dice.random() < 0.3 else 0
    most = least + int(dice.integers(1, 6)) if dice.random() < 0.25 else None
    return Kind(least, most)
