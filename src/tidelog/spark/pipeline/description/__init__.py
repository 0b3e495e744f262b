"""Pipelines as values: steps, the relations they make, sources and sinks."""
