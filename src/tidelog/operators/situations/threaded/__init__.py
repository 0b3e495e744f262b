"""Matches as threads find them."""
