"""Calls of the Spark side with all kinds of values, as far as they can be told wrong without a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.wrong_values import failures, variants
from tidelog import spark


class Reached(tidelog.TidelogError):
    """Nothing was found wrong, and Spark would be asked now."""


class NoSession:
    """Stands for a session, and for a frame."""

    def __getattr__(self, name: str) -> Any:
        raise Reached(f"asked for {name}")


SPARK: Any = NoSession()

SETTINGS: dict[str, dict[str, Any]] = {
    "read": {
        "start": None,
        "end": None,
        "where": "x > 1",
        "columns": ["x"],
        "as_of": 5,
        "partition_size": 10,
        "seq": True,
        "ns": "long",
        "push_filters": False,
        "stream_column": None,
    },
    "aggregate": {
        "where": "x > 1",
        "start": "start",
        "end": "end",
        "tasks": 2,
        "as_of": 5,
        "ns": "error",
        "types": {},
        "imports": [],
        "stream_column": "_stream",
    },
    "compact": {"range": (1, 2), "max_bytes": 100, "at_once": 2, "progress": None},
    "rebuild": {"aggregates": [], "range": (1, 2), "imports": [], "at_once": 2, "progress": None},
    "write": {
        "time": "ts",
        "create": True,
        "overwrite": (1, 2),
        "outside": "refuse",
        "partitions": 2,
        "sort": True,
        "transaction": ("t", 1),
        "compact": True,
    },
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("s", pa.schema([("ts", pa.int64()), ("x", pa.float64())]), "ts").append({"ts": 1, "x": 1.0})
    return str(tmp_path / "store")


@pytest.mark.parametrize("name", SETTINGS)
def test_calls(path: str, name: str) -> None:
    more = ([(1, 2)], ["count(*)"]) if name == "aggregate" else ()

    def call(*args: Any, **settings: Any) -> None:
        getattr(spark, name)(SPARK, *args, **settings)

    found = {
        what: wrong
        for what, args, settings in variants((path, "s", *more), SETTINGS[name])
        if (wrong := failures(call, *args, **settings))
    }
    assert not found, "\n".join(f"{name}, {what}: {wrong}" for what, wrong in found.items())


def test_settings_of_a_session() -> None:
    def call(**settings: Any) -> None:
        spark.session(**settings)

    right = {"master": 5, "app_name": 5, "config": 5, "remote": 5, "change": 5}
    found = {
        what: wrong
        for setting in right
        for what, _, settings in variants((), {setting: 5})
        if not isinstance(settings[setting], str | dict | bool | np.bool_ | type(None))
        and (wrong := failures(call, **settings))
    }
    assert not found, "\n".join(f"session, {what}: {wrong}" for what, wrong in found.items())
