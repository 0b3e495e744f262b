"""Filters rows by PyFlink and prints seconds: of so many rows, and of one: ``flink_filter.py ROWS sql|python|none``.

Rows are made in memory by Flink itself (``datagen``), and what is found goes nowhere (``blackhole``), so nothing is
read, parsed or written. What a job takes for one row is what starting it takes. The condition is one of SQL, which Java
evaluates, a function of Python, or none at all. Run by a Python that has ``apache-flink``, which wants other versions
of nearly everything, so it imports nothing of ours.
"""

from __future__ import annotations

import sys
import time

from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf

SOURCE = """CREATE TABLE events_{rows} (ts BIGINT, v0 DOUBLE) WITH (
    'connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000',
    'fields.ts.kind' = 'sequence', 'fields.ts.start' = '0', 'fields.ts.end' = '{last}')"""
SINK = "CREATE TABLE nowhere (ts BIGINT, v0 DOUBLE) WITH ('connector' = 'blackhole')"
CONDITIONS = {"sql": "WHERE MOD(ts, 1000) = 0", "python": "WHERE passes(ts)", "none": ""}


@udf(result_type=DataTypes.BOOLEAN())
def passes(ts: int) -> bool:
    """The condition in Python."""
    return ts % 1000 == 0


def main() -> None:
    """Filter twice, so that the virtual machine is warm; the second time counts."""
    every, kind = int(sys.argv[1]), sys.argv[2]
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "1")
    tables.get_config().set("python.executable", sys.executable)
    tables.get_config().set("python.client.executable", sys.executable)
    tables.create_temporary_function("passes", passes)
    tables.execute_sql(SINK)
    for rows in (every, 1):
        tables.execute_sql(SOURCE.format(rows=rows, last=rows - 1))
        for _ in range(2):
            began = time.perf_counter()
            tables.execute_sql(f"INSERT INTO nowhere SELECT ts, v0 FROM events_{rows} {CONDITIONS[kind]}").wait()
            seconds = time.perf_counter() - began
        print(seconds)


if __name__ == "__main__":
    main()
