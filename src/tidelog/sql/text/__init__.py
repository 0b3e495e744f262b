"""Texts of SQL: tokens, DuckDB's parse trees, constants, and the moment of a call."""
