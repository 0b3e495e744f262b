"""How a stream's schema may change, and how events written before the change are read after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from tidelog.model.arguments import instance
from tidelog.model.arguments import names as listed_names
from tidelog.model.errors import InputError, SchemaError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.model.types import type_name

Renames: TypeAlias = tuple[tuple[str, str], ...]
"""Old and new names of columns, all renamed at the same moment."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a permitted change of schema does, by column names in the order of the new schema."""

    added: tuple[str, ...]
    widened: tuple[str, ...]
    loosened: tuple[str, ...]
    """Columns that were not nullable and now are."""
    reordered: bool
    """Whether columns of the old schema stand in another order."""

    @property
    def is_identity(self) -> bool:
        """Whether nothing changed."""
        return not (self.added or self.widened or self.loosened or self.reordered)


def check_evolution(old: Schema, new: Schema) -> Evolution:
    """What changes from ``old`` to ``new``, if every event that fits the old schema can be read through the new.

    Permitted are new nullable columns, wider types (see :func:`is_widening`), dropping a not-null constraint,
    and another order of columns. The time column stays as it is, because bounds, durations and stored
    indexes are in its unit. Raises :class:`SchemaError` naming the first column at fault otherwise.
    """
    for each in (old, new):
        instance("a schema", each, Schema, "a tidelog.Schema")
    if new.time != old.time:
        raise SchemaError(
            f"the time column changes from {old.time!r} to {new.time!r}; it cannot: create another stream"
        )
    for name in old.names:
        if name not in new:
            raise SchemaError(
                f"column {name!r} is missing from the new schema; columns cannot be removed: keep it, and append "
                "nulls if it is nullable. To give it another name, say which (rename)"
            )
    added, widened, loosened = [], [], []
    for field in new:
        if field.name not in old:
            _check_added(field)
            added.append(field.name)
            continue
        before = old.field(field.name)
        _check_type(before, field, is_time=field.name == new.time)
        _check_nullability(before, field)
        if field.type != before.type:
            widened.append(field.name)
        if field.nullable and not before.nullable:
            loosened.append(field.name)
    return Evolution(
        added=tuple(added),
        widened=tuple(widened),
        loosened=tuple(loosened),
        reordered=tuple(name for name in new.names if name in old) != old.names,
    )


def evolved(
    schema: Schema,
    *,
    add: pa.Schema | Mapping[str, pa.DataType] | Sequence[Any] = (),
    widen: Mapping[str, pa.DataType | str] | None = None,
    rename: Mapping[str, str] | None = None,
    loosen: Iterable[str] = (),
) -> tuple[Schema, Renames]:
    """The schema after some changes, and the columns that are renamed, as (old name, new name).

    ``add`` are new nullable columns, whatever ``pyarrow.schema`` takes, behind all others; ``widen`` says new types,
    ``rename`` new names (also in a circle), ``loosen`` which columns may have nulls from now on. Names are those of
    ``schema``. Raises :class:`SchemaError` for what events written before cannot be read through.
    """
    wider, moved, loose = _wider_types(widen), _new_names(rename), _names("loosen", loosen)
    for what, names in (("widen", wider), ("rename", moved), ("loosen", loose)):
        for name in names:
            if name not in schema:
                raise SchemaError(f"{what}: there is no column {name!r}; {did_you_mean(str(name), schema.names)}")
    if schema.time in loose:
        raise SchemaError(f"loosen: every event has a time; column {schema.time!r} cannot have nulls")
    fields = []
    for field in schema:
        changed = field.with_type(wider.get(field.name, field.type))
        fields.append(changed.with_nullable(field.nullable or field.name in loose))
    try:
        new = list(pa.schema(add))
    except (TypeError, ValueError, AttributeError) as error:
        raise SchemaError(f"add is {add!r}; expected columns such as [('x', pyarrow.float64())] ({error})") from error
    names = [moved.get(name, name) for name in schema.names]
    wanted = [field.with_name(name) for field, name in zip(fields, names, strict=True)]
    result = Schema(pa.schema([*wanted, *new]), moved.get(schema.time, schema.time))
    check_evolution(schema.renamed(names), result)
    return result, tuple((old, name) for old, name in moved.items() if old != name)


def _wider_types(widen: object) -> dict[str, pa.DataType]:
    """Types by column; texts are read as ``pyarrow.schema`` reads them, which is what new columns go through."""
    if not isinstance(widen, Mapping | None):
        raise SchemaError(f"widen is {widen!r}; expected columns and types such as {{'x': pyarrow.int64()}}")
    types = {}
    for name, type_ in (widen or {}).items():
        try:
            types[name] = pa.schema([(str(name), type_)]).field(0).type
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"widen: found {type_!r} as the type of column {name!r}; expected one such as pyarrow.int64() ({error})"
            ) from error
    return types


def _new_names(rename: object) -> dict[str, str]:
    if not isinstance(rename, Mapping | None):
        raise SchemaError(f"rename is {rename!r}; expected old and new names such as {{'old': 'new'}}")
    for old, new in (rename or {}).items():
        if not isinstance(new, str) or not _is_unicode(new):
            raise SchemaError(f"rename: found {new!r} as the name of column {old!r}; expected a Unicode text")
    return dict(rename or {})


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # a half of a surrogate pair
        return False
    return True


def _names(what: str, names: object) -> list[str]:
    try:
        return listed_names(what, names)
    except InputError as error:
        raise SchemaError(str(error)) from None


def _check_added(field: pa.Field) -> None:
    if not field.nullable:
        raise SchemaError(
            f"the new column {field.name!r} is not nullable, but events written before have no value for it; "
            "make it nullable"
        )


def _check_type(before: pa.Field, after: pa.Field, *, is_time: bool) -> None:
    if before.type == after.type:
        return
    change = f"column {after.name!r} changes from {type_name(before.type)} to {type_name(after.type)}"
    if is_time:
        raise SchemaError(f"{change}; the type of the time column cannot change: create another stream")
    if not is_widening(before.type, after.type):
        raise SchemaError(f"{change}, which is no widening of it; add a new column instead")


def _check_nullability(before: pa.Field, after: pa.Field) -> None:
    if before.nullable and not after.nullable:
        raise SchemaError(
            f"column {after.name!r} changes from nullable to not null, but events written before may have "
            "nulls in it; leave it nullable"
        )


def is_widening(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether ``after`` is another type that holds every value of ``before`` exactly, and reads like it.

    Integers widen to integers of more bits (never from signed to unsigned) and to floats whose mantissa holds
    them; float32 to float64; decimals to decimals with at least as many digits on both sides of the point;
    string to large_string and binary to large_binary.
    """
    types = pa.types
    if types.is_integer(before) and types.is_integer(after):
        if types.is_signed_integer(before) == types.is_signed_integer(after):
            return bool(after.bit_width > before.bit_width)
        return bool(types.is_signed_integer(after) and after.bit_width > before.bit_width)
    if types.is_integer(before) and types.is_floating(after):
        mantissa_bits = {pa.float32(): 24, pa.float64(): 53}.get(after, 0)
        value_bits = before.bit_width - types.is_signed_integer(before)
        return bool(value_bits <= mantissa_bits)
    if types.is_decimal128(before) and types.is_decimal128(after):
        more_scale = after.scale - before.scale
        return bool(more_scale >= 0 and after.precision - before.precision >= more_scale and after != before)
    return (before, after) in (
        (pa.float32(), pa.float64()),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
    )


def project(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """A batch of an older schema of the stream as a batch of ``schema``, which may have evolved from it.

    Columns the batch lacks are null, widened ones are cast, unchanged ones share their memory. Raises
    :class:`SchemaError` if ``schema`` cannot have evolved from the batch's.
    """
    instance("a batch", batch, pa.RecordBatch, "a pyarrow.RecordBatch")
    instance("its schema", schema, Schema, "a tidelog.Schema")
    if batch.schema.equals(schema.arrow):
        return batch
    known = set(schema.names)
    for name in batch.schema.names:
        if name not in known:
            raise SchemaError(f"the batch has a column {name!r} that the schema has not; drop it first")
    columns = [_projected(batch, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def _projected(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    position = batch.schema.get_field_index(field.name)
    if position < 0:
        if not field.nullable:
            raise SchemaError(f"the batch has no column {field.name!r}, which is not nullable")
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(position)
    if column.null_count and not field.nullable:
        raise SchemaError(f"the batch has nulls in column {field.name!r}, which is not nullable")
    if column.type == field.type:
        return column
    if not is_widening(column.type, field.type):
        raise SchemaError(
            f"column {field.name!r} of the batch has type {type_name(column.type)}, which does not widen to "
            f"{type_name(field.type)}"
        )
    return column.cast(field.type)
