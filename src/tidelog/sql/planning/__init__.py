"""Which way a selection of a stream goes: the index, one end, or the events that may count."""
