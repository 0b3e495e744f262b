"""What a layout accepts, and that it is read back from a container."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from support.storage.trees import SCHEMA
from tidelog.index import Layout
from tidelog.model import Schema
from tidelog.model.errors import CorruptionError, InputError, NewerReleaseError, NotFoundError, SchemaError


@pytest.mark.parametrize("aggregates", ["all", [], ["price", "text"]])
def test_a_layout_is_read_back_from_its_notes(aggregates: str | list[str]) -> None:
    layout = Layout(SCHEMA, 7, aggregates)
    description = json.loads(json.dumps({"columns": [], "notes": layout.to_notes()}))
    again = Layout.of(description)
    assert again == layout
    assert hash(again) == hash(layout)
    assert (again.fanout, again.schema, again.kinds.tolist()) == (7, SCHEMA, layout.kinds.tolist())
    assert again != Layout(SCHEMA, 8, aggregates)


def test_the_stored_schema_has_the_sequence_number_last() -> None:
    layout = Layout(SCHEMA)
    assert layout.stored.names == [*SCHEMA.names, "_seq"]
    assert layout.indexes(["ts", "_seq"]).tolist() == [1, len(SCHEMA)]
    assert layout.indexes(None).tolist() == list(range(len(SCHEMA) + 1))


def test_what_makes_no_layout_is_refused() -> None:
    with pytest.raises(InputError, match="fanout is 1"):
        Layout(SCHEMA, 1)
    with pytest.raises(InputError, match="'price', expected 'all' or a list"):
        Layout(SCHEMA, aggregates="price")
    with pytest.raises(NotFoundError, match="did you mean 'price'"):
        Layout(SCHEMA, aggregates=["prices"])
    with pytest.raises(NotFoundError, match="no column 'nothing'"):
        Layout(SCHEMA).indexes(["nothing"])
    with pytest.raises(SchemaError, match="expected those of the tree"):
        Layout(SCHEMA).check_container(pa.schema([("a", pa.int64())]))


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"notes": {}},
        {"notes": {"tree": None}},
        {"notes": {"tree": {"version": 2}}},
        {"notes": {"tree": {"version": 1, "schema": {}, "fanout": 2, "aggregates": "all"}}},
        {
            "notes": {
                "tree": {
                    "version": 1,
                    "schema": Schema(pa.schema([("t", pa.int64())]), "t").to_dict(),
                    "fanout": 1,
                    "aggregates": "all",
                }
            }
        },
    ],
)
def test_other_descriptions_are_no_layout(description: dict[str, object]) -> None:
    with pytest.raises(CorruptionError, match="no layout of a tree"):
        Layout.of(description)


def test_a_layout_of_a_newer_release_is_not_called_damage() -> None:
    with pytest.raises(NewerReleaseError, match="version 3 of a tree, this release reads up to version 2; use a newer"):
        Layout.of({"notes": {"tree": {"version": 3, "curve": "hilbert"}}})
