"""Joins of streams in the order of time."""
