"""The text of a ``pipeline.toml``: its values, where they stand, and what is wrong with them."""
