"""Errors of the Spark integration."""

from __future__ import annotations

from tidelog.model.errors import TidelogError


class MissingDependencyError(TidelogError, ImportError):
    """An optional part of tidelog needs a package that is not installed."""


class JavaNotFoundError(TidelogError, FileNotFoundError):
    """No Java that Spark can run on was found, and none could be supplied."""


class UnrepresentableError(TidelogError, ValueError):
    """A stored value has no counterpart in Spark."""
