"""How long does it take to open a log whose writer was killed in the middle of its work?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from formats import ours
from harness import Bench, Bound, Case, Comparison, Figures, Question, sync_tree

_CHILDREN = Path(__file__).parent.parent / "children"

_BEHIND = 24 << 20
"""Bytes a writer has written behind its last flush, at least, when it is killed: most of what it writes between two
commits of its own accord, so that recovery has much to verify."""


def ask(bench: Bench, sizes: list[int], limit_milliseconds: float) -> None:
    """For logs of each size: kill a writer, then open what it left, in this process and in fresh ones.

    Fresh processes are left out of quick runs: they mostly measure imports, which :mod:`questions.startup` does too.
    """
    if ours.Tidelog().unavailable() is not None:
        return
    for events in sizes:
        crashed = bench.workspace.fresh()
        bench.on_progress(f"recovery: writing {events:,} events")
        behind = _write_and_kill(crashed, events)
        limit = Bound(limit_milliseconds, limit_milliseconds, events)
        starts: list[tuple[str, Callable[[Path], None], Bound | None]] = [("warm", _open_here, limit)]
        if not bench.quick:
            starts.append(("cold, imports included", _open_in_a_fresh_process, None))
        for start, work, bound in starts:
            case = Case(ours.NAME, work, before=lambda directory, source=crashed: _copy(source, directory))
            outcome = bench.race(f"recovery of {events:,}, {start}", [case], writes=True)[ours.NAME]
            bench.answer(
                Question(
                    f"recovery, {start}",
                    "ms to open after a kill",
                    events,
                    Figures.of(outcome, lambda sample: sample.wall * 1000),
                    {},
                    [Comparison("limit", (), bound)],
                    higher_is_better=False,
                    note=f"killed {behind >> 20} MiB behind its last flush",
                )
            )
        bench.workspace.remove(crashed)


def _write_and_kill(directory: Path, events: int) -> int:
    """Let a process write ``events`` events and more and kill it meanwhile; returns the bytes behind its last flush."""
    script = str(_CHILDREN / "write_until_killed.py")
    arguments = [sys.executable, script, str(directory), str(events), str(_BEHIND)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=_environment()) as child:
        assert child.stdout is not None
        flushed = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
    if not flushed or child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the writer ended by itself with status {child.returncode}: its own message says why")
    return os.path.getsize(directory / ours.FILE) - int(flushed)


def _copy(source: Path, directory: Path) -> None:
    shutil.copytree(source, directory, dirs_exist_ok=True)
    # What the copy left to be written back is not the recovery's to wait for.
    sync_tree(directory)


def _open_here(directory: Path) -> None:
    ours.recover(directory).close()


def _open_in_a_fresh_process(directory: Path) -> None:
    arguments = [sys.executable, str(_CHILDREN / "recover.py"), str(directory)]
    subprocess.run(arguments, check=True, env=_environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_CHILDREN.parent)}
