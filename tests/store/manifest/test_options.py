from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import Schema
from tidelog.model.errors import InputError, TidelogError, TimeError
from tidelog.store.manifest.options import StreamOptions

MICROS = Schema(pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64())]), "ts")
SECONDS = Schema(pa.schema([("ts", pa.timestamp("s")), ("x", pa.float64())]), "ts")
TICKS = Schema(pa.schema([("ts", pa.int64()), ("x", pa.float64())]), "ts")

lengths = st.none() | st.integers(1, 2**40) | st.sampled_from(["7d", "1h30m", "250ms"])
positive = st.integers(1, 2**40)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "split": lengths,
            "retention": lengths,
            "lateness": lengths | st.just(0),
            "split_bytes": positive,
            "leaf_rows": st.integers(1, 1 << 24),
            "fanout": st.integers(2, 1 << 16),
            "aggregates": st.just("all") | st.lists(st.text(), unique=True),
            "durability": st.sampled_from(["flush", "batch", "none"]),
            "late_rows": positive,
            "late_bytes": positive,
            "grace": st.floats(0, 1e9),
            "journal_bytes": positive,
        },
    )
)
def test_json_round_trip(values: dict[str, Any]) -> None:
    options = StreamOptions(**values)
    assert StreamOptions.from_json(options.to_json()) == options
    stored = json.loads(options.to_json())
    assert set(stored) == {field.name for field in dataclasses.fields(StreamOptions)}
    for name, value in values.items():
        assert stored[name] == value
    assert hash(options) == hash(StreamOptions.from_dict(stored))


def test_the_defaults() -> None:
    options = StreamOptions()
    assert (options.split, options.retention, options.lateness) == (None, None, None)
    assert (options.split_bytes, options.leaf_rows, options.fanout) == (2**30, 8192, 64)
    assert (options.late_rows, options.late_bytes, options.journal_bytes) == (2**20, 64 * 2**20, 8 * 2**20)
    assert (options.aggregates, options.durability, options.grace) == ("all", "flush", 600.0)


def test_durations_in_ticks_of_the_clock() -> None:
    options = StreamOptions(split="7d", retention=timedelta(days=1, microseconds=5), lateness=3, grace="10m")
    assert options.split_ticks(MICROS.clock) == 7 * 86_400 * 10**6
    assert options.retention_ticks(MICROS.clock) == 86_400 * 10**6 + 5
    assert options.lateness_ticks(MICROS.clock) == 3
    assert options.split_ticks(SECONDS.clock) == 7 * 86_400
    assert options.grace == 600.0
    assert StreamOptions().split_ticks(MICROS.clock) is None
    assert StreamOptions(split="500").split_ticks(TICKS.clock) == 500


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split": 0}, "option split: found 0; expected more than zero"),
        ({"split": "-1h"}, "option split: found '-1h'; expected more than zero"),
        ({"split": "a week"}, "option split: found 'a week', which is no duration"),
        ({"split": 1.5}, "option split: found 1.5"),
        ({"retention": True}, "option retention: found True"),
        ({"lateness": -1}, "option lateness: found -1; expected at least zero"),
        ({"split_bytes": 0}, "option split_bytes: found 0; expected at least 1"),
        ({"leaf_rows": "8192"}, r"option leaf_rows: found '8192' \(str\); expected an int"),
        ({"leaf_rows": 2**24 + 1}, "option leaf_rows: found 16777217; expected 1 to 16777216"),
        ({"fanout": 1}, "option fanout: found 1; expected 2 to 65536"),
        ({"late_rows": False}, "option late_rows: found False"),
        ({"aggregates": "x"}, "option aggregates: found 'x'; expected 'all' or a list"),
        ({"aggregates": ["x", "x"]}, "option aggregates: found column 'x' twice"),
        ({"durability": "always"}, "found durability 'always'; expected one of 'flush', 'batch', 'none'"),
        ({"grace": -1}, "option grace: found -1"),
        ({"grace": float("nan")}, "option grace: found nan"),
        ({"grace": "soon"}, "option grace: found 'soon'"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TimeError), match=message):
        StreamOptions(**values)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    StreamOptions(split="1s", aggregates=["x"]).check(SECONDS)
    with pytest.raises(TimeError, match="option split: found '1ms', which is not a whole number of seconds"):
        StreamOptions(split="1ms").check(SECONDS)
    with pytest.raises(TimeError, match=r"option retention: .* is an integer"):
        StreamOptions(retention="1d").check(TICKS)
    with pytest.raises(TimeError, match="option split: found '500'"):
        StreamOptions(split="500").check(SECONDS)
    with pytest.raises(InputError, match="option aggregates: there is no column 'X'; did you mean 'x'") as caught:
        StreamOptions(aggregates=["X"]).check(SECONDS)
    assert caught.value.column == "X"


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="there is no option 'leaf_row'; did you mean 'leaf_rows'"):
        StreamOptions.from_dict({"leaf_row": 1})
    with pytest.raises(InputError, match="no option"):
        StreamOptions().replace(colour="red")
    assert StreamOptions(fanout=8).replace(leaf_rows=7) == StreamOptions(fanout=8, leaf_rows=7)


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(TidelogError, match=r"for options|not JSON"):
        StreamOptions.from_json(text)
