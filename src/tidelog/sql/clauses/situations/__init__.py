"""``SITUATIONS ( ... )`` and ``DERIVE ( ... )`` behind a table, and the language of situations that stands alone."""
