"""SQL over streams and tables: DuckDB's dialect, read by its own parser, answered from the index where that knows.

What is mentioned is found in DuckDB's parse tree, streams are put in its place as relations that read only what is
needed (:mod:`tidelog.sql.dataset`), and DuckDB, sealed, does the rest. docs/design/008-sql.md says why.
"""
