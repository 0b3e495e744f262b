"""All kinds of values, and how calls with them may end: an answer, or an error of ours."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import tidelog
from tidelog.model.errors import TidelogError

WRONG: Final[dict[str, Any]] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "5": 5,
    "-1": -1,
    "2**63": 2**63,
    "2**70": 2**70,
    "-2**70": -(2**70),
    "1.5": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "empty text": "",
    "a": "a",
    "ts": "ts",
    "null byte": "a\0b",
    "surrogate": "\ud800",
    "escape": "\x1b[31m",
    "brace": "{",
    "percent": "%s {0}",
    "long text": "x" * 5000,
    "bytes": b"x",
    "empty list": [],
    "[1]": [1],
    "['x']": ["x"],
    "[None]": [None],
    "[[]]": [[]],
    "(1, 2)": (1, 2),
    "(1, 2, 3)": (1, 2, 3),
    "{}": {},
    "{'x': 1}": {"x": 1},
    "{1: 2}": {1: 2},
    "set": {1},
    "object": object(),
    "lambda": lambda: 0,
    "type": int,
    "range": range(3),
    "iterator": iter(()),
    "expression": pc.field("x") > 1,
    "datetime.min": datetime.datetime.min,
    "datetime.max": datetime.datetime.max,
    "aware min": datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=23))),
    "date.max": datetime.date.max,
    "time": datetime.time(1),
    "timedelta.max": datetime.timedelta.max,
    "int64": np.int64(3),
    "uint64": np.uint64(2**64 - 1),
    "float64": np.float64("nan"),
    "bool_": np.True_,
    "NaT": np.datetime64("NaT"),
    "datetime64[Y]": np.datetime64(10**15, "Y"),
    "datetime64": np.datetime64(2**62, "D"),
    "timedelta64": np.timedelta64(2**62, "D"),
    "array": np.array([1, 2]),
    "2-dim": np.zeros((2, 2)),
    "0-dim": np.array(5),
    "text array": np.array(["x", "ts"]),
    "Decimal": Decimal("NaN"),
    "complex": 1j,
    "pa.int64": pa.int64(),
    "pa.schema": pa.schema([]),
    "pa.scalar": pa.scalar(1),
    "pa.null": pa.scalar(None),
    "pa.array": pa.array([1, None]),
    "pa.table": pa.table({"x": [1]}),
    "pd.NaT": pd.NaT,
    "pd.NA": pd.NA,
    "pd.Series": pd.Series(["x"]),
    "pd.DataFrame": pd.DataFrame({"x": [1]}),
    "pl.DataFrame": pl.DataFrame({"x": [1]}),
    "Path": Path("nothing\0here"),
    "Schema": tidelog.Schema(pa.schema([("ts", pa.int64())]), "ts"),
    "Interval": tidelog.Interval(1, 2),
    "error": ValueError("x"),
}


def variants(args: tuple[Any, ...], others: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The call with each of its arguments replaced by each wrong value."""
    for place, (name, value) in itertools.product(range(len(args)), WRONG.items()):
        yield f"argument {place} = {name}", (*args[:place], value, *args[place + 1 :]), others
    for key, (name, value) in itertools.product(others, WRONG.items()):
        yield f"{key} = {name}", args, {**others, key: value}


def spent(result: Any) -> None:
    """Take all that an iterator or a reader has."""
    if isinstance(result, pa.RecordBatchReader | Iterator):
        for _ in result:
            pass


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def failures(call: Callable[..., Any], *args: Any, **others: Any) -> str | None:
    """What is wrong with how a call ended."""
    try:
        spent(call(*args, **others))
    except TidelogError as error:
        message = str(error)
        # Paths are shown as they are; whoever prints a message for people makes it harmless.
        return None if message and ("\x1b" not in message or "/\x1b" in message) else f"message {message!r}"
    except Exception as error:
        return told(error)
    return None
