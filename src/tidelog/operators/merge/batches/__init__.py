"""Logical merge of whole batches, giving what the reference gives, element by element."""
