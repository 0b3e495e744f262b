"""Random queries have the answers that DuckDB gives for the same rows in tables of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.queries.plain import Oracle, difference
from support.queries.statements import Maker
from support.queries.world import World, build
from tidelog.sql.planning import reduced

CHUNK = 250


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = build(tmp_path_factory.mktemp("queries"), 1)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def oracle(world: World) -> Iterator[Oracle]:
    opened = Oracle(world)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def every_reduction(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Groups are put together from parts, however few events there are; of every other thousand, at once."""
    if first // 1000 % 2 == 0:
        monkeypatch.setattr(reduced, "LEAST_ROWS", 0)
        monkeypatch.setattr(reduced, "LEAST_BUCKET", 0)


def judge(world: World, oracle: Oracle, seeds: range) -> None:
    for seed in seeds:
        query = Maker(world, oracle.versions, seed).query()
        told = difference(world, oracle, query)
        assert told is None, (
            f"seed {seed}, {query.timezone}, parameters {query.params}\n{query.text}\n{query.plain}\n{told}"
        )


@pytest.mark.parametrize("first", range(0, 3000, CHUNK))
def test_answers_are_those_of_plain_tables(world: World, oracle: Oracle, first: int) -> None:
    judge(world, oracle, range(first, first + CHUNK))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(3000, 103_000, 5000))
def test_many_answers_are_those_of_plain_tables(world: World, oracle: Oracle, first: int) -> None:
    judge(world, oracle, range(first, first + 5000))
