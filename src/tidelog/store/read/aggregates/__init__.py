"""Aggregates of a snapshot: from entries of trees, kept states, and events."""
