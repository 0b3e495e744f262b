"""Rows behind the newest event: which ones are, where they wait, how they get to their place."""
