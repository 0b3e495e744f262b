"""Random queries have on Spark the answers that DuckDB gives for the same rows in tables of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from support.queries.plain import Oracle, Query, rows
from support.queries.statements import Maker
from support.queries.world import World, build
from support.spark.results import plain
from tidelog import spark as tl
from tidelog.model.errors import GrainError
from tidelog.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings with which small queries are planned and run sooner."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queries")


@pytest.fixture(scope="module")
def world(place: Path) -> Iterator[World]:
    made = build(place, 1)
    for name in made.store.streams():
        made.store.stream(name).flush()
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def oracle(world: World) -> Iterator[Oracle]:
    opened = Oracle(world)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def fast(session: SparkSession) -> Iterator[SparkSession]:
    before = {name: session.conf.get(name) for name in FAST}
    for name, value in FAST.items():
        session.conf.set(name, value)
    yield session
    for name, value in before.items():
        session.conf.set(name, str(value))


class Refused(Exception):
    """A query is not written for Spark."""


def answer(session: SparkSession, place: Path, world: World, query: Query) -> pa.Table | None:
    """What Spark says; None if it fails."""
    try:
        frame = tl.sql(
            session,
            query.text,
            query.params,
            store=place,
            tables=world.tables,
            timezone=query.timezone,
            as_of=query.as_of,
        )
    except GrainError:
        return None if query.reduced else pytest.fail(query.text)
    except SqlError as error:
        if "cannot be computed on Spark" in str(error) or "without an order" in str(error):
            raise Refused(str(error)) from None
        return None
    try:
        return plain(frame.toArrow())
    except PySparkException as error:
        if "Java 19" in str(error):
            raise Refused from None
        return None


def judge(session: SparkSession, place: Path, world: World, oracle: Oracle, seed: int) -> str:
    """Compare the answers to a query; what became of it."""
    query = Maker(world, oracle.versions, seed).query()
    numbered = "_seq" in query.text
    try:
        asked = oracle.ask(query.plain, query.params, query.timezone, numbered=numbered)
    except duckdb.Error:
        asked = None
    try:
        found = answer(session, place, world, query)
    except Refused:
        return "refused"
    told = f"seed {seed}, {query.timezone}, parameters {query.params}\n{query.text}\n{query.plain}\n"
    if found is None or asked is None:
        assert found is asked or query.reduced, told
        return "failed"
    expected = plain(asked)
    ours, theirs = rows(found), rows(expected)
    if query.whole is not None:
        whole = rows(plain(oracle.ask(query.whole, query.params, query.timezone, numbered=numbered)))
        keys = list(range(query.keys))
        assert len(ours) == len(theirs), told
        assert not Counter(ours) - Counter(whole), told
        assert not keys or rows(found.select(keys)) == rows(expected.select(keys)), told
    elif query.ordered:
        assert ours == theirs, told
    else:
        assert Counter(ours) == Counter(theirs), told
    return "asked"


def test_answers_are_those_of_plain_tables(fast: SparkSession, place: Path, world: World, oracle: Oracle) -> None:
    outcomes: Counter[str] = Counter()
    seed = 0
    while outcomes["asked"] < 200:
        outcomes[judge(fast, place, world, oracle, seed)] += 1
        seed += 1
    assert outcomes["refused"] <= 0.2 * (outcomes["asked"] + outcomes["refused"]), outcomes


@pytest.mark.soak
@pytest.mark.parametrize("first", range(240, 5240, 250))
def test_many_answers_are_those_of_plain_tables(
    fast: SparkSession, place: Path, world: World, oracle: Oracle, first: int
) -> None:
    for seed in range(first, first + 250):
        judge(fast, place, world, oracle, seed)
