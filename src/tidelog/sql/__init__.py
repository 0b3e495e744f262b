"""SQL over streams and tables: DuckDB's dialect, read by its own parser, answered from the index where that knows.

What is mentioned is found in DuckDB's parse tree, streams are put in its place as relations that read only what is
needed (:mod:`tidelog.sql.reading.dataset`), and DuckDB, sealed, does the rest. docs/design/008-sql.md says why.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.sql.result import Result


class _Callable(ModuleType):
    """This package, which is called like the function that it takes the place of as soon as it is imported."""

    def __call__(
        self,
        text: str,
        params: Any = None,
        *,
        tables: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        sql_memory: str | int | None = None,
    ) -> Result:
        """See :func:`tidelog.sql`."""
        from tidelog.sql.statements import run_on_tables

        return run_on_tables(text, params, tables, timezone, sql_memory)


sys.modules[__name__].__class__ = _Callable
