"""Streams as tables of Spark: the source and the sink ``tidelog``, of one stream and of many."""
