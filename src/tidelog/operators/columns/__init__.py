"""What operators do with whole columns of values: look up those that are known, and gather texts."""
