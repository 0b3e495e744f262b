"""Functions and operators of single values, and the registry that finds the one a call means."""
