"""One split: its file, the tree in it, and what is known of it."""
