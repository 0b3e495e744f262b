"""Matches that are found from run to run, not row by row."""
