"""Options of source and sink."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from tidelog.model.errors import InputError
from tidelog.spark.datasource.options import SinkOptions, SourceOptions, option_texts

REQUIRED = {"path": "/data", "stream": "s"}


def source(**options: str) -> SourceOptions:
    return SourceOptions.read(CaseInsensitiveDict(REQUIRED | options))


def test_defaults() -> None:
    found = source()
    assert (found.path, found.stream, found.ns, found.seq, found.fail_on_data_loss) == (
        "/data",
        "s",
        "error",
        False,
        True,
    )
    assert found.starting_offset == "earliest"
    assert SinkOptions.read(REQUIRED).create


@pytest.mark.parametrize("name", ["as_of", "asOf", "ASOF", "As_Of"])
def test_names_count_without_case_and_underscores(name: str) -> None:
    assert source(**{name: "5"}).as_of == "5"


def test_everything_is_read() -> None:
    found = source(
        start="2024-01-01", end="5", where="a > 1", columns="a, b", partition_size="1_000", seq="TRUE", ns="Truncate",
        startingOffset="LATEST", maxRowsPerBatch="10", maxBytesPerBatch="20", failOnDataLoss="no",
    )  # fmt: skip
    assert found == SourceOptions(
        path="/data", stream="s", start="2024-01-01", end="5", where="a > 1", columns=("a", "b"), partition_size=1000,
        seq=True, ns="truncate", starting_offset="latest", max_rows_per_batch=10, max_bytes_per_batch=20,
        fail_on_data_loss=False,
    )  # fmt: skip
    assert source(columns='["a, b", "c"]').columns == ("a, b", "c")
    assert source(columns=" [ ] ").columns == ()
    assert source(startingOffset="2024-01-01T00:00Z").starting_offset == "2024-01-01T00:00Z"
    assert source(as_of="[[0, 5]]").as_of == "[[0, 5]]"


def test_what_spark_adds_for_a_query_is_passed_over() -> None:
    found = SinkOptions.read(CaseInsensitiveDict(REQUIRED | {"checkpointLocation": "/c", "queryName": "q"}))
    assert found.stream == REQUIRED["stream"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strat": "1"}, r"the source has no option 'strat'; did you mean 'start'\?"),
        ({"time": "1"}, r"the source has no option 'time'"),
        ({"as_of": "-1"}, r"option 'as_of' is '-1'; expected a sequence number from 0"),
        ({"as_of": "x"}, r"option 'as_of' is 'x'"),
        ({"as_of": "true"}, r"option 'as_of' is 'true'"),
        ({"as_of": "1", "asof": "2"}, r"option 'as_of' was given twice"),
        ({"seq": "maybe"}, r"option 'seq' is 'maybe'; expected true or false"),
        ({"ns": "round"}, r"option 'ns' is 'round'; expected one of 'error', 'truncate', 'long'"),
        ({"partition_size": "0"}, r"option 'partition_size' is '0'; expected a whole number from 1 on"),
        ({"partition_size": "many"}, r"option 'partition_size' is 'many'"),
        ({"columns": "a,,b"}, r"option 'columns' is 'a,,b'; expected names"),
        ({"columns": "[1]"}, r"option 'columns' is '\[1\]'; expected names"),
        ({"columns": "['a'"}, r"which is no JSON list"),
        ({"where": ""}, r"option 'where' is empty"),
        ({"path": "s3://bucket/x"}, r"option 'path' is 's3://bucket/x'; expected a directory on a disk"),
        ({"paths": '["/a","/b"]'}, r"the source takes one path"),
        ({"option.stream": "s"}, r"tables in Spark's catalogue cannot stand for streams.*CREATE TEMPORARY VIEW"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        source(**options)


@pytest.mark.parametrize("missing", ["path", "stream"])
def test_what_is_missing_is_said(missing: str) -> None:
    given = {name: value for name, value in REQUIRED.items() if name != missing}
    for kind in (SourceOptions, SinkOptions):
        with pytest.raises(InputError, match=f"was not told the {missing}; expected option '{missing}'"):
            kind.read(given)


def test_an_address_of_a_file_is_a_path() -> None:
    assert source(path="file:/a%20b/c").path == "/a b/c"
    assert source(path="file:///a").path == "/a"
    assert source(path="/a:b%20").path == "/a:b%20"


def test_a_range_to_overwrite_needs_the_mode() -> None:
    found = SinkOptions.read(REQUIRED | {"overwrite_start": "5"})
    found.check_mode(overwrite=True)
    with pytest.raises(InputError, match=r"option 'overwrite_start' was given, but the mode is append"):
        found.check_mode(overwrite=False)


def test_values_as_texts() -> None:
    given = {"a": None, "b": True, "c": ["x", "y"], "d": 5, "e": datetime.datetime(2024, 1, 1), "f": "text"}
    assert option_texts(given) == {"b": "true", "c": '["x", "y"]', "d": "5", "e": "2024-01-01T00:00:00", "f": "text"}
