"""The prompt: what is typed, with history and completion, run until somebody leaves."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.output import create_output

from tidelog.cli.failures import TRACEBACK_VARIABLE, complain, message_of
from tidelog.cli.interrupts import StoppedError
from tidelog.cli.shell.completion import offer
from tidelog.cli.shell.inputs import is_complete
from tidelog.cli.shell.session import LeaveError, Session
from tidelog.cli.telling.saying import say
from tidelog.model.errors import TidelogError
from tidelog.sql.database import TABLE_FUNCTIONS, shared

PROMPT: Final = "tidelog> "
_MORE: Final = "     ... "


def converse(session: Session, **terminal: Any) -> None:
    """Ask for statements until somebody leaves. ``terminal``: an input and an output of prompt_toolkit's, by name."""
    prompt: PromptSession[str] = PromptSession(
        PROMPT,
        history=History(history_path()),
        completer=SqlCompleter(session),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=_MORE,
        **terminal or {"output": create_output(always_prefer_tty=True)},  # standard output may be a file
    )
    say("SQL over streams; \\? helps, \\q leaves", err=True)
    while True:
        text = None
        try:
            text = prompt.prompt()
            session.run(text)
        except (EOFError, LeaveError):
            return
        except (StoppedError, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            if text is not None:  # else what was being typed is forgotten, and nobody needs to be told
                complain("interrupted")
        except Exception as error:
            if os.environ.get(TRACEBACK_VARIABLE) == "1":
                raise
            complain(message_of(error))


def history_path() -> Path:
    """Where what was typed is kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "tidelog" / "history"


class History(FileHistory):
    """What was typed, in a file that its owner alone can read; without one where none can be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Keep one, if that is possible."""
        with suppress(OSError, UnicodeEncodeError):
            super().store_string(string)


class _StoreNames:
    """The names of a store as it is now; what cannot be read has none."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def streams(self) -> Sequence[str]:
        try:
            return self._session.store.streams()
        except (TidelogError, OSError):
            return ()

    def columns(self, stream: str) -> Sequence[str]:
        try:
            return list(self._session.store.stream(stream).schema.names)
        except (TidelogError, OSError):
            return ()

    def functions(self) -> Iterable[str]:
        return self._functions

    def reserved(self) -> Collection[str]:
        return shared("UTC").reserved

    @cached_property
    def _functions(self) -> Sequence[str]:
        known = shared("UTC").functions | TABLE_FUNCTIONS | {"streams"}
        return [name for name in known if name.isidentifier()]  # others are operators


class SqlCompleter(Completer):
    """Completes what is typed by what there is in the store of a session."""

    def __init__(self, session: Session) -> None:
        self._names = _StoreNames(session)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What could stand where the cursor is."""
        found = offer(document.text_before_cursor, document.text_after_cursor, self._names)
        return [Completion(text, -found.replaced) for text in found.texts]
