"""Questions in SQL: streams of machines, kept by everybody, and the queries that are asked of them."""
