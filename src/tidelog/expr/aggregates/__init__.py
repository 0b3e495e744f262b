"""Calls of aggregate functions."""
