"""Files that this process has open: those of one test, whatever others have left open or are about to let go."""

from __future__ import annotations

import os
from pathlib import Path


def open_below(directory: Path) -> list[str]:
    """The paths of files below a directory, one for each descriptor; that of a file that was removed says so."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # closed meanwhile, as that of the list itself
            continue
    return sorted(path for path in found if path.startswith(str(directory)))
