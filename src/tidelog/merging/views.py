"""Views of texts and bytes, which Polars gives and of which Arrow cannot choose rows, as what they view."""

from __future__ import annotations

import pyarrow as pa


def schema_without_views(schema: pa.Schema) -> pa.Schema:
    """The same columns, of types that choose."""
    return pa.schema([each.with_type(_without_views(each.type)) for each in schema], schema.metadata)


def batch_without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows."""
    schema = schema_without_views(batch.schema)
    return batch if schema == batch.schema else batch.cast(schema)


def _without_views(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _without_views(type_.value_type), type_.ordered)
    if pa.types.is_struct(type_):
        return pa.struct([each.with_type(_without_views(each.type)) for each in type_])
    if pa.types.is_map(type_):
        return pa.map_(_of_views(type_.key_field), _of_views(type_.item_field), type_.keys_sorted)
    if pa.types.is_list(type_):
        return pa.list_(_of_views(type_.value_field))
    if pa.types.is_large_list(type_):
        return pa.large_list(_of_views(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_of_views(type_.value_field), type_.list_size)
    return type_


def _of_views(field: pa.Field) -> pa.Field:
    return field.with_type(_without_views(field.type))
