"""``tidelog shell`` at a terminal: typed by keys, read off the screen."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog

pty = pytest.importorskip("pty")

PATIENCE = 120.0
TOOK = re.compile(r"\d m?s\b")
"""How long a statement took, on whatever machine."""
"""Seconds that anything may take on a machine that is busy."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, store: Path, state: Path) -> None:
        self._screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm", "NO_COLOR": "1"}
        environment["PROMPT_TOOLKIT_NO_CPR"] = "1"  # nobody here knows where the cursor is
        begin = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        shell = [sys.executable, "-m", "tidelog.cli", "shell", "--store", str(store)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", begin, *shell],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment,
            start_new_session=True,  # or Ctrl-C would not be a signal to it
        )
        os.close(inside)

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def see(self, *texts: str | re.Pattern[str]) -> str:
        """What comes up to the last of some texts, one after the other, and a bit more."""
        shown, deadline = "", time.monotonic() + PATIENCE
        wanted = [re.compile(re.escape(each)) if isinstance(each, str) else each for each in texts]
        place = 0
        while wanted:
            if not select.select([self._screen], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise AssertionError(f"no {wanted[0].pattern!r} in {shown!r}")
            try:
                found = os.read(self._screen, 1 << 16)
            except OSError:  # it has ended
                raise AssertionError(f"no {wanted[0].pattern!r} in {shown!r}") from None
            shown += _CONTROL.sub("", found.decode(errors="replace"))
            while wanted and (seen := wanted[0].search(shown, place)):
                place = seen.end()
                del wanted[0]
        return shown

    def end(self) -> int:
        """Its exit code, when it has ended."""
        with suppress(OSError):  # what Linux says when the other side is closed
            while os.read(self._screen, 1 << 16):
                pass
        return self._process.wait()

    def close(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()
        os.close(self._screen)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with tidelog.open(tmp_path / "events") as store:
        times = pa.array(range(20_000), pa.timestamp("us"))
        store.create_stream("trades", time="ts", data=pa.table({"ts": times, "price": [k / 4 for k in range(20_000)]}))
    shell = Terminal(tmp_path / "events", tmp_path / "state")
    yield shell
    shell.close()


@pytest.mark.skipif(sys.platform != "linux", reason="terminals are driven as Linux has them")
def test_a_conversation(terminal: Terminal, tmp_path: Path) -> None:
    terminal.see("tidelog>")
    terminal.type("SELECT count(*) AS n,\r")
    terminal.see("...")
    terminal.type("max(price) AS most FROM trades;\r")
    terminal.see("n     most", "20000  4999.75", TOOK, "tidelog>")
    terminal.type("SELECT ts, prise\rFROM trades;\r")
    shown = terminal.see("not found", "line 1, column 12:", "^", "tidelog>")
    line = next(each for each in shown.splitlines() if each.strip() == "^")
    assert line.index("^") == len("  SELECT ts, ")
    assert '"price"' in shown
    terminal.type("SELECT max(price) FROM tra\t")
    terminal.see("trades")
    terminal.type(";\r")
    terminal.see("max(price)", "4999.75", "tidelog>")
    terminal.type("SELECT time_bu\t")
    terminal.see("time_bucket")
    terminal.type("\x03")  # what was typed is forgotten
    terminal.see("tidelog>")
    terminal.type("SELECT count(*) FROM trades, range(100000000000) r(i) WHERE price + i < 0;\r")
    terminal.see("Ctrl-C stops it", "2 of about 3 blocks read")
    terminal.type("\x03")
    terminal.see("interrupted", "tidelog>")
    terminal.type("\\d\r")
    terminal.see("trades", "tidelog>")
    terminal.type("\x1b[A\x1b[A")  # twice up
    terminal.see("100000000000")
    terminal.type("\x03")
    terminal.see("tidelog>")
    terminal.type("\\q\r")
    assert terminal.end() == 0
    history = (tmp_path / "state" / "tidelog" / "history").read_text()
    assert "+SELECT count(*) AS n,\n+max(price) AS most FROM trades;\n" in history
    assert "time_bu" not in history
