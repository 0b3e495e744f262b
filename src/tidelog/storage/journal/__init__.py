"""The journal: a log of small records, durable one by one or many at a time."""
