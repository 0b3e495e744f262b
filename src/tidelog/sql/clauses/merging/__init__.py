"""``LOGICAL_MERGE(TABLE a, TABLE b, ...)``: one stream of several copies of it."""
