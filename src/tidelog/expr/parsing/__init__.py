"""SQL text to typed trees, and back."""
