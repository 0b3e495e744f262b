"""Filling templates with the values of their slots."""
