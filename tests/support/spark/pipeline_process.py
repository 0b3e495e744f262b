"""A pipeline that runs until it is killed: ``python pipeline_process.py FILE``.

Says ``ready`` after a batch, and from then on ``maintaining`` whenever maintenance of a stream begins.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tidelog.engine.stream import Stream
from tidelog.spark import pipeline


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    is_ready = False
    maintain = Stream.maintain

    def watch(sinks: Sequence[pipeline.Progress]) -> None:
        nonlocal is_ready
        if not is_ready and all(each.batches for each in sinks):
            is_ready = True
            say("ready")

    def told(stream: Stream, *arguments: Any, **named: Any) -> Any:
        if is_ready:
            say("maintaining")
        return maintain(stream, *arguments, **named)

    Stream.maintain = told  # type: ignore[method-assign]
    pipeline.run(pipeline.load(sys.argv[1]), watch=watch)


if __name__ == "__main__":
    main()
