"""Keeping streams in order: merging, rewriting and coarsening splits, retention, removal of files."""
