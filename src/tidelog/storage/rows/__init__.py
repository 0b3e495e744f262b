"""Rows on their way into blocks: numbered, in the order of an index, and how large they are."""
