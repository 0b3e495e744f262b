"""Row patterns of windows: ``measure OVER w`` and ``WINDOW w AS (... PATTERN (...))``."""
