"""Questions about windows."""
