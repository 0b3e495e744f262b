"""Windows as functions that make tables: ``TUMBLE``, ``HOP`` and ``SESSION``."""
