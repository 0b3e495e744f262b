"""The algorithms of logical merge, element by element: what the forms for batches are held to."""
