"""R4 of whole batches: multisets of ends."""
