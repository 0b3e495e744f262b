"""What people who run trucks ask: the families of queries of the public benchmark TSBS, ``iot``."""

from __future__ import annotations

from datetime import timedelta

from machines import Readings
from questions.sql.query import Query, Span

READINGS, DIAGNOSTICS = "readings", "diagnostics"


def queries(rows: int) -> list[Query]:
    """Of two streams of so many rows each."""
    span = Span.of(rows, Readings.COUNT)
    minutes, hours = span.part(timedelta(minutes=10)), span.part(timedelta(hours=4))
    ten = "time_bucket(INTERVAL '10 minutes', ts) AS ten"
    return [
        Query(
            "last-loc",
            "SELECT name, driver, arg_max(latitude, ts) AS latitude, arg_max(longitude, ts) AS longitude "
            "FROM readings WHERE fleet = 'South' GROUP BY name, driver",
        ),
        Query(
            "low-fuel",
            "SELECT name, driver, arg_max(fuel_state, ts) AS fuel FROM diagnostics WHERE fleet = 'South' "
            "GROUP BY name, driver HAVING arg_max(fuel_state, ts) < 0.1",
        ),
        Query(
            "high-load",
            "SELECT name, driver, arg_max(current_load / load_capacity, ts) AS load FROM diagnostics "
            "WHERE fleet = 'South' GROUP BY name, driver HAVING arg_max(current_load / load_capacity, ts) > 0.9",
        ),
        Query(
            "stationary-trucks",
            f"SELECT name, driver FROM readings WHERE {minutes.sql} AND fleet = 'West' "
            "GROUP BY name, driver HAVING avg(velocity) < 1",
        ),
        Query(
            "long-driving-sessions",
            f"SELECT name, driver FROM (SELECT name, driver, {ten} FROM readings WHERE {hours.sql} AND fleet = 'West' "
            "GROUP BY ALL HAVING avg(velocity) > 1) GROUP BY name, driver HAVING count(*) > 16",
        ),
        Query(
            "avg-vs-projected-fuel-consumption",
            "SELECT fleet, avg(fuel_consumption) AS actual, avg(nominal_fuel_consumption) AS nominal FROM readings "
            "WHERE velocity > 1 GROUP BY fleet",
        ),
        Query(
            "avg-daily-driving-duration",
            "SELECT fleet, name, driver, avg(hours) AS hours FROM (SELECT fleet, name, driver, "
            "date_trunc('day', ten) AS day, count(*) / 6.0 AS hours FROM (SELECT fleet, name, driver, "
            f"{ten} FROM readings GROUP BY ALL HAVING avg(velocity) > 1) GROUP BY ALL) GROUP BY fleet, name, driver",
        ),
        Query(
            "avg-load",
            "SELECT fleet, model, load_capacity, avg(part) AS part FROM (SELECT fleet, model, load_capacity, "
            "avg(current_load / load_capacity) AS part FROM diagnostics GROUP BY name, fleet, model, load_capacity) "
            "GROUP BY fleet, model, load_capacity",
        ),
        Query(
            "daily-activity",
            "SELECT fleet, model, date_trunc('day', ten) AS day, count(*) / 144.0 AS activity FROM (SELECT fleet, "
            f"model, name, {ten} FROM diagnostics GROUP BY ALL HAVING avg(status) < 1) GROUP BY fleet, model, day",
        ),
        Query(
            "breakdown-frequency",
            f"WITH windows AS (SELECT name, model, {ten}, count(*) FILTER (WHERE status > 0) * 2 > count(*) AS broken "
            "FROM diagnostics GROUP BY name, model, ten), changes AS (SELECT model, broken, lag(broken) OVER "
            "(PARTITION BY name ORDER BY ten) AS before FROM windows) "
            "SELECT model, count(*) AS breakdowns FROM changes WHERE broken AND NOT before GROUP BY model",
        ),
    ]
