"""A Spark session with everything set that tidelog needs: a Java, the right Python, loopback only, times in UTC.

Nothing else in tidelog needs a session made here: any session will do that has tidelog on the Python path of its driver
and workers. Only public parts of PySpark are used, so that all of it works through Spark Connect too.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.model.errors import InputError
from tidelog.spark.java import find_java
from tidelog.spark.workers import DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Larger batches give a writer a few percent; ten times as large ones cost it a third.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # tidelog takes times without a zone for UTC. So does Spark with this, when it turns the one kind into the other.
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that a session can be given at any time."""

START_SETTINGS: Final[Mapping[str, str]] = {"spark.python.daemon.module": DAEMON}
"""Settings that only a new session can be given."""

LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a driver whose executors are all on this machine."""


def session(
    *,
    master: str = "local[*]",
    app_name: str = "tidelog",
    config: Mapping[str, object] | None = None,
    remote: str | None = None,
) -> SparkSession:
    """A session ready for tidelog; the one there is, if there is one, with :data:`SQL_SETTINGS` and ``config`` applied.

    A new one gets a Java that was found or is supplied (see :func:`tidelog.spark.java.find_java`), and its workers run
    this Python unless ``PYSPARK_PYTHON`` names another. With a ``local`` master nothing listens but on the loopback
    interface, and there is no web page. The session's time zone is UTC.

    ``config`` comes last, so it can change all of that but the Java. Values become text, booleans ``true`` and
    ``false``. ``remote`` is the address of a Spark Connect server, ``sc://host:port``, and then no Java is needed here;
    or a master such as ``local[2]``, of which a Connect server is made.

    Raises :class:`JavaNotFoundError` before Spark is started.
    """
    from pyspark.sql import SparkSession

    settings = {key: _text(key, value) for key, value in (config or {}).items()}
    active = _active()
    if active is not None:
        for key, value in {**SQL_SETTINGS, **settings}.items():
            if active.conf.isModifiable(key):
                active.conf.set(key, value)
        return active
    own_master = master if remote is None else remote
    is_local = own_master.startswith("local")
    # A new builder each time: the shared one, SparkSession.builder, remembers what it was told before.
    builder = SparkSession.Builder().appName(app_name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    is_started = own_master.startswith("sc://")
    starting = {} if is_started else {**START_SETTINGS, **(LOCAL_SETTINGS if is_local else {})}
    for key, value in {**SQL_SETTINGS, **starting, **settings}.items():
        builder = builder.config(key, value)
    if is_started:
        return builder.getOrCreate()
    with _environment(is_local), warnings.catch_warnings():
        if remote is not None:
            # The server was started with all settings; the client then tries in vain to set those again that are fixed.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        return builder.getOrCreate()


def _active() -> SparkSession | None:
    """The session that is running in this process, if any."""
    from pyspark.sql import SparkSession

    found: SparkSession | None = SparkSession.getActiveSession()
    return found


@contextmanager
def _environment(is_local: bool) -> Iterator[None]:
    """What Spark reads from the environment while it starts; as it was afterwards."""
    wanted = {
        "JAVA_HOME": str(find_java().home),
        # Workers would run whatever python3 is on the PATH.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable),
    }
    if is_local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _text(key: str, value: object) -> str:
    """A setting as Spark wants it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"setting {key!r} is {value!r} ({type(value).__name__}); expected text, a number or a boolean")
