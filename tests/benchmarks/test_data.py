from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import data
import loglines

ROWS = 5_000


@pytest.mark.parametrize("stream", data.STREAMS)
def test_a_shorter_table_is_a_prefix_of_a_longer_one(stream: str) -> None:
    longer = data.table(stream, data.CHUNK_ROWS + 10)
    assert longer.num_rows == data.CHUNK_ROWS + 10
    assert data.table(stream, ROWS).equals(longer.slice(0, ROWS))
    assert pa.Table.from_batches(data.batches(stream, longer.num_rows)).equals(longer)


@pytest.mark.parametrize("stream", ["sensor", "stock", "log"])
def test_the_seed_decides(stream: str) -> None:
    assert data.table(stream, ROWS, seed=7).equals(data.table(stream, ROWS, seed=7))
    assert not data.table(stream, ROWS, seed=7).equals(data.table(stream, ROWS, seed=8))


@pytest.mark.parametrize(("stream", "width"), [("sensor", 56), ("stock", 28), ("sine", 56)])
def test_rows_have_the_documented_width(stream: str, width: int) -> None:
    assert data.table(stream, ROWS).nbytes == ROWS * width


@pytest.mark.parametrize("stream", data.STREAMS)
def test_there_are_no_nulls_and_time_never_goes_back(stream: str) -> None:
    # Over a chunk's end too, where state is carried along.
    table = data.table(stream, data.CHUNK_ROWS + 1_000)
    assert all(column.null_count == 0 for column in table.columns)
    assert (np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0).all()


def test_an_unknown_stream_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="no event stream 'noise'; there are sensor"):
        next(data.batches("noise", 1))


def test_sensor_readings_are_the_doubles_nearest_to_decimals() -> None:
    table = data.table("sensor", ROWS)
    for name, lowest, highest, decimals, _ in data.Sensor.READINGS:
        for value in table[name].to_pylist():
            text = f"{value:.{decimals}f}"
            assert float(text) == value
            assert math.copysign(1, value) == 1 or value < 0
            assert Decimal(str(lowest)) <= Decimal(text) <= Decimal(str(highest))


def test_sensor_walks_go_on_over_the_end_of_a_chunk() -> None:
    table = data.table("sensor", data.CHUNK_ROWS + 1_000)
    for name, *_, decimals, deviation in data.Sensor.READINGS:
        steps = np.abs(np.diff(table[name].to_numpy()))
        assert steps.max() < 7 * deviation + 10**-decimals


def test_each_symbol_walks_by_at_most_two_cents() -> None:
    table = data.table("stock", data.CHUNK_ROWS + 50_000)
    last: dict[int, int] = {}
    symbols, prices = table["symbol"].to_pylist(), table["price"].to_pylist()
    for symbol, price in zip(symbols, prices, strict=True):
        cents = round(price * 100)
        assert np.float32(cents / 100) == np.float32(price)
        assert cents >= data.Stock.LOWEST_CENTS
        assert abs(cents - last.get(symbol, cents)) <= 2
        last[symbol] = cents
    assert len(last) == data.Stock.SYMBOLS
    assert table["seq"].to_pylist() == list(range(table.num_rows))


def test_string_symbols_name_the_same_trades() -> None:
    numbers, strings = data.table("stock", ROWS), data.table("stock_strings", ROWS)
    assert numbers.drop(["symbol"]).equals(strings.drop(["symbol"]))
    pairs = set(zip(numbers["symbol"].to_pylist(), strings["symbol"].to_pylist(), strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len({ticker for _, ticker in pairs})


def test_sines_have_period_and_shift() -> None:
    table = data.table("sine", 1_000_100)
    for row in (0, 1, 123_456, 999_999, 1_000_050):
        for k in range(6):
            expected = math.sin(2 * math.pi * (row % 1_000_000) / 1_000_000 + k * math.pi / 6)
            assert table[f"s{k}"][row].as_py() == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_log_messages_match_one_template_of_their_service_and_level() -> None:
    patterns = [(t, re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(t.text)) + r"\Z")) for t in loglines.TEMPLATES]
    for row in data.table("log", 2_000).to_pylist():
        assert any(
            pattern.match(row["message"])
            and (template.service, template.level) == (row["service"], row["level"])
            and row["status"] in template.statuses
            for template, pattern in patterns
        ), row


def test_log_messages_repeat_the_status_and_latency_of_their_columns() -> None:
    seen = 0
    for row in data.table("log", 5_000).to_pylist():
        found = re.search(r'HTTP/1\.1" (\d+) \d+ ([\d.]+)ms', row["message"])
        if found:
            seen += 1
            assert (int(found[1]), float(found[2])) == (row["status"], row["latency"])
    assert seen > 1_000


@pytest.mark.parametrize(("stream", "machines"), [("devops", 1000), ("readings", 500), ("diagnostics", 500)])
def test_machines_report_in_turns_every_ten_seconds(stream: str, machines: int) -> None:
    # Over a chunk's end too, which is in the middle of a tick.
    table = data.table(stream, data.CHUNK_ROWS + 3 * machines)
    times, names = table["ts"].cast(pa.int64()).to_numpy(), table[1].to_pylist()
    rows = np.arange(len(table))
    assert (times == data.START_MICROS + rows // machines * 10_000_000).all()
    assert names[:machines] == names[-machines - len(table) % machines :][:machines]
    assert len(set(names)) == machines


def test_a_host_walks_on_over_the_end_of_a_chunk() -> None:
    table = data.table("devops", data.CHUNK_ROWS + 5_000)
    usage = table["usage_user"].to_numpy()
    assert 0 <= usage.min() < usage.max() <= 100
    assert np.abs(usage[1000:] - usage[:-1000]).max() < 7


def test_a_truck_can_carry_what_its_model_can() -> None:
    table = data.table("diagnostics", ROWS)
    pairs = set(zip(table["model"].to_pylist(), table["load_capacity"].to_pylist(), strict=True))
    assert len(pairs) == 3
    assert (table["current_load"].to_numpy() <= table["load_capacity"].to_numpy()).all()
    assert set(table["status"].to_pylist()) >= {0, 1}
