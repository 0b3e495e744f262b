"""The one writer of a stream: what is open, what waits in memory, and the journal that makes it durable."""
