"""What windows are put together from: slices, how they are kept by key or without, and how they are written."""
