"""Work that is done by tasks of Spark: aggregates, compaction, rebuilding."""
