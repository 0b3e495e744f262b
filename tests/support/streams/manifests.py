"""What tests of manifests and catalogues share: a clock to turn by hand, splits without content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelog.model import Schema
from tidelog.storage.media.medium import Medium
from tidelog.store.log.file_names import new_file_name
from tidelog.store.manifest.manifest import SplitInfo, split_path

SCHEMA = Schema(pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64())]), "ts")
WIDER = Schema(pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64()), ("y", pa.string())]), "ts")


@dataclass
class Hand:
    """A clock that stands still until it is told otherwise."""

    now: float = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def put_file(medium: Medium, path: str) -> str:
    """Create a small file, durably."""
    with medium.create(path) as file:
        file.write(0, b"content")
        file.sync()
    medium.sync_names(path.rpartition("/")[0])
    return path


def put_split(medium: Medium, directory: str, now: float = 1_790_000_000.0, **values: Any) -> SplitInfo:
    """A split whose file is there, though it is no container."""
    info: dict[str, Any] = {
        "name": new_file_name(now),
        "rows": 10,
        "bytes": 7,
        "time_min": 0,
        "time_max": 99,
        "seq_min": 0,
        "seq_max": 9,
        "kind": "regular",
        "created_at": now,
    }
    split = SplitInfo(**{**info, **values})
    put_file(medium, split_path(directory, split.name))
    return split
