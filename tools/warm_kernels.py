"""Compiles every kernel into the cache, so that processes started later only load them: ``tidelog warm``."""

from __future__ import annotations

import sys

from tidelog.cli.warming import warm


def main() -> int:
    """Compile everything and say how long it took."""
    done = warm()
    print(f"{done.kernels} kernels ready in {done.seconds:.1f} s, {done.compiled} of them compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
