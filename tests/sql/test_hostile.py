"""Statements that reach for more than streams and tables: each is refused, and leaves nothing behind.

Files, the network, extensions, settings, the catalogue of DuckDB, the process: by name, nested, disguised, or by texts
that would only keep the parser busy.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import TidelogError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())])

STATEMENTS = [
    # statements that are none of ours
    "ATTACH 'other.db'",
    "ATTACH ':memory:' AS m",
    "attach database 'x' (READ_ONLY)",
    "DETACH memory",
    "USE memory",
    "COPY s TO '{out}'",
    "COPY (SELECT * FROM s) TO '{out}' (FORMAT parquet)",
    "COPY s FROM '/etc/passwd'",
    "COPY FROM DATABASE memory TO x",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "INSTALL httpfs",
    "FORCE INSTALL spatial",
    "LOAD httpfs",
    "LOAD '{out}'",
    "UPDATE EXTENSIONS",
    "SET memory_limit = '1TB'",
    "SET GLOBAL threads = 100",
    "SET VARIABLE x = 1",
    "SET lock_configuration = false",
    "SET enable_external_access = true",
    "RESET ALL",
    "RESET memory_limit",
    "PRAGMA database_list",
    "PRAGMA version",
    "PRAGMA enable_profiling",
    "PRAGMA import_database('{out}')",
    "CALL pragma_version()",
    "CALL duckdb_settings()",
    "CALL enable_logging()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "VACUUM ANALYZE s",
    "ANALYZE",
    "BEGIN",
    "BEGIN TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "ABORT",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "CREATE TABLE t (a INT)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE OR REPLACE TABLE t AS FROM s",
    "CREATE VIEW v AS SELECT * FROM s",
    "CREATE MACRO m(x) AS x + 1",
    "CREATE FUNCTION f(x) AS TABLE SELECT 1",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE SEQUENCE q",
    "CREATE SCHEMA z",
    "CREATE INDEX i ON s (n)",
    "CREATE SECRET k (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET k IN local_file (TYPE s3)",
    "CREATE OR REPLACE STREAM s (ts TIMESTAMP)",
    "CREATE TRIGGER t AFTER INSERT ON s EXECUTE FUNCTION f()",
    "DROP TABLE s",
    "DROP SCHEMA main CASCADE",
    "DROP STREAM s CASCADE",
    "DROP DATABASE memory",
    "ALTER TABLE s ADD COLUMN x INT",
    "ALTER DATABASE memory SET ALIAS TO x",
    "ALTER STREAM s DROP COLUMN n",
    "ALTER STREAM s ADD COLUMN x INT DEFAULT getenv('HOME')",
    "COMMENT ON TABLE s IS 'x'",
    "UPDATE s SET n = 1",
    "MERGE INTO s USING s AS t ON s.n = t.n WHEN MATCHED THEN DELETE",
    "TRUNCATE s",
    "DELETE FROM s",
    "DELETE FROM s WHERE n = 1",
    "DELETE FROM s WHERE true",
    "DELETE FROM s USING s t WHERE ts < '2030-01-01'",
    "DELETE FROM s WHERE ts < '2030-01-01' RETURNING *",
    "INSERT OR REPLACE INTO s VALUES (now(), 1)",
    "INSERT INTO s VALUES (now(), 1) ON CONFLICT DO NOTHING",
    "INSERT INTO s VALUES (now(), 1) RETURNING *",
    "INSERT INTO s DEFAULT VALUES",
    "INSERT INTO main.s VALUES (now(), 1)",
    "INSERT INTO duckdb_settings VALUES (1)",
    "WITH x AS (SELECT 1) INSERT INTO s SELECT now(), 1 FROM x",
    "WITH x AS (INSERT INTO s VALUES (now(), 1) RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM s RETURNING *) SELECT * FROM x",
    "EXPLAIN ANALYZE COPY s TO '{out}'",
    "EXPLAIN SELECT * FROM read_csv('/etc/passwd')",
    "EXPLAIN ANALYZE SELECT getenv('HOME')",
    "EXPLAIN INSERT INTO s VALUES (now(), 1)",
    "EXPLAIN ANALYZE INSERT INTO s VALUES (now(), 1)",
    "EXPLAIN ANALYZE DELETE FROM s",
    "EXPLAIN DROP STREAM s",
    "EXPLAIN EXPLAIN SELECT 1",
    "SELECT * FROM (EXPLAIN SELECT 1)",
    "SELECT * FROM streams('/etc/passwd')",
    "SELECT * FROM streams(getenv('HOME'))",
    "SELECT * FROM streams('*', 'x')",
    "SELECT streams('s')",
    "SHOW DATABASES",
    "SHOW ALL TABLES",
    "SHOW VARIABLES",
    "SHOW memory_limit",
    "DESCRIBE",
    "SUMMARIZE duckdb_settings()",
    # the catalogue and the process, as tables
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_memory()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM duckdb_variables()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_class",
    "SELECT * FROM pg_settings",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM main.s",
    "SELECT * FROM memory.main.s",
    "SELECT * FROM system.main.duckdb_tables",
    "SELECT * FROM temp.sqlite_master",
    "SELECT * FROM pragma_table_info('s')",
    "SELECT * FROM pragma_database_size()",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM pragma_storage_info('s')",
    "SELECT * FROM pg_timezone_names()",
    "SELECT * FROM which_secret('x', 's3')",
    "SELECT * FROM test_all_types()",
    "SELECT * FROM seq_scan('s')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM checkpoint()",
    "FROM (SHOW TABLES)",
    "FROM (SHOW ALL TABLES)",
    "FROM (DESCRIBE duckdb_tables)",
    "FROM (SUMMARIZE sqlite_master)",
    "SELECT * FROM (DESCRIBE)",
    # files and the network
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'x.parquet'",
    'SELECT * FROM "x.csv"',
    "SELECT * FROM 'https://example.org/x.parquet'",
    "SELECT * FROM 's3://bucket/x'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_json('/x')",
    "SELECT * FROM read_ndjson_objects('/x')",
    "SELECT * FROM read_parquet('/x')",
    "SELECT * FROM parquet_scan('/x')",
    "SELECT * FROM parquet_metadata('/x')",
    "SELECT * FROM parquet_schema('/x')",
    "SELECT * FROM parquet_kv_metadata('/x')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_duckdb('/x')",
    "SELECT * FROM json_execute_serialized_sql('x')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('s')",
    "SELECT * FROM query_table(['s', 'duckdb_tables'])",
    # functions
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT getvariable('x')",
    "SELECT current_user",
    "SELECT user",
    "SELECT session_user",
    "SELECT current_schema()",
    "SELECT current_schemas(true)",
    "SELECT current_database()",
    "SELECT current_catalog",
    "SELECT version()",
    "SELECT current_query()",
    "SELECT txid_current()",
    "SELECT nextval('q')",
    "SELECT setseed(0.5)",
    "SELECT sleep_ms(1)",
    "SELECT pg_sleep(1)",
    "SELECT pg_postmaster_start_time()",
    "SELECT has_table_privilege('s', 'select')",
    "SELECT inet_server_addr()",
    "SELECT write_log('x')",
    "SELECT json_serialize_plan('SELECT 1')",
    "SELECT main.getenv('HOME')",
    "SELECT system.main.current_setting('threads')",
    "SELECT pg_catalog.current_setting('threads')",
    "SELECT 'HOME'.getenv()",
    "SELECT 'threads'.current_setting()",
    "SELECT __internal_barrier(1)",
    # nested and disguised
    "WITH c AS (SELECT * FROM read_csv('/etc/passwd')) SELECT * FROM c",
    "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables",
    "WITH RECURSIVE sqlite_master AS (FROM sqlite_master UNION ALL FROM sqlite_master) FROM sqlite_master",
    "WITH a AS MATERIALIZED (SELECT getenv('HOME') AS h) SELECT 1 FROM a",
    "SELECT (SELECT max(content) FROM read_text('/etc/passwd'))",
    "SELECT 1 WHERE EXISTS (FROM glob('/*'))",
    "SELECT 1 IN (SELECT name FROM duckdb_settings())",
    "SELECT * FROM s JOIN read_csv('/x') USING (n)",
    "SELECT * FROM s, LATERAL (SELECT * FROM glob('/' || n))",
    "SELECT * FROM s CROSS JOIN LATERAL read_text('x')",
    "SELECT * FROM (SELECT * FROM (FROM duckdb_tables()))",
    "SELECT n FROM s UNION ALL SELECT count(*) FROM pg_class",
    "SELECT n FROM s ORDER BY getenv('HOME')",
    "SELECT n FROM s GROUP BY n HAVING current_setting('threads') = '1'",
    "SELECT n FROM s QUALIFY row_number() OVER (ORDER BY getenv('HOME')) = 1",
    "SELECT n FROM s LIMIT (SELECT count(*) FROM duckdb_tables())",
    "SELECT sum(n) FILTER (WHERE getenv('A') IS NULL) FROM s",
    "SELECT list_transform([1], lambda x: getenv('HOME'))",
    "SELECT [getenv(x) FOR x IN ['HOME']]",
    "SELECT CASE WHEN true THEN getenv('HOME') END",
    "SELECT struct_pack(a := current_setting('threads'))",
    "SELECT COLUMNS(x -> getenv(x) IS NULL) FROM s",
    "SELECT * REPLACE (getenv('HOME') AS n) FROM s",
    "PIVOT s ON getenv('HOME') USING sum(n)",
    "SELECT * FROM s TABLESAMPLE reservoir(getenv('HOME') ROWS)",
    "VALUES (getenv('HOME'))",
    "DESCRIBE SELECT * FROM read_csv('/etc/passwd')",
    "SUMMARIZE FROM read_csv('/etc/passwd')",
    "DESCRIBE duckdb_tables",
    "TABLE duckdb_tables",
    "FROM duckdb_tables",
    "SELECT \"getenv\"('HOME')",
    "SELECT GetEnv('HOME')",
    'SELECT * FROM "DuckDB_Settings"()',
    "SELECT * FROM \"Read_CSV\"('/etc/passwd')",
    "SELECT getenv/* a */('HOME')",
    "SELECT * FROM read_csv -- b\n ('/etc/passwd')",
    "/* SELECT */ COPY s TO '{out}'",
    "SELECT 1; COPY s TO '{out}'",
    "SELECT 1;;; PRAGMA version",
    "SELECT 'a'';'; ATTACH 'x'",
    "SELECT E'\\'; SELECT 1; --'; ATTACH 'x'",
    "SELECT $$;$$; LOAD x",
    "(SELECT * FROM read_csv('/x'))",
    "INSERT INTO s SELECT now(), count(*) FROM read_csv('/etc/passwd')",
    "INSERT INTO s VALUES (now(), length(getenv('HOME')))",
    "INSERT INTO s SELECT now(), length(current_setting('threads'))",
    "CREATE STREAM x AS SELECT now() AS ts, getenv('HOME') AS h",
    "CREATE STREAM x AS SELECT now() AS ts, * FROM read_text('/etc/passwd')",
    "CREATE STREAM x (ts TIMESTAMP) WITH (split = getenv('HOME'))",
    "CREATE STREAM x (ts TIMESTAMP, a ENUM(SELECT getenv('HOME')))",
    "CREATE STREAM x (ts TIMESTAMP, a INT) FROM read_csv('/x') WHERE (1 = 1)",
    "CREATE STREAM x (ts TIMESTAMP) WITH (split = (SELECT max(content) FROM read_text('/etc/passwd')))",
    "DELETE FROM s WHERE ts < getenv('HOME')",
    "DELETE FROM s WHERE ts < (SELECT max(content) FROM read_text('/etc/passwd'))",
    "ALTER STREAM s SET (retention = getenv('HOME'))",
    # letters that look alike, and what is no text
    "ＳＥＬＥＣＴ 1",
    "ſELECT 1",
    "INſERT INTO s VALUES (now(), 1)",
    "DROP ſTREAM s",
    "SELECT * FROM rеad_csv('/etc/passwd')",
    "SELECT getenv\N{FULLWIDTH LEFT PARENTHESIS}'HOME')",
    "SELECT 1\0; COPY s TO '{out}'",
    "COPY\0 s TO '{out}'",
    "\0",
    "SELECT '\ud800'",
    "SELECT \udc80",
    "\N{ZERO WIDTH NO-BREAK SPACE}COPY s TO '{out}'",
    "\N{RIGHT-TO-LEFT OVERRIDE}SELECT 1",
    "",
    ";;;",
    "-- SELECT 1",
    "/* SELECT 1",
    "SELECT 'a",
    'SELECT "a',
    "SELECT $$a",
    "SELECT 1 /* /* */ COPY",
    "SELECT (",
    "SELECT 1)",
    "SELECT",
    # texts that would keep the parser busy
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "(SELECT " * 390 + "1" + ")" * 390,
    "SELECT " + "[" * 390 + "1" + "]" * 390,
    "SELECT " + "abs(" * 390 + "1" + ")" * 390,
    "SELECT " + "+".join(["1"] * 5000),
    "SELECT " + "NOT " * 5000 + "true",
    "SELECT a" + ".a" * 50_000,
    " UNION ALL ".join(["SELECT 1"] * 20_000),
    "SELECT '" + "a" * (1 << 20) + "'",
    "INSERT INTO s VALUES " + ", ".join(["(now(), 1)"] * 100_000),
    "SELECT * FROM " + "a" * 100_000,
    # more of all kinds
    "SELECT * FROM 'file.csv'.x",
    "FROM 'file.csv' LIMIT 1",
    "FROM ['/etc/passwd', '/etc/hosts']",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM './s'",
    "SELECT * FROM read_text(['/etc/passwd'])",
    "SELECT * FROM read_xlsx('x')",
    "SELECT * FROM st_read('x')",
    "SELECT * FROM sqlite_scan('x', 'y')",
    "SELECT * FROM postgres_scan('x', 'y', 'z')",
    "SELECT * FROM iceberg_scan('x')",
    "SELECT * FROM delta_scan('x')",
    "SELECT * FROM parquet_bloom_probe('x', 'a', 1)",
    "SELECT * FROM duckdb_functions()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_log_contexts()",
    "SELECT * FROM duckdb_connection_count()",
    "SELECT * FROM duckdb_prepared_statements()",
    "SELECT * FROM duckdb_approx_database_count()",
    "SELECT * FROM pragma_show('s')",
    "SELECT * FROM pragma_collations()",
    "SELECT * FROM pragma_metadata_info()",
    "SELECT * FROM pragma_user_agent()",
    "SELECT * FROM pragma_platform()",
    "SELECT * FROM pragma_last_profiling_output()",
    "SELECT * FROM repeat_row(getenv('HOME'), num_rows => 2)",
    "SELECT * FROM unnest([getenv('HOME')])",
    "SELECT * FROM generate_series(1, length(current_setting('threads')))",
    "SELECT * FROM range((SELECT count(*) FROM duckdb_settings()))",
    "SELECT * FROM summary((FROM s))",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM disable_logging()",
    "SELECT * FROM enable_profiling()",
    "SELECT * FROM sql_auto_complete('SEL')",
    "SELECT * FROM load_aws_credentials()",
    "SELECT x.getenv() FROM (SELECT 'HOME' AS x)",
    "SELECT ('HOME').getenv()",
    "SELECT struct_pack(a := 'HOME').a.getenv()",
    "SELECT 'HOME'.upper().getenv()",
    "SELECT s.ts.current_setting() FROM s",
    "SELECT list_aggregate([1], 'getenv')",
    "SELECT list_reduce(['a', 'b'], lambda x, y: getenv(x))",
    "SELECT list_filter(['HOME'], lambda x: getenv(x) IS NOT NULL)",
    "SELECT apply(['HOME'], lambda x: getvariable(x))",
    "SELECT map_from_entries([(getenv('HOME'), 1)])",
    "SELECT coalesce(NULL, getenv('HOME'))",
    "SELECT if(true, getenv('HOME'), '')",
    "SELECT TRY(getenv('HOME'))",
    "SELECT * FROM s WHERE k IN (SELECT getenv('HOME'))",
    "SELECT n FROM s GROUP BY GROUPING SETS ((n), (getenv('HOME')))",
    "SELECT count(*) OVER (PARTITION BY getenv('HOME')) FROM s",
    "SELECT string_agg(getenv('HOME'), ',') FROM s",
    "SELECT DISTINCT ON (getenv('HOME')) n FROM s",
    "FROM s SELECT n ORDER BY current_setting('threads') LIMIT 1",
    "SELECT 1 LIMIT length(getenv('HOME'))",
    "SELECT 1 OFFSET length(getenv('HOME'))",
    "UNPIVOT (SELECT getenv('HOME') AS a) ON a",
    "FROM s |> SELECT getenv('HOME')",
    "SET x = 1",
    "SET SESSION threads = 1",
    "SET LOCAL threads = 1",
    "SET VARIABLE a = (SELECT count(*) FROM s)",
    "RESET VARIABLE a",
    "EXECUTE p(1)",
    "PREPARE p AS INSERT INTO s VALUES (now(), 1)",
    "DEALLOCATE ALL",
    "DECLARE c CURSOR FOR SELECT 1",
    "LOCK TABLE s",
    "GRANT ALL ON s TO x",
    "REVOKE ALL ON s FROM x",
    "KILL 1",
    "EXPORT DATABASE '{out}' (FORMAT parquet)",
    "COPY (SELECT getenv('HOME')) TO '{out}' (FORMAT csv, HEADER)",
    "COPY s TO STDOUT",
    "COPY s FROM PROGRAM 'id'",
    "ATTACH '{out}' AS o (TYPE sqlite)",
    "ATTACH 'https://example.org/x.db' AS o",
    "ATTACH IF NOT EXISTS '{out}' AS o",
    "CREATE OR REPLACE MACRO sum(x) AS getenv('HOME')",
    "CREATE TEMP MACRO m() AS TABLE FROM duckdb_settings()",
    "CREATE TEMP VIEW v AS FROM s",
    "CREATE TABLE t AS FROM read_csv('/etc/passwd')",
    "CREATE UNLOGGED TABLE t (a INT)",
    "DROP MACRO m",
    "DROP VIEW IF EXISTS s",
    "DROP SECRET k",
    "ALTER STREAM s RENAME TO main.s",
    "ALTER STREAM main.s ADD COLUMN x INT",
    "DROP STREAM main.s",
    "CREATE STREAM main.x (ts TIMESTAMP)",
    "DESCRIBE read_csv('/etc/passwd')",
    "SHOW SETTINGS",
    "SHOW SCHEMAS",
    "SHOW CREATE TABLE s",
    "SUMMARIZE '/etc/passwd'",
    "EXPLAIN FROM '/etc/passwd'",
    "EXPLAIN (FORMAT json) SELECT getenv('HOME')",
    "SELECT\N{NO-BREAK SPACE}getenv('HOME')",
    "SELECT\N{IDEOGRAPHIC SPACE}*\N{IDEOGRAPHIC SPACE}FROM\N{IDEOGRAPHIC SPACE}read_csv('/etc/passwd')",
    "SELECT getenv\N{ZERO WIDTH SPACE}('HOME')",
    "SELECT get/**/env('HOME')",
    "SELECT/**/getenv/**/('HOME')",
    "SELECT --\ngetenv('HOME')",
    "SELECT ';'; SELECT '; COPY'; COPY s TO '{out}'",
    "SELECT $a$;$a$; SELECT $b$ $a$ $b$; LOAD x",
    'SELECT "a;b"; LOAD x',
    "SELECT U&'\\0061'; LOAD x",
    "SELECT " + "-" * 3000 + "1 FROM",
    "SELECT " + "CASE WHEN true THEN " * 450 + "1" + " END" * 450,
    "WITH " + ", ".join(f"c{i} AS (FROM c{i - 1})" for i in range(1, 300)) + " FROM c299",
]


class State:
    """What a statement must not change."""

    def __init__(self, root: Path) -> None:
        self.environ = dict(os.environ)
        self.directory = os.getcwd()
        self.beside = sorted(str(path) for path in root.parent.iterdir())
        self.content = {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()
        }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("hostile") / "store"
    with tidelog.open(root, maintenance="manual") as opened:
        opened.create_stream("s", SCHEMA, "ts", data={"ts": ["2026-01-01"], "n": [1]}).flush()
        opened.sql("SELECT 1").fetchall()
        yield opened


def test_there_are_many() -> None:
    assert len(set(STATEMENTS)) == len(STATEMENTS) >= 120


@pytest.mark.parametrize("number", range(len(STATEMENTS)), ids=lambda number: f"{number} {STATEMENTS[number][:40]!a}")
def test_refused_and_nothing_left_behind(store: Store, number: int) -> None:
    root = Path(str(store._medium))
    out = root.parent / "out"
    text = STATEMENTS[number].replace("{out}", str(out))
    before = State(root)
    with pytest.raises(TidelogError):
        store.sql(text).fetchall()
    assert State(root).__dict__ == before.__dict__
    assert not out.exists()
    assert store.streams() == ["s"]


def test_refused_without_a_store() -> None:
    for text in STATEMENTS:
        with pytest.raises(TidelogError):
            tidelog.sql(text).fetchall()


def test_values_of_parameters_are_values() -> None:
    for value in ("'; COPY s TO 'x'; --", "getenv('HOME')", "\\'", "a\nb", "$$", "--", "/*", "a\0b", "\0"):
        assert tidelog.sql("SELECT ?", [value]).fetchall() == [(value,)]
    assert tidelog.sql("SELECT $a", {"a": "x' OR '1' = '1"}).fetchall() == [("x' OR '1' = '1",)]
    with pytest.raises(TidelogError):
        tidelog.sql("SELECT ?", ["\ud800"]).fetchall()


def test_names_of_columns_and_tables_are_names(store: Store) -> None:
    table = pa.table({"user": [1], "getenv('HOME')": [2], 'a"b': [3]})
    assert store.sql("SELECT user FROM t", tables={"t": table}).fetchall() == [(1,)]
    assert store.sql('SELECT "getenv(\'HOME\')", "a""b" FROM t', tables={"t": table}).fetchall() == [(2, 3)]
    for name in ("duckdb_tables", "x.csv", "a; DROP STREAM s", 'a"b', "#s", "rows to insert"):
        quoted = '"' + name.replace('"', '""') + '"'
        assert store.sql(f"SELECT count(*) FROM {quoted}", tables={name: table}).fetchall() == [(1,)]


def test_names_of_streams_are_no_paths(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    with tidelog.open(root, maintenance="manual") as opened:
        for name in ("..", "../x", "/tmp/x", "a/../../b", "c:\\d", "con", "-rf", "*"):
            opened.sql(f'CREATE STREAM "{name}" (ts TIMESTAMP); INSERT INTO "{name}" VALUES (now())')
            assert opened.sql(f'SELECT count(*) FROM "{name}"').fetchall() == [(1,)]
        assert [path.name for path in tmp_path.rglob("*") if root not in (path, *path.parents)] == ["deep"]


def test_no_files_stay_open(store: Store) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("descriptors can be listed on Linux alone")
    before = len(list(descriptors.iterdir()))
    for text in STATEMENTS[:60]:
        with pytest.raises(TidelogError):
            store.sql(text).fetchall()
    assert len(list(descriptors.iterdir())) == before
