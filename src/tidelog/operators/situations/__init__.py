"""Situations: stretches of time in which a condition holds, and patterns of relations between them."""
