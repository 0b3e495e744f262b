"""The inputs of an operator as DataFrames: what is read of each, and several of them as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.errors import SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Shape
from tidelog.spark.operators.columns import converted, declared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PORT: Final = "port"
TIME: Final = "time"
PLACE: Final = "place"
"""What decides between rows of one time."""
KEY: Final = "key"
BEAT: Final = "beat"


@dataclass(frozen=True)
class Input:
    """One input: a DataFrame, and what an operator takes of it."""

    frame: DataFrame
    shape: Shape
    """Columns by their names in the DataFrame."""
    place: str | None = None
    """A column of whole numbers that decides between rows of one time; ``_seq`` if there is one."""
    beat: str | None = None
    """A column that is true for what is no row, but a sign that time has come so far, or without a time that there will
    be no rows any more. Only streams have such."""
    name: str = "input"


def checked(inputs: Sequence[Input]) -> Sequence[Input]:
    """The inputs. Raises :class:`SchemaError` for those whose times Spark cannot compare."""
    times = {each.frame.schema[each.shape.time].dataType.simpleString() for each in inputs}
    if len(times) > 1:
        raise SchemaError(
            f"the times of inputs have the types {', '.join(sorted(times))}; expected one: cast the others"
        )
    return inputs


def check_names(frame: DataFrame, what: str) -> None:
    """Raise :class:`SchemaError` for a DataFrame with two columns that Spark cannot tell apart."""
    is_exact = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    known: set[str] = set()
    for name in frame.columns:
        own = name if is_exact else name.lower()
        if own in known:
            raise SchemaError(f"{what} has two columns {name!r}; expected names that differ: rename one of them")
        known.add(own)


def tagged(inputs: Sequence[Input], keys: Sequence[Sequence[str]] = ()) -> DataFrame:
    """The rows of all inputs: time, key, place among those of one time, and a struct for each input.

    Rows without a time are left out. ``keys`` are columns of each input; equal ones give equal keys.
    """
    return reduce(lambda one, other: one.union(other), [_tagged(inputs, port, keys) for port in range(len(inputs))])


def _tagged(inputs: Sequence[Input], port: int, keys: Sequence[Sequence[str]]) -> DataFrame:
    from pyspark.sql import functions as f

    own = inputs[port]
    time = column_of(own.shape.time)
    place = own.place or (SEQUENCE_COLUMN if own.shape.has_numbers else None)
    columns: list[Column] = [
        f.lit(port).alias(PORT),
        time.alias(TIME),
        (f.lit(None) if place is None else column_of(place)).cast("bigint").alias(PLACE),
        (hash_of(own.frame.schema, keys[port]) if keys else f.lit(0)).alias(KEY),
    ]
    for at, each in enumerate(inputs):
        if at == port:
            names = each.shape.schema.names
            struct = f.struct(*[column_of(name).alias(f"c{number}") for number, name in enumerate(names)])
        else:
            struct = f.lit(None).cast(_struct(each))
        columns.append(struct.alias(f"r{at}"))
    if own.beat is None:
        return own.frame.where(time.isNotNull()).select(*columns, f.lit(False).alias(BEAT))
    beat = f.coalesce(column_of(own.beat), f.lit(False))
    return own.frame.where(time.isNotNull() | beat).select(*columns, beat.alias(BEAT))


def _struct(own: Input) -> Any:
    from pyspark.sql.types import StructField, StructType

    kinds = [own.frame.schema[name].dataType for name in own.shape.schema.names]
    return StructType([StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])


def hash_of(schema: StructType, names: Sequence[str]) -> Column:
    """A number for the key that some columns are, equal for equal keys."""
    from pyspark.sql import functions as f

    return f.xxhash64(*[_comparable(schema, name) for name in names])


def _comparable(schema: StructType, name: str) -> Column:
    """A column of a key in which equal values have equal hashes: zeros have one sign."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DoubleType, FloatType

    column = column_of(name)
    is_float = isinstance(schema[name].dataType, FloatType | DoubleType)
    return column + f.lit(0.0) if is_float else column


def column_of(name: str) -> Column:
    """The column of a name, whatever signs are in it."""
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def untagged(batch: pa.RecordBatch, shapes: Sequence[Shape]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each input among those of :func:`tagged`, without signs of time."""
    beats = batch.column(BEAT)
    if beats.true_count:
        batch = batch.filter(pc.invert(beats))
    if not batch.num_rows:
        return
    ports = np.asarray(batch.column(PORT))
    for port, shape in enumerate(shapes):
        own = batch.column(f"r{port}")
        if len(shapes) > 1:
            mask = ports == port
            if not mask.any():
                continue
            own = own if mask.all() else own.filter(pa.array(mask))
        yield port, converted(own.flatten(), shape.schema)


def expected(shape: Shape) -> Any:
    """The columns that a DataFrame has for an operator's input."""
    return declared(shape.schema)
