"""What is committed of a stream: its splits, schemas, options and deletions, as values and as a log of changes."""
