"""Errors of the Spark integration."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.model.errors import TidelogError


class MissingDependencyError(TidelogError, ImportError):
    """An optional part of tidelog needs a package that is not installed."""


class JavaNotFoundError(TidelogError, FileNotFoundError):
    """No Java that Spark can run on was found, and none could be supplied."""


class UnrepresentableError(TidelogError, ValueError):
    """A stored value has no counterpart in Spark."""


_RAISED = re.compile(r"^(tidelog(?:\.\w+)+)\.(\w+): (.*)\Z", re.MULTILINE | re.DOTALL)


@contextmanager
def own_errors() -> Iterator[None]:
    """Errors of tidelog that Spark has wrapped come out as what they were, with Spark's error as the cause.

    They were raised in other processes, of which Spark passes on only the text of the traceback.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        parameters = error.getMessageParameters() or {}
        own = _own_error(parameters.get("msg", ""), parameters.get("traceback", ""))
        if own is None:
            raise
        raise own from error


def _own_error(*texts: str) -> TidelogError | None:
    """The error of tidelog that a traceback ends with."""
    for text in texts:
        found = _RAISED.search(text.strip())
        if found is not None:
            kind = getattr(sys.modules.get(found[1]), found[2], None)
            is_own = isinstance(kind, type) and issubclass(kind, TidelogError)
            return kind(found[3]) if is_own else TidelogError(found[3])  # type: ignore[misc]
    return None
