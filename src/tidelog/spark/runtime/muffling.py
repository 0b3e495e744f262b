"""Starting a JVM whose output nobody sees: Java and Spark greet on standard error, and no setting prevents it."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Final, Self

_KEPT_BYTES: Final = 1 << 16


class Muffled:
    """A context in which processes are started that write into a pipe, instead of where this process writes.

    They go on with that afterwards; the end of what they have written is kept, for whoever has to say why something
    failed. This process writes where it did again when the context is left; until then, its own output is kept, too.
    """

    def __init__(self) -> None:
        self._text = bytearray()
        self._before: list[int] = []
        self._mark = os.urandom(16)
        """What is written last: whoever has read it has read all that was written in the context."""
        self._is_read = threading.Event()

    def text(self) -> str:
        """The end of what was written, all of it that was written in the context; to be asked when that is left."""
        self._is_read.wait()
        return bytes(self._text).decode(errors="replace")

    def __enter__(self) -> Self:
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = os.pipe()
        self._before = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(theirs, number)
        os.close(theirs)
        # Without a reader, a full pipe would stop them.
        threading.Thread(target=self._read, args=(ours,), name="tidelog muffled output", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(2, self._mark)
        for number, before in zip((1, 2), self._before, strict=True):
            os.dup2(before, number)
            os.close(before)

    def _read(self, source: int) -> None:
        with os.fdopen(source, "rb", buffering=0) as pipe:
            while read := pipe.read(_KEPT_BYTES):
                self._text += read
                if not self._is_read.is_set() and (at := self._text.find(self._mark)) >= 0:
                    del self._text[at : at + len(self._mark)]
                    self._is_read.set()
                del self._text[:-_KEPT_BYTES]
