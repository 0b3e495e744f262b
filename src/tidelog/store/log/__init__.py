"""The commit log of streams and of the catalogue: numbered documents that anyone may add to, without a lock."""
