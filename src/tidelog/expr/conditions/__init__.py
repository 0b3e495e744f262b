"""Conditions on rows: masks of those that satisfy them, and what summaries and indexes rule out."""
