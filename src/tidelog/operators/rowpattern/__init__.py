"""Row patterns: sequences of rows that match a regular expression over conditions, SQL's ``MATCH_RECOGNIZE``."""
