"""Data of users on its way into the columns of a stream."""
