"""Sessions of Spark and the Python processes it starts."""
