"""Continuous operators on Spark: the contract of :mod:`tidelog.operators.base`, driven by jobs and streams.

``running`` runs any operator over DataFrames, ``batch`` by key or by ranges of time, ``streaming`` with its state kept
by Spark; ``conformance`` holds both to the rows of the other runtimes (docs/design/010-continuous.md).
"""
