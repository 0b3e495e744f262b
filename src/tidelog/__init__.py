"""tidelog: an event store and event-stream engine whose log is the database."""
