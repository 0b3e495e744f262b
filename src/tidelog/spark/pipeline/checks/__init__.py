"""Whether a pipeline makes sense, before Spark is started."""
