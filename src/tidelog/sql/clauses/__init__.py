"""What the dialect has beyond DuckDB's: each clause is put into words that DuckDB knows."""
