"""Finding slots and templates in text."""
