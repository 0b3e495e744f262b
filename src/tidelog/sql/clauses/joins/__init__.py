"""Joins of streams in the order of time: ``WINDOW_JOIN`` and ``ASOF JOIN``."""
