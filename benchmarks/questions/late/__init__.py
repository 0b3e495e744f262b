"""Questions about events that come late."""
