"""Errors of the Spark integration."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

from tidelog.model.errors import TidelogError
from tidelog.spark.runtime.workers import settle

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class MissingDependencyError(TidelogError, ImportError):
    """An optional part of tidelog needs a package that is not installed."""


class JavaNotFoundError(TidelogError, FileNotFoundError):
    """No Java that Spark can run on was found, and none could be supplied."""


class UnrepresentableError(TidelogError, ValueError):
    """A stored value has no counterpart in Spark."""


_RAISED = re.compile(r"^(tidelog(?:\.\w+)+)\.(\w+): (.*)\Z", re.MULTILINE | re.DOTALL)


_UNKNOWN: Final = re.compile(
    r"\[DATA_SOURCE_NOT_FOUND\][^\n]* tidelog\b|No module named '?(tidelog|pyarrow|pyspark|numba|numpy)\b"
)
"""What Spark says where its workers run a Python without tidelog, or without what it needs."""


def plainly(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Errors of tidelog leave a method without the frames below it: Spark shows users the traceback as the message."""

    @functools.wraps(method)
    def run(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return method(*arguments, **named)
        except TidelogError as error:
            raise error.with_traceback(None) from None
        finally:
            settle()

    return run


@contextmanager
def own_errors() -> Iterator[None]:
    """Errors of tidelog that Spark has wrapped come out as what they were, with Spark's error as the cause.

    They were raised in other processes, of which Spark passes on only the text of the traceback. Workers that do not
    know tidelog are a :class:`MissingDependencyError`: Spark says no more than that there is no such data source.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except Exception as error:
        if isinstance(error, PySparkException):
            parameters = error.getMessageParameters() or {}
            own = _own_error(parameters.get("msg", ""), parameters.get("traceback", ""))
            if own is not None:
                raise own from error
        elif not type(error).__module__.startswith("py4j."):
            raise
        if _UNKNOWN.search(str(error)) is None:
            raise
        raise MissingDependencyError(
            "Spark's workers run a Python that does not know tidelog, or lacks what it needs. Here they run "
            f"{os.environ.get('PYSPARK_PYTHON', 'python3')!r} by the environment; set PYSPARK_PYTHON={sys.executable} "
            "before the session is started, use tidelog.spark.session(), which does, or activate the virtual "
            "environment. On a cluster, install tidelog[spark] for the Python of every worker"
        ) from error


def _own_error(*texts: str) -> TidelogError | None:
    """The error of tidelog that a traceback ends with."""
    for text in texts:
        found = _RAISED.search(text.strip())
        if found is not None:
            kind = getattr(sys.modules.get(found[1]), found[2], None)
            is_own = isinstance(kind, type) and issubclass(kind, TidelogError)
            return kind(found[3]) if is_own else TidelogError(found[3])  # type: ignore[misc]
    return None
