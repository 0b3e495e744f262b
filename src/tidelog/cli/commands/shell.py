"""The command ``shell``: statements of SQL, one after the other, typed or from standard input."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from tidelog.cli.options import SqlMemory, StorePath


def shell(
    store: StorePath,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse statements that change something.")] = False,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of texts of times.")] = "UTC",
    sql_memory: SqlMemory = None,
) -> None:
    """Ask for SQL and answer it, until Ctrl-D; \\? helps. Without a terminal, run what standard input says."""
    from tidelog.cli.shell.session import LeaveError, Session

    is_terminal = sys.stdin.isatty()
    with Session(store, read_only=read_only, timezone=timezone, sql_memory=sql_memory, is_timed=is_terminal) as session:
        if is_terminal:
            from tidelog.cli.shell.loop import converse

            converse(session)
            return
        with suppress(LeaveError):
            session.run_lines(sys.stdin)
