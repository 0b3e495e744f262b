"""Questions about joins of streams."""
