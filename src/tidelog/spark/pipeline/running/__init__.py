"""Pipelines at work: queries, their progress, and what is done between batches."""
