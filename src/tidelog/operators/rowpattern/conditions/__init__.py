"""Conditions of variables: masks of whole columns, and code over the match so far."""
