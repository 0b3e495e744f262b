"""The directory a benchmark works in, and what is on disk there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Workspace:
    """A fresh directory for the files of one benchmark run, removed when the run ends, however it ends.

    It is made in ``parent`` (default: ``$TMPDIR``, else the current directory). Figures are only meaningful
    on a real disk: on a memory file system a sync costs nothing.
    """

    def __init__(self, parent: Path | None = None) -> None:
        home = parent or Path(os.environ.get("TMPDIR") or ".")
        home.mkdir(parents=True, exist_ok=True)
        self.root = Path(tempfile.mkdtemp(prefix="tidelog-bench-", dir=home)).resolve()
        self._count = 0

    def fresh(self) -> Path:
        """A new, empty directory; everything removed before is off the disk."""
        os.sync()
        self._count += 1
        directory = self.root / f"{self._count:05d}"
        directory.mkdir()
        return directory

    def remove(self, directory: Path) -> None:
        """Remove a directory of this workspace."""
        if self.root not in directory.resolve().parents:
            raise ValueError(f"{directory} is not below the workspace {self.root}: not removed")
        shutil.rmtree(directory)

    def file_system(self) -> str:
        """The type of the file system, e.g. ``ext4``."""
        best, kind = -1, "unknown"
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            mount = Path(before.split()[4].replace("\\040", " "))
            if (mount == self.root or mount in self.root.parents) and len(mount.parts) > best:
                best, kind = len(mount.parts), after.split()[0]
        return kind

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def sync_tree(directory: Path) -> None:
    """Make every file below ``directory``, and its directories, durable."""
    for path in [*_files(directory), *(path for path, _, _ in os.walk(directory))]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def bytes_on_disk(directory: Path) -> int:
    """Bytes of all files below ``directory``.

    A file counts with the smaller of its length and the blocks it occupies: neither holes in sparse files nor the
    unused end of a last block are held against anyone.
    """
    total = 0
    for path in _files(directory):
        status = os.stat(path)
        total += min(status.st_size, status.st_blocks * 512)
    return total


def _files(directory: Path) -> Iterator[str]:
    for path, _, names in os.walk(directory):
        for name in names:
            yield os.path.join(path, name)
