"""Statements that define and change streams."""
