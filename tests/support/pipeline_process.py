"""A pipeline that runs until it is killed: ``python pipeline_process.py FILE``; says ``ready`` after a batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tidelog.spark import pipeline


def main() -> None:
    told = False

    def watch(sinks: Sequence[pipeline.Progress]) -> None:
        nonlocal told
        if not told and all(each.batches for each in sinks):
            told = True
            sys.stdout.write("ready\n")
            sys.stdout.flush()

    pipeline.run(pipeline.load(sys.argv[1]), watch=watch)


if __name__ == "__main__":
    main()
