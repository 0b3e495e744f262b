"""Packing the values of slots."""
