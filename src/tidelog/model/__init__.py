"""The data model: schemas, event time, conversion of user data, and errors."""
