"""Questions about row patterns."""
