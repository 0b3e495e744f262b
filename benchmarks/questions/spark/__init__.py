"""Questions about streams as tables of Spark."""
