"""What people who watch hosts ask: the families of queries of the public benchmark TSBS, ``cpu-only``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from machines import Hosts
from questions.sql.query import Kind, Query, Span

STREAM = "cpu"
HOSTS = "hosts"
_USAGES = [f"usage_{name}" for name in Hosts.USAGES]
_HOUR = timedelta(hours=1)


def tables() -> dict[str, pa.Table]:
    """What is known of hosts elsewhere."""
    names = [f"host_{k}" for k in range(0, Hosts.COUNT, 7)]
    teams = [("SF", "NYC", "LON", "CHI")[k % 4] for k in range(len(names))]
    return {HOSTS: pa.table({"hostname": names, "team": teams})}


def queries(rows: int) -> list[Query]:
    """Of a stream of so many rows."""
    span = Span.of(rows, Hosts.COUNT)
    hour, eight, half_day = (span.part(n * _HOUR) for n in (1, 8, 12))
    return [
        *_of_hosts(hour, eight),
        *_of_all_hosts(span, half_day),
        *_without_hosts(span),
        *_newest(span),
    ]


def _of_hosts(hour: Span, eight: Span) -> list[Query]:
    """Of one host or eight."""
    return [
        Query(
            "single-groupby-1-1-1",
            f"SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, max(usage_user) AS most FROM cpu "
            f"WHERE hostname IN ('host_249') AND {hour.sql} GROUP BY minute ORDER BY minute",
            frames=lambda of: _grouped(of, hour, _hosts(1), "1m", [], "max", _USAGES[:1]),
        ),
        Query(
            "single-groupby-5-8-1",
            f"SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, {_calls('max', _USAGES[:5])} FROM cpu "
            f"WHERE hostname IN ({_listed(8)}) AND {hour.sql} GROUP BY minute ORDER BY minute",
            frames=lambda of: _grouped(of, hour, _hosts(8), "1m", [], "max", _USAGES[:5]),
        ),
        *(
            Query(
                f"cpu-max-all-{count}",
                f"SELECT date_trunc('hour', ts) AS hour, {_calls('max', _USAGES)} FROM cpu "
                f"WHERE hostname IN ({_listed(count)}) AND {eight.sql} GROUP BY hour ORDER BY hour",
                frames=lambda of, count=count: _grouped(of, eight, _hosts(count), "1h", [], "max", _USAGES),
            )
            for count in (1, 8)
        ),
    ]


def _of_all_hosts(span: Span, half_day: Span) -> list[Query]:
    """Of each host."""
    return [
        *(
            Query(
                f"double-groupby-{name}",
                f"SELECT date_trunc('hour', ts) AS hour, hostname, {_calls('avg', usages)} FROM cpu "
                f"WHERE {half_day.sql} GROUP BY hour, hostname ORDER BY hour, hostname",
                frames=lambda of, usages=usages: _grouped(of, half_day, None, "1h", ["hostname"], "mean", usages),
            )
            for name, usages in (("1", _USAGES[:1]), ("5", _USAGES[:5]), ("all", _USAGES))
        ),
        Query(
            "high-cpu-1",
            f"SELECT * FROM cpu WHERE usage_user > 90 AND hostname = 'host_249' AND {half_day.sql}",
            frames=lambda of: _high(of, half_day, _hosts(1)),
        ),
        Query(
            "high-cpu-all",
            f"SELECT * FROM cpu WHERE usage_user > 90 AND {half_day.sql}",
            frames=lambda of: _high(of, half_day, None),
        ),
        Query(
            "lastpoint",
            f"SELECT hostname, max(ts) AS ts, {', '.join(f'arg_max({each}, ts) AS {each}' for each in _USAGES)} "
            "FROM cpu GROUP BY hostname ORDER BY hostname",
            frames=lambda of: of[STREAM].group_by("hostname").agg(_column("ts").max(), _column(*_USAGES).last()),
        ),
        Query(
            "group by region",
            "SELECT region, count(*) AS n, avg(usage_user) AS busy, max(usage_iowait) AS waiting FROM cpu "
            "GROUP BY region",
        ),
        Query(
            "join, small table right",
            "SELECT team, count(*) AS n, avg(usage_user) AS busy FROM cpu JOIN hosts USING (hostname) "
            f"WHERE {half_day.sql} GROUP BY team",
            has_tables=True,
        ),
        Query(
            "join, small table left",
            "SELECT team, count(*) AS n, avg(usage_user) AS busy FROM hosts JOIN cpu USING (hostname) "
            f"WHERE {half_day.sql} GROUP BY team",
            has_tables=True,
        ),
    ]


def _without_hosts(span: Span) -> list[Query]:
    """Of everything, by time."""
    cut = span.part((span.end - span.start) * 0.9)
    before = span.part(_HOUR, 0.7).end
    return [
        Query(
            "groupby-orderby-limit",
            f"SELECT date_trunc('minute', ts) AS minute, max(usage_user) AS most FROM cpu "
            f"WHERE ts < TIMESTAMP '{before}' GROUP BY minute ORDER BY minute DESC LIMIT 5",
        ),
        Query(
            "by hour, without a key",
            "SELECT time_bucket(INTERVAL '1 hour', ts) AS hour, count(*) AS n, avg(usage_user) AS busy, "
            "max(usage_iowait) AS waiting FROM cpu GROUP BY hour ORDER BY hour",
            Kind.INDEX,
            lambda of: (
                of[STREAM]
                .group_by(_column("ts").dt.truncate("1h"))
                .agg(_column("ts").count().alias("n"), _column("usage_user").mean(), _column("usage_iowait").max())
            ),
        ),
        Query(
            "by day, of ten columns",
            f"SELECT date_trunc('day', ts) AS day, {_calls('avg', _USAGES)} FROM cpu GROUP BY day ORDER BY day",
            Kind.INDEX,
        ),
        Query(
            "a range that cuts leaves",
            "SELECT count(*) AS n, min(usage_user) AS least, max(usage_user) AS most, sum(usage_idle) AS idle FROM cpu "
            f"WHERE {cut.sql}",
            Kind.INDEX,
        ),
    ]


def _newest(span: Span) -> list[Query]:
    """The newest rows; as many as there are hosts, so that it is certain which of one time they are."""
    then = span.part(_HOUR, 0.7).end
    return [
        Query(
            "newest rows",
            f"SELECT * FROM cpu ORDER BY ts DESC LIMIT {Hosts.COUNT}",
            Kind.NEWEST,
            lambda of: of[STREAM].top_k(Hosts.COUNT, by="ts"),
        ),
        Query(
            "newest rows before a time",
            f"SELECT * FROM cpu WHERE ts < TIMESTAMP '{then}' ORDER BY ts DESC LIMIT {Hosts.COUNT}",
            Kind.NEWEST,
        ),
        Query(
            "newest rows of a host",
            "SELECT ts, usage_user, usage_system FROM cpu WHERE hostname = 'host_249' ORDER BY ts DESC LIMIT 100",
        ),
    ]


def _hosts(count: int) -> list[str]:
    return [f"host_{249 + 31 * k}" for k in range(count)]


def _listed(count: int) -> str:
    return ", ".join(f"'{name}'" for name in _hosts(count))


def _calls(function: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{function}({column}) AS {column}" for column in columns)


def _column(*names: str) -> Any:
    import polars

    return polars.col(*names)


def _within(of: Mapping[str, Any], span: Span, hosts: Sequence[str] | None) -> Any:
    frame = of[STREAM].filter((_column("ts") >= span.start) & (_column("ts") < span.end))
    return frame if hosts is None else frame.filter(_column("hostname").is_in(hosts))


def _grouped(
    of: Mapping[str, Any],
    span: Span,
    hosts: Sequence[str] | None,
    every: str,
    keys: Sequence[str],
    function: str,
    usages: Sequence[str],
) -> Any:
    groups = _within(of, span, hosts).group_by(_column("ts").dt.truncate(every), *keys)
    return groups.agg(getattr(_column(*usages), function)())


def _high(of: Mapping[str, Any], span: Span, hosts: Sequence[str] | None) -> Any:
    return _within(of, span, hosts).filter(_column("usage_user") > 90)
