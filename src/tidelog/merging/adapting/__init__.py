"""Other models of events as elements, a batch at a time."""
