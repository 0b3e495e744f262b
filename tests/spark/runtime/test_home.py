"""The home of a Spark whose workers load PySpark as the driver does."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from tidelog.spark.runtime.home import light_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_leads_to_everything_but_the_archives(tmp_path: Path) -> None:
    home, real = light_home(tmp_path), Path(pyspark.__path__[0])
    assert home is not None
    for name in ("bin", "jars"):
        assert (home / name).resolve() == real / name
    assert os.readlink(home / "conf") == str(real / "conf")
    found = {each.name: [package.name for package in each.iterdir()] for each in (home / "python" / "lib").iterdir()}
    assert sorted(map(tuple, found.values())) == [("py4j",), ("pyspark",)]
    assert found.keys() == {each.name for each in (real / "python" / "lib").iterdir()}


def test_it_is_made_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = set(pool.map(lambda _: light_home(tmp_path), range(4)))
    assert [*tmp_path.iterdir()] == list(homes)
    assert homes == {light_home(tmp_path)}


def test_without_a_place_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert light_home(tmp_path / "file" / "below") is None


def test_a_spark_that_is_elsewhere_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__path__", [str(tmp_path / "pyspark")])
    assert light_home(tmp_path / "cache") is None


def test_workers_load_compiled_modules(session: SparkSession) -> None:
    def where(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            modules = [sys.modules["pyspark.worker"], sys.modules["pyspark.sql.types"]]
            yield pa.RecordBatch.from_pydict({"path": [each.__cached__ for each in modules]})

    import pyspark.sql.types as here

    paths = {os.path.realpath(row.path) for row in session.range(1).mapInArrow(where, "path string").collect()}
    assert os.path.realpath(here.__cached__) in paths
    assert all(os.path.exists(path) for path in paths)
