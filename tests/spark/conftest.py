"""The Spark session that tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from support.spark import local_session  # only tests that use Spark pay for its import

    with local_session(tmp_path_factory.mktemp("spark")) as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of the shared session in one worker: a second session takes longer to start than they run."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
