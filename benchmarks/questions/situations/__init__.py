"""Questions about situations."""
