"""The way out of a container: from ids to addresses, frames, columns and batches."""
