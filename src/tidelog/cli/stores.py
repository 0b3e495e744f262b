"""Stores that commands change, and people who are asked before that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import tidelog

if TYPE_CHECKING:
    from tidelog.engine.store import Store


def existing(path: Path, *, read_only: bool = False, sql_memory: str | None = None) -> Store:
    """A store that is there; opening for writing would create one, which nobody wants who has mistyped a path."""
    if not read_only:
        tidelog.open(path, read_only=True).close()
    return tidelog.open(path, read_only=read_only, sql_memory=sql_memory)


def demand_somebody(is_sure: bool, to: str) -> None:
    """Refuse a command that would ask before it does something, unless ``is_sure``, if nobody is there to answer."""
    if not (is_sure or sys.stdin.isatty()):
        raise typer.BadParameter(f"nobody is there to be asked; say --yes to {to}", param_hint="--yes")
