"""Conditions of pairs of rows: as programs that a kernel runs over tiles, and as bands of values."""
