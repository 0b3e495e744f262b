"""What a query reads of a stream: which rows, of which time, by which way. Results never depend on it."""
