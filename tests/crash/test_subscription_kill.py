"""Processes that run subscriptions are killed: what they write into a stream is there once, and is all there."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.streams import subscription_process
from support.streams.subscription_process import (
    BATCHES,
    INTO,
    MERGED_INTO,
    NAMES,
    OPTIONS,
    SCHEMA,
    WINDOWS_INTO,
    append,
    expected,
    merge,
    merged,
    subscribe,
    subscribe_windows,
)
from support.waiting import PATIENCE, until
from tidelog.engine.store import Store


def _made(directory: Path) -> Store:
    store = Store.open(directory, maintenance="manual")
    for name in NAMES:
        store.create_stream(name, SCHEMA, "ts", **OPTIONS)
    return store


def _process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", subscription_process.__file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _check(directory: Path) -> None:
    with Store.open(directory, maintenance="manual") as store:
        assert subscribe(store, follow=False).wait(PATIENCE)  # the last one may have been killed in the last step
        found = store.stream(INTO).scan().read_all()
        assert list(zip(found["ts"].to_pylist(), found["y"].to_pylist(), strict=True)) == expected()
        assert subscribe_windows(store, follow=False).wait(PATIENCE)
        assert merge(store, follow=False).wait(PATIENCE)
        rows = store.stream(MERGED_INTO).scan().read_all()
        assert sorted(zip(rows["ts"].to_pylist(), rows["x"].to_pylist(), strict=True)) == merged()
        infos = store.subscriptions()
        assert [(each.name, each.behind, each.is_running) for each in infos] == [
            (name, 0, False) for name in (MERGED_INTO, "s", "w")
        ]
        info = infos[1]
        assert info.rows == sum(
            len(subscription_process.rows_of(name, batch)) for name in NAMES for batch in range(BATCHES)
        )
        assert info.late > 0
        assert subscribe_windows(store, "undisturbed", follow=False).wait(PATIENCE)
        windows = store.stream(WINDOWS_INTO).scan().read_all()
        assert windows.num_rows > 300
        assert windows == store.stream("undisturbed").scan().read_all()
        assert store.check() == []


def test_undisturbed(tmp_path: Path) -> None:
    with _made(tmp_path) as store:
        subscription, windows, merging = subscribe(store), subscribe_windows(store), merge(store)
        for batch in range(BATCHES):
            append(store, batch)
        store.flush()
        until(lambda: not any(info.behind for info in store.subscriptions()))
        subscription.close()
        windows.close()
        merging.close()
    _check(tmp_path)


def _killed_with_the_writer(directory: Path, kills: int, dice: random.Random) -> None:
    _made(directory).close()
    killed = 0
    while True:
        with _process(directory, dice.randrange(1 << 30), 0.05) as process:
            try:
                assert process.wait(0.9 + dice.random() * 1.8 if killed < kills else PATIENCE) == 0
                break
            except subprocess.TimeoutExpired:
                killed += 1
            finally:
                process.kill()
    _check(directory)


def _killed_alone(directory: Path, kills: int, dice: random.Random) -> None:
    """The process that runs the subscription is killed while another one, this one, appends."""
    with _made(directory) as store:
        batch = 0
        for killed in range(kills + 1):
            with _process(directory) as process:
                try:
                    assert process.stdout is not None
                    assert process.stdout.readline() == "running\n"
                    stop = time.monotonic() + dice.random() * 0.6
                    while batch < BATCHES and (killed == kills or time.monotonic() < stop):
                        append(store, batch)
                        store.flush()
                        batch += 1
                        time.sleep(0.01 * dice.random())
                    if killed == kills:
                        until(lambda: not any(info.behind for info in store.subscriptions()))
                finally:
                    process.kill()
    _check(directory)


def test_killed_with_the_process_that_appends(tmp_path: Path) -> None:
    _killed_with_the_writer(tmp_path, 2, random.Random(3))


def test_killed_while_another_process_appends(tmp_path: Path) -> None:
    _killed_alone(tmp_path, 1, random.Random(4))


@pytest.mark.soak
def test_soak_killed_again_and_again(tmp_path: Path) -> None:
    dice = random.Random(5)
    for round_ in range(4):
        _killed_with_the_writer(tmp_path / f"with {round_}", 4, dice)
        _killed_alone(tmp_path / f"alone {round_}", 4, dice)
