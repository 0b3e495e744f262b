"""Payloads of elements: rows of any columns, known by a hash, and kept once."""
