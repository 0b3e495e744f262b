"""The DuckDB of expressions: loaded when needed, sealed, a connection for each that evaluates, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from expr.oracle import BATCH, SCHEMA
from tidelog.expr import EvaluationError, ExpressionError, parse, predicate
from tidelog.expr.database import connection as module
from tidelog.expr.database.connection import connection
from tidelog.expr.functions.library import FUNCTIONS, NATIVE

_SCRIPT = """
import os, sys, threading, time
import pyarrow as pa
from tidelog.expr import parse, predicate

schema = pa.schema([("s", pa.string()), ("a", pa.int32()), ("ts", pa.timestamp("us"))])
batch = pa.record_batch([["a", "B", None], pa.array([1, 2, 3], pa.int32()), pa.array([0, 1, None], pa.timestamp("us"))],
                        schema=schema)
text = "a > 1 AND ts < '2020-01-01 10:00' AND s LIKE 'B%' AND a IN (1, 2, 3) AND a + 1 < 4 AND s IS NOT NULL"
assert predicate(text, schema).mask(batch).tolist() == [False, True, False]
assert "duckdb" not in sys.modules

case = parse("CASE WHEN a > 1 THEN s ELSE 'x' END", schema)
threads = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0

def check():
    assert case.evaluate(batch).to_pylist() == ["x", "B", None]

check()
others = [threading.Thread(target=check) for _ in range(4)]
for each in others:
    each.start()
for each in others:
    each.join()
deadline = time.monotonic() + 120
while threads and len(os.listdir("/proc/self/task")) > threads:  # those that have ended are there for a moment
    assert time.monotonic() < deadline
child = os.fork()
if child == 0:
    check()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
print("done")
"""


def test_a_process_loads_it_when_needed_and_leaves_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", _SCRIPT], capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_each_thread_has_one_while_it_evaluates_and_all_agree() -> None:
    expression = parse("case when i > 0 then s || t else upper(t) end", SCHEMA)
    expected = expression.evaluate(BATCH).to_pylist()
    with ThreadPoolExecutor(4) as pool:
        assert all(
            found == expected for found in pool.map(lambda _: expression.evaluate(BATCH).to_pylist(), range(200))
        )
    assert len(module._process.idle) == len(module._process.connections)
    with connection() as own, connection() as other:
        assert own is not other


def test_it_keeps_so_many_prepared_and_no_more() -> None:
    for number in range(module._KEPT + 50):
        text = f"abs(a::bigint - {number}) > 3"
        assert len(predicate(text, SCHEMA).mask(BATCH)) == BATCH.num_rows
    with connection() as own:
        assert len(own._prepared) == module._KEPT


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT * FROM read_csv('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x'", "INSTALL httpfs", "ATTACH '/tmp/x'"),
        *("SET threads = 4", "SET enable_external_access = true", "SELECT * FROM SCHEMA"),
    ],
)
def test_it_is_sealed(text: str) -> None:
    with connection() as own, pytest.raises(duckdb.Error):
        own.cursor.execute(text).fetchall()


def test_functions_that_may_be_used_are_functions_of_their_arguments() -> None:
    """None that DuckDB itself calls volatile, or constant within a query alone, is on the list."""
    with connection() as own:
        found = own.cursor.execute("SELECT function_name, stability FROM duckdb_functions()").fetchall()
    unsteady = {name.lower() for name, stability in found if stability not in ("CONSISTENT", None)}
    assert {"random", "now"} <= unsteady
    assert set(FUNCTIONS) & unsteady == set()
    known = {name.lower() for name, _ in found} | {"if", "timezone"}
    assert {name for name in FUNCTIONS if name not in NATIVE and name[0].isalpha()} - known == set()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "now()",
            "random()",
            "current_date",
            "current_timestamp",
            "today()",
            "uuid()",
            "gen_random_uuid()",
            "version()",
        ),
        *(
            "getenv('HOME')",
            "current_setting('threads')",
            "nextval('x')",
            "txid_current()",
            "current_user",
            "setseed(1)",
        ),
        *(
            "read_text('/etc/passwd')",
            "read_blob('/etc/passwd')",
            "(select 1)",
            "i in (select 1)",
            "sum(i)",
            "error('x')",
        ),
        *(
            "exists(select 1)",
            "sum(i) over ()",
            "row_number() over ()",
            "unnest([1])",
            "getvariable('x')",
            "sleep_ms(1)",
        ),
        *(
            "current_database()",
            "pg_typeof(i)",
            "stats(i)",
            "query('select 1')",
            "columns('i')",
            "list_transform([1], i)",
        ),
        *("case when now() > ts then 1 end", "lower(getenv('HOME'))", "repeat(version(), 3)", "write_log('x')"),
    ],
)
def test_what_depends_on_more_than_the_row_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text, SCHEMA)
    with pytest.raises(ExpressionError):
        predicate(f"({text}) is not null", SCHEMA)


def test_names_that_differ_in_case_alone_are_two_columns() -> None:
    schema = pa.schema([("x", pa.string()), ("X", pa.string()), ('c0"; DROP', pa.string()), ("c1", pa.string())])
    batch = pa.record_batch([["a"], ["b"], ["c"], ["d"]], schema=schema)
    assert parse('concat(X, x, "c0""; DROP", c1)', schema).evaluate(batch).to_pylist() == ["bacd"]


def test_zeros_in_texts() -> None:
    schema = pa.schema([("x", pa.string())])
    batch = pa.record_batch([["a\0b", "a", "\0"]], schema=schema)
    assert parse("replace(x, '\0', '-')", schema).evaluate(batch).to_pylist() == ["a-b", "a", "-"]


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(38, 5), pa.decimal128(9, 2), pa.bool_(), pa.date32()),
        *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin"), pa.string()),
        *(pa.timestamp("us", "America/New_York"), pa.large_string(), pa.binary(4), pa.large_binary(), pa.date64()),
        *(pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.binary_view()),
    ],
)
def test_columns_of_every_type_go_there_and_back(type_: pa.DataType) -> None:
    values = pa.array([None, *range(48, 58)]).cast(pa.string())
    if pa.types.is_dictionary(type_):
        column = values.dictionary_encode().cast(type_)
    elif pa.types.is_temporal(type_):
        column = pa.array([None, *range(10)], pa.int32() if type_ == pa.date32() else pa.int64())
        column = (
            pa.array([None, *(86_400_000 * each for each in range(10))], pa.int64()) if type_ == pa.date64() else column
        )
        column = column.cast(type_)
    elif pa.types.is_fixed_size_binary(type_):
        column = pa.array([None, *(b"abc%d" % each for each in range(10))], type_)
    elif pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        column = pa.array([None, *range(10)], pa.int8()).cast(type_)
    elif pa.types.is_boolean(type_):
        column = pa.array([None, *([True, False] * 5)])
    else:
        column = values.cast(type_)
    schema = pa.schema([("x", type_), ("q", pa.bool_())])
    batch = pa.record_batch([column, pa.array([True] * 6 + [False] * 5)], schema=schema)
    found = parse("case when q then x end", schema).evaluate(batch)
    expected = parse("x", schema).evaluate(batch)
    assert found.type == expected.type
    assert found.equals(pa.concat_arrays([expected.slice(0, 6), pa.nulls(5, expected.type)]))
    assert predicate("case when q then x end is null", schema).mask(batch).tolist() == [True] + [False] * 5 + [True] * 5


def test_instants_with_a_zone_in_nanoseconds_are_taken_in_microseconds_by_functions_of_time() -> None:
    schema = pa.schema([("t", pa.timestamp("ns", "UTC"))])
    batch = pa.record_batch([pa.array([1_600_000_000_123_456_789, None], pa.timestamp("ns", "UTC"))], schema=schema)
    found = parse("date_trunc('day', t)", schema)
    assert found.evaluate(batch).cast(pa.int64()).to_pylist() == [1_599_955_200_000_000, None]
    assert parse(str(found), schema) == found
    assert parse("hour(t)", schema).evaluate(batch).to_pylist() == [12, None]


def test_an_error_that_ends_duckdb_is_one_of_the_condition_alone() -> None:
    """A moment of a year that texts of DuckDB do not have, for which it refuses everything from then on."""
    schema = pa.schema([("t", pa.timestamp("s")), ("s", pa.string())])
    far = pa.record_batch([pa.array([1_767_225_600_000_000], pa.timestamp("s")), ["A"]], schema=schema)
    others = predicate("lower(s) = 'a'", schema)
    assert others.mask(far).tolist() == [True]
    with pytest.raises(EvaluationError) as caught:
        predicate("CAST(t AS VARCHAR) > '3'", schema).mask(far)
    assert str(caught.value).startswith("Could not convert Timestamp to higher precision.\n  CAST(t")
    assert others.mask(far).tolist() == [True]
    with connection() as one, connection() as other:
        assert one.root is other.root
