"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

StorePath: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--store", "-s", metavar="DIR", envvar="TIDELOG_STORE", help="The directory of the store.", show_default=False
    ),
]
StreamName: TypeAlias = Annotated[
    str, typer.Option("--stream", "-n", metavar="NAME", help="The stream.", show_default=False)
]
OneStream: TypeAlias = Annotated[
    str | None, typer.Option("--stream", "-n", metavar="NAME", help="One stream only.", show_default=False)
]
StreamArgument: TypeAlias = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Start: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="First time of the range: ISO 8601, a number and a unit since 1970 (1700000000s), or an integer in the "
        "stream's unit. Default: from the first event.",
        show_default=False,
    ),
]
End: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="End of the range, itself not included. Default: to the last event.", show_default=False
    ),
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION", help="A SQL condition, e.g. \"price > 10 AND symbol = 'A'\".", show_default=False
    ),
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="Columns, separated by commas; may be repeated. Default: all.", show_default=False
    ),
]
AsOf: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=0,
        help="Only events that arrived before the one with this sequence number (see --seq).",
        show_default=False,
    ),
]
SqlMemory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sql-memory", metavar="SIZE", help="Memory to compute with, such as 2GB. Default: 512MB.", show_default=False
    ),
]
PipelineFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The pipeline, a file such as pipeline.toml.", show_default=False)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def names_of(texts: list[str] | None) -> list[str] | None:
    """Names given together or one by one."""
    if not texts:
        return None
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]
