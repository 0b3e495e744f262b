"""The *log* stream: lines of a small web shop's services, string-heavy, as a log shipper collects them.

Columns: ts timestamp[us] (exponential gaps), level, host (40 of them, each running a few services), service,
message, status int32 (an HTTP or SMTP status, 0 where there is none) and latency double (milliseconds, three
decimals, log-normal). A message comes from one of thirty templates of very different frequency; its
variable parts are users (some of them far busier than others), request ids (random), addresses, paths with
numbers in them, counts, sizes and, as in real services, the very status and latency of their own columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

START_MICROS = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, where the other streams start too."""

Rng = np.random.Generator


@dataclass(frozen=True)
class Template:
    """One kind of line: how often it comes, who writes it, and its text with ``{fields}``."""

    weight: float
    service: str
    level: str
    statuses: tuple[int, ...]
    text: str


_OK = (200, 200, 200, 200, 200, 200, 200, 201, 204, 304)
_NONE = (0,)

TEMPLATES = (
    Template(180, "gateway", "INFO", _OK, '{ip} "GET {path} HTTP/1.1" {status} {size} {ms}ms rid={hex16}'),
    Template(70, "gateway", "INFO", _OK, '{ip} "POST {endpoint} HTTP/1.1" {status} {size} {ms}ms rid={hex16}'),
    Template(9, "gateway", "WARN", (404,), '{ip} "GET {path} HTTP/1.1" {status} 162 {ms}ms rid={hex16}'),
    Template(
        4,
        "gateway",
        "WARN",
        (429,),
        "rate limit exceeded for client {ip}: {small} requests in 1s rid={hex16}",
    ),
    Template(3, "gateway", "ERROR", (502, 503, 504), "upstream {service} failed: {status} after {ms}ms rid={hex16}"),
    Template(60, "auth", "INFO", (200,), "session opened for user {user} from {ip} method=password"),
    Template(25, "auth", "INFO", (200,), "token refreshed user={user} ttl=3600 jti={uuid}"),
    Template(6, "auth", "WARN", (401,), "login failed for user {user} from {ip}: bad password (attempt {digit})"),
    Template(1, "auth", "ERROR", (403,), "account {user} locked after {digit} failed attempts from {ip}"),
    Template(55, "orders", "INFO", (201,), "order {order} created by user {user}, {digit} items, total {money} EUR"),
    Template(40, "orders", "INFO", _NONE, "order {order} state PENDING -> PAID in {ms}ms"),
    Template(30, "orders", "INFO", _NONE, "order {order} state PAID -> SHIPPED carrier={carrier} parcel={hex16}"),
    Template(5, "orders", "WARN", _NONE, "order {order}: item {sku} out of stock, {digit} units back-ordered"),
    Template(45, "payments", "INFO", (200,), "charge {uuid} authorised for user {user}: {money} EUR via {card}"),
    Template(4, "payments", "WARN", (402,), "charge {uuid} declined for user {user}: insufficient_funds via {card}"),
    Template(1, "payments", "ERROR", (500,), "charge {uuid}: provider timed out after {ms}ms, retry {digit} of 5"),
    Template(65, "inventory", "DEBUG", _NONE, "cache hit for sku {sku} age={small}s"),
    Template(20, "inventory", "DEBUG", _NONE, "cache miss for sku {sku}, loaded from shard {digit} in {ms}ms"),
    Template(15, "inventory", "INFO", _NONE, "reserved {digit} of sku {sku} for order {order}"),
    Template(35, "search", "INFO", (200,), "query '{words}' user={user} hits={count} took={ms}ms"),
    Template(3, "search", "WARN", (200,), "slow query '{words}' took {ms}ms, scanned {count} documents"),
    Template(22, "mailer", "INFO", _NONE, "queued mail {uuid} template={mail} to user {user}"),
    Template(18, "mailer", "INFO", (250,), "delivered mail {uuid} via mx{digit}.example.net in {ms}ms"),
    Template(2, "mailer", "WARN", (421, 450), "deferred mail {uuid}: {status} try again later, attempt {digit}"),
    Template(30, "db", "DEBUG", _NONE, "statement {hex16} rows={count} plan=index_scan table={table} {ms}ms"),
    Template(6, "db", "INFO", _NONE, "checkpoint complete: wrote {count} buffers; sync {ms}ms"),
    Template(2, "db", "WARN", _NONE, "lock wait on table {table} by session {small}: {ms}ms"),
    Template(0.5, "db", "ERROR", _NONE, "deadlock detected: session {small} waits for session {digit} on {table}"),
    Template(
        12,
        "scheduler",
        "INFO",
        _NONE,
        "job {mail} finished: processed={count} failed={digit} duration={ms}ms",
    ),
    Template(8, "scheduler", "DEBUG", _NONE, "heap {count}k used of 1048576k, gc pause {ms}ms, {small} threads"),
)

SERVICES = tuple(dict.fromkeys(template.service for template in TEMPLATES))
HOSTS = 40

_PATHS = (
    "/api/v2/products/{count}",
    "/api/v2/products?page={digit}&size=50",
    "/api/v2/users/{user}/cart",
    "/api/v2/orders/{order}",
    "/api/v2/search?q={words}",
    "/static/js/app.4f1c2e.js",
    "/static/css/main.90ab31.css",
    "/static/img/p/{count}.webp",
    "/health",
)
_ENDPOINTS = ("/api/v2/orders", "/api/v2/users/{user}/cart", "/api/v2/sessions", "/api/v2/events")
_WORDS = (
    "red",
    "blue",
    "wool",
    "cotton",
    "running",
    "shoes",
    "jacket",
    "kids",
    "summer",
    "sale",
    "light",
    "xl",
)
_CARDS = ("visa", "mastercard", "amex", "sepa", "paypal")
_CARRIERS = ("dhl", "ups", "dpd", "gls")
_MAILS = ("order_confirmation", "password_reset", "shipping_update", "newsletter", "invoice_monthly")
_TABLES = ("orders", "order_items", "users", "sessions", "stock_levels")


class LogLines:
    """The stream's state: the clock, and which service runs where."""

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us")),
            ("level", pa.string()),
            ("host", pa.string()),
            ("service", pa.string()),
            ("message", pa.string()),
            ("status", pa.int32()),
            ("latency", pa.float64()),
        ]
    )

    def __init__(self) -> None:
        weights = np.array([template.weight for template in TEMPLATES])
        self._frequency = np.cumsum(weights) / weights.sum()
        self._levels = pa.array([template.level for template in TEMPLATES])
        self._services = pa.array([template.service for template in TEMPLATES])
        self._service_number = np.array([SERVICES.index(template.service) for template in TEMPLATES])
        self._hosts = pa.array([f"shop-{'ab'[k % 2]}{k // 2 + 1:02d}.eu-west.example.net" for k in range(HOSTS)])
        self._clock = START_MICROS

    def chunk(self, rng: Rng, first: int, rows: int) -> list[Any]:
        """The columns of the next ``rows`` lines, of which ``first`` is the first one's number."""
        ts = self._clock + np.cumsum(rng.exponential(800.0, rows).astype(np.int64))
        self._clock = int(ts[-1])
        kind = np.searchsorted(self._frequency, rng.random(rows))
        latency = np.rint(rng.lognormal(2.0, 1.1, rows) * 1000) / 1000
        # Eight hosts run each service; neighbouring services share some.
        host = (self._service_number[kind] * 4 + rng.integers(0, 8, rows)) % HOSTS
        status = np.zeros(rows, np.int32)
        for number, template in enumerate(TEMPLATES):
            members = np.flatnonzero(kind == number)
            status[members] = rng.choice(np.array(template.statuses, np.int32), len(members))
        lines = _Lines(rng, first + np.arange(rows), status, latency)
        template_number = pa.array(kind)
        return [
            ts,
            self._levels.take(template_number),
            self._hosts.take(pa.array(host)),
            self._services.take(template_number),
            lines.fill([template.text for template in TEMPLATES], kind),
            status,
            latency,
        ]


class _Lines:
    """Some lines (parallel arrays); each public method makes one variable part of all of them."""

    def __init__(
        self, rng: Rng, rows: npt.NDArray[Any], statuses: npt.NDArray[Any], latencies: npt.NDArray[Any]
    ) -> None:
        self._rng = rng
        self._rows = rows
        self._statuses = statuses
        self._latencies = latencies

    def fill(self, texts: Sequence[str], choice: npt.NDArray[Any]) -> pa.Array:
        """For each line the text that ``choice`` names, its ``{fields}`` filled in."""
        order = np.argsort(choice.astype(np.uint8), kind="stable")
        bounds = np.searchsorted(choice[order], np.arange(len(texts) + 1))
        filled = []
        for text, start, end in zip(texts, bounds[:-1], bounds[1:], strict=True):
            members = order[start:end]
            some = _Lines(self._rng, self._rows[members], self._statuses[members], self._latencies[members])
            filled.append(some._fill_one(text))
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        return pa.concat_arrays(filled).take(pa.array(position))

    def _fill_one(self, text: str) -> pa.Array:
        parts: list[Any] = [self._choice(("",))]
        for literal, field in re.findall(r"([^{]*)(?:\{(\w+)\})?", text):
            if literal:
                parts.append(literal)
            if field:
                parts.append(getattr(self, field)())
        return pc.binary_join_element_wise(*parts, "")

    def status(self) -> pa.Array:
        """The status in its own column."""
        return _decimal_text(self._statuses)

    def ms(self) -> pa.Array:
        """The latency in its own column."""
        return pa.array(self._latencies).cast(pa.string())

    def ip(self) -> pa.Array:
        """A client's address: one of 20,000, some of them far busier than others."""
        client = self._skewed(20_000)
        # An odd multiplier scatters neighbouring clients over the address space.
        address = (client * 2_654_435_761) & 0xFFFFFFFF
        octets = [_decimal_text(1 + (address >> shift) % 254) for shift in (24, 16, 8, 0)]
        return pc.binary_join_element_wise(*octets, ".")

    def user(self) -> pa.Array:
        """A user's number: one of 200,000, some of them far busier than others."""
        return _decimal_text(100_000 + self._skewed(200_000))

    def order(self) -> pa.Array:
        """An order's number: close to the newest, which grows with the stream."""
        return _decimal_text(7_000_000 + self._rows // 9 - self._rng.geometric(0.02, len(self._rows)))

    def sku(self) -> pa.Array:
        """An article."""
        return pc.binary_join_element_wise("SKU-", _decimal_text(10_000 + self._skewed(40_000)), "")

    def path(self) -> pa.Array:
        """The path of a request, often with a number in it."""
        return self.fill(_PATHS, self._rng.integers(0, len(_PATHS), len(self._rows)))

    def endpoint(self) -> pa.Array:
        """Where something was posted to."""
        return self.fill(_ENDPOINTS, self._rng.integers(0, len(_ENDPOINTS), len(self._rows)))

    def size(self) -> pa.Array:
        """Bytes sent."""
        return _decimal_text(self._rng.lognormal(8.0, 1.5, len(self._rows)))

    def money(self) -> pa.Array:
        """An amount with two decimals."""
        cents = self._rng.lognormal(8.3, 0.8, len(self._rows)).astype(np.int64)
        fraction = pc.utf8_lpad(_decimal_text(cents % 100), 2, "0")
        return pc.binary_join_element_wise(_decimal_text(cents // 100), fraction, ".")

    def digit(self) -> pa.Array:
        """1 to 9."""
        return _decimal_text(self._rng.integers(1, 10, len(self._rows)))

    def small(self) -> pa.Array:
        """1 to 199."""
        return _decimal_text(self._rng.integers(1, 200, len(self._rows)))

    def count(self) -> pa.Array:
        """1 to 49,999, small ones more often."""
        return _decimal_text(1 + self._skewed(49_999))

    def hex16(self) -> pa.Array:
        """Sixteen random hexadecimal digits."""
        return self._fixed_width(self._hexadecimal(16))

    def uuid(self) -> pa.Array:
        """A random UUID."""
        characters = self._hexadecimal(36)
        characters[:, [8, 13, 18, 23]] = ord("-")
        characters[:, 14] = ord("4")
        return self._fixed_width(characters)

    def words(self) -> pa.Array:
        """Two search words."""
        return pc.binary_join_element_wise(self._choice(_WORDS), self._choice(_WORDS), "+")

    def service(self) -> pa.Array:
        """The name of a service."""
        return self._choice(SERVICES)

    def card(self) -> pa.Array:
        """A means of payment."""
        return self._choice(_CARDS)

    def carrier(self) -> pa.Array:
        """Who brings the parcel."""
        return self._choice(_CARRIERS)

    def mail(self) -> pa.Array:
        """The name of a mail template or a job."""
        return self._choice(_MAILS)

    def table(self) -> pa.Array:
        """A database table."""
        return self._choice(_TABLES)

    def _skewed(self, limit: int) -> npt.NDArray[np.int64]:
        """Numbers below ``limit`` whose density falls with about the inverse square root."""
        return (self._rng.random(len(self._rows)) ** 2 * limit).astype(np.int64)

    def _choice(self, words: Sequence[str]) -> pa.Array:
        return pa.array(words).take(pa.array(self._rng.integers(0, len(words), len(self._rows))))

    def _hexadecimal(self, digits: int) -> npt.NDArray[np.uint8]:
        numbers = self._rng.integers(0, 16, (len(self._rows), digits), np.uint8)
        return np.frombuffer(b"0123456789abcdef", np.uint8)[numbers]

    def _fixed_width(self, characters: npt.NDArray[np.uint8]) -> pa.Array:
        rows, width = characters.shape
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
        return pa.Array.from_buffers(
            pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(characters))]
        )


def _decimal_text(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.int64)).cast(pa.string())
