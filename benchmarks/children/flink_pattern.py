"""Searches the rows of a CSV file for a row pattern by Flink SQL; prints the seconds that took, and the matches.

Run by a Python that has ``apache-flink``, which wants other versions of nearly everything, so it imports nothing of
ours: ``flink_pattern.py FILE``. What is found goes nowhere (``blackhole``); matches are counted by themselves, in batch
mode, in which the count is one row and not a new one for each match.
"""

from __future__ import annotations

import sys
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """CREATE TABLE events (
    t BIGINT, k BIGINT, symbol BIGINT, price DOUBLE, ts AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
SINK = "CREATE TABLE nowhere (f BIGINT, l BIGINT, price DOUBLE) WITH ('connector' = 'blackhole')"
FOUND = """FROM events MATCH_RECOGNIZE (
    ORDER BY ts MEASURES A.t AS f, C.t AS l, C.price AS price ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B+ C) DEFINE A AS A.symbol = 1, B AS B.symbol >= 2 AND B.symbol < 20, C AS C.symbol >= 24)"""


def main() -> None:
    """Search twice, so that the virtual machine is warm; the second time counts."""
    tables = _environment(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(SINK)
    for _ in range(2):
        began = time.perf_counter()
        tables.execute_sql(f"INSERT INTO nowhere SELECT f, l, price {FOUND}").wait()
        seconds = time.perf_counter() - began
    with _environment(EnvironmentSettings.in_batch_mode()).execute_sql(f"SELECT COUNT(*) {FOUND}").collect() as rows:
        matches = next(rows)[0]
    print(seconds, matches)


def _environment(settings: EnvironmentSettings) -> TableEnvironment:
    tables = TableEnvironment.create(settings)
    tables.get_config().set("parallelism.default", "1")
    tables.execute_sql(SOURCE.format(path=sys.argv[1]))
    return tables


if __name__ == "__main__":
    main()
