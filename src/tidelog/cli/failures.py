"""How commands end when they cannot go on: one message on standard error and an exit code, no traceback."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import typer

from tidelog.cli import ENDED_BY_SIGNAL
from tidelog.cli.interrupts import StoppedError, signals_raised
from tidelog.cli.telling.saying import say
from tidelog.model.errors import TidelogError

TRACEBACK_VARIABLE: Final = "TIDELOG_TRACEBACK"

FAILURE: Final = 1
INTERRUPTED: Final = ENDED_BY_SIGNAL + signal.SIGINT
BROKEN_PIPE: Final = 141
"""What the shell reports for a program that a closed pipe has ended."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def reported(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """A command whose errors become messages and exit codes.

    With the variable ``TIDELOG_TRACEBACK`` set to 1, errors stay what they are. A closed pipe behind standard output
    (``| head``) is no error and says nothing. A signal that asks to stop ends a command as Ctrl-C does.
    """

    @functools.wraps(command)
    def wrapper(*arguments: _P.args, **options: _P.kwargs) -> _R:
        try:
            with signals_raised():
                result = command(*arguments, **options)
            sys.stdout.flush()  # a closed pipe should show here, not when the interpreter has ended
        except BrokenPipeError:
            _let_go_of_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt as interrupt:
            number = interrupt.number if isinstance(interrupt, StoppedError) else signal.SIGINT
            word = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
            complain("\n".join([word, *getattr(interrupt, "__notes__", [])]))
            raise typer.Exit(ENDED_BY_SIGNAL + number) from None
        except Exception as error:
            if _is_for_typer(error) or os.environ.get(TRACEBACK_VARIABLE) == "1":
                raise
            complain(message_of(error))
            raise typer.Exit(FAILURE) from None
        return result

    return wrapper


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
    say(f"tidelog: {message}", err=True)


def message_of(error: BaseException) -> str:
    """An error as one message for people, with its notes on lines of their own."""
    return "\n".join([_text_of(error), *getattr(error, "__notes__", [])])


def _text_of(error: BaseException) -> str:
    if isinstance(error, TidelogError):
        return str(error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return f"found {error.object!r}, which is no text in UTF-8; expected names and conditions that are"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return (
        f"this should not have happened: {type(error).__name__}: {error}. Please report it, with what this command "
        f"prints when {TRACEBACK_VARIABLE}=1"
    )


def _is_for_typer(error: Exception) -> bool:
    """Whether Typer knows what to do: usage errors, aborted prompts, exits."""
    return isinstance(error, typer.Exit | typer.Abort | typer.BadParameter)


def _let_go_of_stdout() -> None:
    """Nothing more can be written; without this, Python complains when it flushes standard output at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
