"""Partial aggregates: rows reduced to one for each group of a batch, which somebody else puts together."""
