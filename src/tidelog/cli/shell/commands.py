"""The commands of the shell itself, such as ``\\d``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.shell.inputs import MARK
from tidelog.cli.shell.session import LeaveError
from tidelog.cli.telling.saying import say
from tidelog.cli.writing.results import TABLE_ROWS, Form
from tidelog.model.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from tidelog.cli.shell.session import Session

FORMS: Final = (Form.TABLE, Form.MARKDOWN, Form.CSV, Form.JSON, Form.JSONL)
"""What results can be shown as: those that are texts."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what may stand behind it, what it does in a few words, and doing it."""

    argument: str
    says: str
    do: Callable[[Session, str], None]


def command(session: Session, text: str) -> None:
    """Do what a line says. Raises :class:`InputError` for what is no command, and what a command does not take."""
    name, _, argument = text.removeprefix(MARK).partition(" ")
    name = name.removesuffix(";")
    found = COMMANDS.get(name)
    if found is None:
        raise InputError(f"there is no command {MARK}{name}; {did_you_mean(name, COMMANDS)}; {MARK}? lists all")
    argument = argument.strip().removesuffix(";").rstrip()
    if argument and not found.argument:
        raise InputError(f"{MARK}{name} takes nothing; found {argument!r} behind it")
    found.do(session, argument)


def _help(session: Session, argument: str) -> None:
    wide = max(len(f"{name} {each.argument}") for name, each in COMMANDS.items())
    say("A statement of SQL ends with a semicolon; Ctrl-C stops it. Tab completes names and words.")
    for name, each in COMMANDS.items():
        say(f"  {MARK}{f'{name} {each.argument}':{wide}}  {each.says}")


def _leave(session: Session, argument: str) -> None:
    raise LeaveError


def _describe(session: Session, argument: str) -> None:
    if not argument:
        session.show("SHOW STREAMS")
        return
    name = argument if argument.startswith('"') else '"' + argument.replace('"', '""') + '"'
    for statement in (f"DESCRIBE {name}", f"SHOW OPTIONS FROM {name}", f"SELECT count(*) AS rows FROM {name}"):
        session.show(statement)


def _timing(session: Session, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise InputError(f"{MARK}timing: found {argument!r}; expected on or off")
    session.is_timed = argument == "on" if argument else not session.is_timed
    say(f"timing is {'on' if session.is_timed else 'off'}", err=True)


def _format(session: Session, argument: str) -> None:
    if argument not in FORMS:
        raise InputError(f"{MARK}format: found {argument!r}; expected one of {', '.join(FORMS)}")
    session.form = Form(argument)


def _output(session: Session, argument: str) -> None:
    session.write_to(Path(argument).expanduser() if argument else None)


def _include(session: Session, argument: str) -> None:
    if not argument:
        raise InputError(f"{MARK}i: expected the name of a file behind it")
    session.run_file(Path(argument).expanduser())


def _limit(session: Session, argument: str) -> None:
    if argument and not (argument.isascii() and argument.isdigit()):
        raise InputError(f"{MARK}limit: found {argument!r}; expected a number of rows, or nothing for the usual one")
    session.limit = int(argument) if argument else None


COMMANDS: Final[Mapping[str, Command]] = {
    "?": Command("", "this help", _help),
    "q": Command("", "leave, as Ctrl-D, quit and exit do", _leave),
    "d": Command("[STREAM]", "the streams; or the columns, options and rows of one", _describe),
    "timing": Command("[on|off]", "tell how long each statement takes", _timing),
    "format": Command("|".join(FORMS), "what results are shown as", _format),
    "limit": Command("[N]", f"at most so many rows; by default {TABLE_ROWS} in a table, else all", _limit),
    "o": Command("[FILE]", "write results to a file; without one, to standard output again", _output),
    "i": Command("FILE", "run the statements of a file, up to the first error", _include),
}
