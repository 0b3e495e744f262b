"""Bytes of arrays as words, for kernels."""
