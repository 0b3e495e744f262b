"""Values of SQL types: whole columns of them, their limits, their texts, and casts between types."""
