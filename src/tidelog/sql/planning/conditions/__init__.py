"""What conditions say of the events that are to be read: ranges of time, what blocks must have, keys of joins."""
