"""What DuckDB computes of expressions: a sealed connection for each thread, types, constants and whole batches."""
