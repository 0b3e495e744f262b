"""Errors of the Spark integration that concern what has to be there before Spark can run."""

from __future__ import annotations

from tidelog.model.errors import TidelogError


class MissingDependencyError(TidelogError, ImportError):
    """An optional part of tidelog needs a package that is not installed."""


class JavaNotFoundError(TidelogError, FileNotFoundError):
    """No Java that Spark can run on was found, and none could be supplied."""
