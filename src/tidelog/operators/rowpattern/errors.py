"""Errors of row patterns."""

from __future__ import annotations

from tidelog.model.errors import TidelogError


class PatternError(TidelogError, ValueError):
    """A row pattern is too large, or rows do not let the search for it go on."""
