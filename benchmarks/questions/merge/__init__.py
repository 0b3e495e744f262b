"""Questions about logical merge."""
