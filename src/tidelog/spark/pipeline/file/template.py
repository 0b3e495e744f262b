"""The commented file that ``tidelog pipeline init`` writes."""

from __future__ import annotations

from typing import Final

TEMPLATE: Final = '''\
# A pipeline: events from sources, through steps, into sinks.
#
#   tidelog pipeline check pipeline.toml     says what it will do, and what is wrong with it
#   tidelog pipeline run pipeline.toml       runs it until Ctrl-C; --once reads what there is, and ends
#
# Relative paths start from the directory of this file.

[pipeline]
name = "trades"
checkpoint = "checkpoint"    # remembers how far the pipeline has come; belongs to it alone
trigger = "10s"              # how often a batch is started; "0s": one after the other; "once": what there is
# modules = ["my_steps"]     # Python modules that register kinds of steps

[spark]
master = "local[*]"          # this machine; or spark://host:port, yarn, k8s://..., sc://host:port
# config."spark.sql.shuffle.partitions" = 4

# Files of a directory, each read once it is there. Move files in when they are complete.
[sources.incoming]
format = "csv"               # csv, json, parquet, orc, text, tidelog, or any other that Spark knows
path = "incoming"
schema = "at timestamp, id bigint, symbol string, price double"
watermark = { column = "at", delay = "10m" }    # how long to wait for late events
options = { header = true, maxFilesPerTrigger = 100 }

# A stream of a store, as rows arrive; or, with streaming = false, as a table.
# [sources.instruments]
# format = "tidelog"
# path = "events"            # the directory of the store
# stream = "instruments"
# streaming = false

# A step is a query in Spark's SQL over sources and earlier steps ...
[[steps]]
name = "valid"
sql = """
SELECT at, id, symbol, price
FROM incoming
WHERE price > 0
"""

# ... or of another kind. This one keeps one of several events with the same id.
[[steps]]
name = "distinct_trades"
kind = "deduplicate"
input = "valid"
keys = ["id"]

# A sink is a stream of a store, created if it is not there ...
[sinks.trades]
input = "distinct_trades"
path = "events"
stream = "trades"
time = "at"
stream_options = { split = "1d", retention = "365d" }
compaction = "commit"        # with each commit; or every so often, "10m"; or "never"

# ... or anything that Spark can write.
# [sinks.archive]
# input = "valid"
# format = "parquet"
# path = "archive"
# partition_by = ["symbol"]
'''
