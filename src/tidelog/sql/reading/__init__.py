"""Streams as relations of DuckDB, and the filters it pushes into them."""
