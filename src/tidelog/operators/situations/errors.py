"""Errors of patterns of situations."""

from __future__ import annotations

from tidelog.model.errors import TidelogError


class SituationError(TidelogError, ValueError):
    """A query about situations breaks a rule. ``part`` and ``number`` tell which part of it does."""

    def __init__(self, message: str, part: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.part = part
        """``definitions``, ``constraints``, ``returned`` or ``partition``; empty for the query as a whole."""
        self.number = number
