"""Text as typed columns, against Python's own reading of the same texts."""

from __future__ import annotations

import base64
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.reading.texts import decoded, inferred_type, typed
from tidelog.model.conversion.misfit import Misfit


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "-20", None], pa.int64()),
        (["0"], pa.int64()),
        (["18446744073709551615"], pa.uint64()),
        (["99999999999999999999999"], pa.string()),
        (["1", "2.5"], pa.float64()),
        (["1e5", "-.5", "NaN", "inf"], pa.float64()),
        (["007", "12"], pa.string()),
        (["+4912345"], pa.float64()),
        (["0x10"], pa.string()),
        (["true", "False"], pa.bool_()),
        (["true", "0"], pa.string()),
        (["2026-01-01"], pa.date32()),
        (["2026-02-30"], pa.string()),
        (["2026-01-01T00:00:00", "2026-01-01 10:00"], pa.timestamp("us")),
        (["2026-01-01T00:00:00.123456789"], pa.timestamp("ns")),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+01:00"], pa.timestamp("us", "UTC")),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"], pa.string()),
        (["2026-01-01", "soon"], pa.string()),
        ([None, None], pa.null()),
        ([""], pa.string()),
    ],
)
def test_the_type_that_holds_all_values(texts: list[str | None], type_: pa.DataType) -> None:
    assert inferred_type(pa.array(texts, pa.string())) == type_


def test_days_are_times_in_the_column_of_time() -> None:
    assert inferred_type(pa.array(["2026-01-01"]), is_time=True) == pa.timestamp("us")


def test_only_times_are_looked_for_in_texts_that_were_quoted() -> None:
    assert inferred_type(pa.array(["12"]), times_only=True) == pa.string()
    assert inferred_type(pa.array(["2026-01-01T00:00:00"]), times_only=True) == pa.timestamp("us")


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("12", pa.int8(), 12),
        (" 12 ", pa.int64(), 12),
        ("1.5", pa.float32(), 1.5),
        ("inf", pa.float64(), float("inf")),
        ("12.50", pa.decimal128(6, 2), Decimal("12.50")),
        ("true", pa.bool_(), True),
        ("2026-01-01", pa.date32(), date(2026, 1, 1)),
        ("2026-01-01", pa.timestamp("ms"), datetime(2026, 1, 1)),
        ("2026-01-01T02:00:00+02:00", pa.timestamp("us"), datetime(2026, 1, 1)),
        ("2026-01-01T02:00:00", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 2, tzinfo=UTC)),
        ("2026-01-01T02:00:00Z", pa.timestamp("us", "Europe/Berlin"), datetime(2026, 1, 1, 2, tzinfo=UTC)),
        ("1500", pa.timestamp("ms"), datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("x, y", pa.string(), "x, y"),
        (base64.b64encode(b"\xff\0").decode(), pa.binary(), b"\xff\0"),
    ],
)
def test_values(text: str, type_: pa.DataType, value: Any) -> None:
    column = typed(pa.array([None, text]), pa.field("c", type_))
    assert column.type == type_
    assert column.to_pylist() == [None, value]


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ("128", pa.int8(), "found '128', expected int8"),
        ("0x10", pa.int64(), "expected int64"),
        ("1.5", pa.int64(), "expected int64"),
        ("1e400", pa.float64(), "found '1e400', expected float64"),
        ("1.505", pa.decimal128(6, 2), "expected decimal128"),
        ("yes", pa.bool_(), "expected bool"),
        ("2026-13-01", pa.timestamp("us"), "no day of the calendar"),
        ("2026-01-01T00:00:00.1234567", pa.timestamp("us"), "falls between"),
        ("2026-01-01T00:00:00", pa.timestamp("us", "Europe/Berlin"), "names no time zone"),
        ("!", pa.binary(), "base64"),
    ],
)
def test_the_first_value_that_does_not_fit(text: str, type_: pa.DataType, reason: str) -> None:
    good = {"b": "AAAA", "t": "2026-01-01T00:00:00Z"}.get(str(type_)[0], "1")
    good = "true" if type_ == pa.bool_() else "AAAA" if type_ == pa.binary() else good
    with pytest.raises(Misfit, match=reason) as caught:
        typed(pa.array([good, None, good, text, good, text]), pa.field("c", type_))
    assert caught.value.row == 3


def test_times_of_several_forms_in_one_column() -> None:
    texts = pa.array(["2026-01-01T00:00:00Z", None, " 2026-01-01", "2026-01-01T01:00:00+01:00", " 1767225600000"])
    column = typed(texts, pa.field("t", pa.timestamp("ms"), nullable=False))
    assert column.to_pylist() == [None if text is None else datetime(2026, 1, 1) for text in texts.to_pylist()]


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(Misfit, match="UTF-8") as caught:
        decoded(pa.array([b"a", None, b"\xff", b"\xfe"]))
    assert caught.value.row == 2


def _is_integer(text: str) -> bool:
    return re.fullmatch(" *-?[0-9]+ *", text) is not None and -(2**63) <= int(text) < 2**63


@given(st.lists(st.one_of(st.integers(-(2**64), 2**64).map(str), st.sampled_from(["", "a", "1.0", " 7", "--1"]))))
def test_the_fault_is_where_a_loop_finds_it(texts: list[str]) -> None:
    bad = next((row for row, text in enumerate(texts) if not _is_integer(text)), None)
    column, field = pa.array(texts, pa.string()), pa.field("c", pa.int64())
    if bad is None:
        assert typed(column, field).to_pylist() == [int(text) for text in texts]
    else:
        with pytest.raises(Misfit) as caught:
            typed(column, field)
        assert caught.value.row == bad
