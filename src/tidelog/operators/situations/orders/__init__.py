"""In which order situations are joined, from which instants on, and what is told of that."""
