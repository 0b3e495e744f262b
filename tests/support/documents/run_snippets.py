"""Runs the Python of documents: ``python run_snippets.py BLOCKS``, of those whose blocks are in a file of JSON.

They share the virtual machine of Spark, which is dear to start, and nothing else: each has a session of its own, and
an empty directory, always the same one, since the virtual machine stays in that in which it began.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def run_python(document: Path, snippets: Iterable[tuple[int, str]]) -> None:
    """Run snippets, each with its first line's number, in one namespace, as a reader who follows the text would."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, text in snippets:
        source = "\n" * (line - 1) + text  # tracebacks show lines of the document
        exec(compile(source, str(document), "exec"), namespace)


def clean() -> None:
    """End the session of Spark, if there is one, and empty the directory."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    for each in Path.cwd().iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


if __name__ == "__main__":
    chosen = json.loads(Path(sys.argv[1]).read_text())
    for document, snippets in chosen.items():
        clean()
        run_python(Path(document), snippets)
        print(document, flush=True)  # noqa: T201  (tells who had run before one failed)
