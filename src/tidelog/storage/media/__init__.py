"""Files: where they are, how they are locked, written and synced."""
