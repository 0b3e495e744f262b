from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidelog.model.conversion.convert import to_batches
from tidelog.model.conversion.infer import infer_schema
from tidelog.model.errors import SchemaError

TIMES = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
TABLE = pa.table({"ts": pa.array(TIMES, pa.timestamp("us")), "s": ["a", None], "x": [1.5, 2.5], "n": [1, 2]})
ROWS = TABLE.to_pylist()

FORMS: dict[str, Any] = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "pandas": pd.DataFrame({"ts": np.array(TIMES, "M8[us]"), "s": ["a", None], "x": [1.5, 2.5], "n": [1, 2]}),
    "polars": pl.DataFrame({"ts": TIMES, "s": ["a", None], "x": [1.5, 2.5], "n": [1, 2]}),
    "dict of lists": TABLE.to_pydict(),
    "dict of arrays": {"ts": np.array(TIMES, "M8[us]"), "s": "a", "x": np.array([1.5, 2.5]), "n": pa.array([1, 2])},
    "event": ROWS[0],
    "list of dicts": ROWS,
    "struct array": TABLE.to_batches()[0].to_struct_array(),
    "chunked struct array": TABLE.to_struct_array(),
}


@pytest.mark.parametrize("form", FORMS)
def test_tells_the_same_schema_from_every_form(form: str) -> None:
    schema = infer_schema(FORMS[form], "ts")
    assert schema.arrow == infer_schema(TABLE, "ts").arrow
    assert schema.time == "ts"
    assert list(to_batches(FORMS[form], schema))


def test_any_event_may_leave_columns_out() -> None:
    assert infer_schema([{"ts": 1}, {"ts": 2, "x": 1.5}], "ts").names == ("ts", "x")


def test_a_reader_is_left_untouched() -> None:
    reader = TABLE.to_reader()
    schema = infer_schema(reader, "ts")
    assert sum(batch.num_rows for batch in to_batches(reader, schema)) == 2


def test_the_time_may_be_the_index_of_a_frame() -> None:
    frame = FORMS["pandas"].set_index("ts")
    assert set(infer_schema(frame, "ts").names) == {"ts", "s", "x", "n"}
    assert list(to_batches(frame, infer_schema(frame, "ts")))


def test_dictionaries_count_as_their_values() -> None:
    frame = pl.DataFrame({"ts": [1], "s": pl.Series(["a"], dtype=pl.Categorical)})
    assert infer_schema(frame, "ts").field("s").type == pa.string()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (5, "no schema can be told from a int: expected an Arrow table"),
        ({"x": [1]}, "no column 'ts'"),
        ({"ts": [1], "x": [[1]]}, "column 'x': type list"),
        ({"ts": [1], "x": [1, "a"]}, "no schema can be told from a dict"),
        ({"ts": [1], "x": [None]}, "name the type its values will have"),
        ([], "no column 'ts'"),
        ([5], "no schema can be told from a list"),
        ({"ts": [1], "x": [2**70]}, "no schema can be told from a dict: Python int too large"),
        ({"ts": ["2026-01-01"]}, "the time column 'ts' has texts, which are read as times where a schema says so"),
    ],
)
def test_says_why_there_is_no_schema(data: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        infer_schema(data, "ts")
