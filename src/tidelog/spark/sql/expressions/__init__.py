"""Expressions of DuckDB's plans as Spark SQL, with the meaning that they have there."""
