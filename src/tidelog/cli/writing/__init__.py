"""Batches of events for people and programs: tables, CSV, JSON lines, Arrow, Parquet."""

from __future__ import annotations
