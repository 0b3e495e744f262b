"""Keeping streams in order: merging, rewriting and reducing splits, retention, removal of files."""
