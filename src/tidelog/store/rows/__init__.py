"""Rows as arrays in the order of (time, ``_seq``): sorted, merged, kept in memory, summed up."""
