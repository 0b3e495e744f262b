"""Event time: instants, durations, intervals, and the unit of a stream's clock."""
