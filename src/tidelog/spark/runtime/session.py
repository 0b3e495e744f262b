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

from tidelog.model.arguments import flag, found, text
from tidelog.model.errors import InputError
from tidelog.spark.runtime.home import light_home
from tidelog.spark.runtime.java import cache_directory, find_java
from tidelog.spark.runtime.workers import DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Larger batches give a writer a few percent; ten times as large ones cost it a third.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # tidelog takes times without a zone for UTC. So does Spark with this, when it turns the one kind into the other.
    "spark.sql.session.timeZone": "UTC",
    # Spark's own default has no states of several variables, which continuous queries keep.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
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


_UTC: Final = frozenset({"utc", "etc/utc", "gmt", "etc/gmt", "z", "+00:00", "zulu", "etc/zulu", "uct", "etc/uct"})
_ZONE: Final = "spark.sql.session.timeZone"


def session(
    *,
    master: str | None = None,
    app_name: str = "tidelog",
    config: Mapping[str, object] | None = None,
    remote: str | None = None,
    change: bool = False,
) -> SparkSession:
    """A session ready for tidelog; the one that is running in this process, if there is one, as it is.

    A new one gets a Java that was found or is supplied (see :func:`tidelog.spark.runtime.java.find_java`), and its
    workers run this Python unless ``PYSPARK_PYTHON`` names another. With a ``local`` master, ``local[*]`` by default,
    nothing listens but on the loopback interface, and there is no web page. The session's time zone is UTC.

    ``config`` comes last, so it can change all of that but the Java. Values become text, booleans ``true`` and
    ``false``. ``remote`` is the address of a Spark Connect server, ``sc://host:port``, and then no Java is needed here;
    or a master such as ``local[2]``, of which a Connect server is made.

    A session that is running belongs to others, too. A warning says where it differs from what was asked for, and in
    its time zone; with ``change`` it is given :data:`SQL_SETTINGS` and ``config``, as far as these can be set now. In a
    thread that has no session it becomes that of the thread, as Spark needs it for writing.

    Raises :class:`JavaNotFoundError` before Spark is started.
    """
    from pyspark.sql import SparkSession

    _check(master, app_name, config, remote)
    flag("change", change)
    settings = {key: _text(key, value) for key, value in (config or {}).items()}
    found = running()
    if found is not None:
        make_active(found)
        if change:
            _change(found, {**SQL_SETTINGS, **settings})
        asked = settings if master is None else {**settings, "spark.master": master}
        _compare(found, {_ZONE: SQL_SETTINGS[_ZONE], **asked})
        return found
    master = master or "local[*]"
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


def _check(master: object, app_name: object, config: object, remote: object) -> None:
    if not isinstance(config, Mapping | None):
        raise found("config", config, "settings such as {'spark.driver.memory': '2g'}")
    for what, value in (("master", master), ("app_name", app_name), ("remote", remote)):
        if value is not None:
            text(what, value)


def running() -> SparkSession | None:
    """The session that is running in this process, if any, whichever thread has started it."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        found: SparkSession = SparkSession.active()
    except PySparkException:
        return None
    return found


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return ".connect." in type(spark).__module__


def make_active(spark: SparkSession) -> None:
    """Make a session that of the calling thread, if the thread has none.

    Spark asks the session of a thread, and no other, which data sources there are when something is written.
    """
    from pyspark.sql import SparkSession

    if not is_remote(spark) and SparkSession.getActiveSession() is None:
        spark.createDataFrame([], "nothing int")  # this does it, and nothing else that is public


def _change(found: SparkSession, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        if found.conf.isModifiable(key):
            found.conf.set(key, value)


def _compare(found: SparkSession, asked: Mapping[str, str]) -> None:
    """Warn of settings of a running session that are not what they should be."""
    told = []
    for key, value in asked.items():
        now = found.conf.get(key, None)
        is_same = str(now).lower() in _UTC if key == _ZONE and value == "UTC" else str(now).lower() == value.lower()
        if is_same:
            continue
        how = (
            f"spark.conf.set({key!r}, {value!r})" if found.conf.isModifiable(key) else "only when a session is started"
        )
        why = ", and tidelog takes times without a zone for UTC" if key == _ZONE else ""
        told.append(f"{key} is {now!r}, not {value!r}{why} (to be set: {how})")
    if told:
        warnings.warn(
            f"a Spark session is running, and is returned as it is: {'; '.join(told)}. Stop it first, set this "
            "yourself, or call session(change=True)",
            stacklevel=3,
        )


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
        home = light_home(cache_directory(os.environ, "spark")) if "SPARK_HOME" not in os.environ else None
        if home is not None:
            wanted["SPARK_HOME"] = str(home)
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
