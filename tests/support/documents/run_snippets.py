"""Runs the Python of a document; as a program, of one whose blocks are in a file of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path


def run_python(document: Path, snippets: Iterable[tuple[int, str]]) -> None:
    """Run snippets, each with its first line's number, in one namespace, as a reader who follows the text would."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, text in snippets:
        source = "\n" * (line - 1) + text  # tracebacks show lines of the document
        exec(compile(source, str(document), "exec"), namespace)


if __name__ == "__main__":
    run_python(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
