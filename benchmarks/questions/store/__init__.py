"""The questions about the event store; each module's functions answer through a ``Bench``."""
