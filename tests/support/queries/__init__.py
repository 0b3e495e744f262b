"""Random queries over streams, and what DuckDB says of the same rows in tables of its own."""
