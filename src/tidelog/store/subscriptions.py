"""What is kept of named subscriptions: how far they have read, what they know, and what they have given last.

``subscriptions/<escaped name>/`` has a lock, held by who runs it, and a journal, ``<number>.journal``
(:mod:`tidelog.storage.journal.format`). Each record is a step; the last one that is whole counts:

==========  ================================================================================================
u32         length of what follows up to the chunks
JSON        ``values`` of the step: ``number``, ``inputs``, ``into``, and what only the subscription knows; ``chunks``:
            name and length of each one that is new; ``gone``: names of those that are needed no more; ``output``:
            length of what the step gives
bytes       the chunks, then the output
==========  ================================================================================================

The first record of a journal has all chunks. When a journal has become long the next one begins, and it is removed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tidelog.model.closing import Closing
from tidelog.model.errors import NONSENSE, CorruptionError, InputError, LockedError, NotFoundError, TidelogError
from tidelog.storage.journal.journal import Journal, read_journal
from tidelog.storage.media.files import Readable, bytes_of
from tidelog.storage.media.lock import Lock
from tidelog.storage.media.medium import Medium
from tidelog.storage.read.check import Finding
from tidelog.store.log.stream_names import escape_name, unescape_name

SUBSCRIPTIONS: Final = "subscriptions"
_JOURNAL: Final = ".journal"
_LOCK: Final = "lock"
_DIGITS: Final = 20
_LENGTH: Final = struct.Struct("<I")
_LONGEST_NAME: Final = 200
"""Bytes of an escaped name."""
_LONG: Final = 1 << 20
"""Bytes from which on a journal is replaced when it is four times as long as what it has to say."""
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a subscription after a step."""

    values: dict[str, Any]
    """JSON values."""
    chunks: Mapping[str, Readable] = field(default_factory=dict)
    """What a name stands for never changes."""
    output: Readable = b""
    """What the step has given, for who may have to give it again."""

    @property
    def number(self) -> int:
        """How many steps have given something."""
        return int(self.values["number"])

    @property
    def streams(self) -> set[str]:
        """The ids of the streams that are read."""
        return {each["stream"] for each in self.values["inputs"]}

    @property
    def into(self) -> str | None:
        """The name of the stream that takes what is given."""
        name: str | None = self.values["into"]
        return name


def check_subscription_name(name: object) -> str:
    """Return a name that a subscription can have, or raise :class:`InputError`."""
    if not isinstance(name, str):
        raise InputError(f"found {name!r} ({type(name).__name__}) for the name of a subscription; expected a str")
    try:
        size = len(escape_name(name))
    except UnicodeEncodeError as error:
        raise InputError(f"found the name {name!r}, which is not Unicode text: {error.reason}") from None
    if not 1 <= size <= _LONGEST_NAME:
        raise InputError(
            f"found a name of {len(name)} characters for a subscription; expected 1 to {_LONGEST_NAME}, and fewer "
            "where they are no plain letters"
        )
    return name


def _directory(name: str) -> str:
    return f"{SUBSCRIPTIONS}/{escape_name(check_subscription_name(name))}"


def subscription_names(medium: Medium) -> list[str]:
    """The names of all subscriptions that something is kept of, sorted."""
    found = set()
    for path in medium.names(f"{SUBSCRIPTIONS}/"):
        parts = path.split("/")
        if len(parts) == 3 and parts[2].endswith(_JOURNAL):
            with suppress(InputError):  # no name of ours
                found.add(unescape_name(parts[1]))
    return sorted(found)


def is_running(medium: Medium, name: str) -> bool:
    """Whether somebody runs a subscription."""
    return medium.is_locked(f"{_directory(name)}/{_LOCK}")


def read_subscription(medium: Medium, name: str) -> Kept:
    """What is kept of a subscription, which others may be running.

    Raises :class:`NotFoundError` if there is none, :class:`CorruptionError` if it is damaged.
    """
    directory = _directory(name)
    for _ in range(_ATTEMPTS):
        for number in reversed(_numbers(medium, directory)):
            try:
                found = _read(medium, _journal_name(directory, number))
            except NotFoundError:  # replaced by the next one
                break
            if found is not None:
                return found[0]
        else:
            break
    raise NotFoundError(f"there is no subscription {name!r}; store.subscriptions() tells which there are")


def drop_subscription(medium: Medium, name: str) -> None:
    """Forget a subscription. Raises :class:`NotFoundError` if there is none, :class:`LockedError` if it is running."""
    directory = _directory(name)
    if not _numbers(medium, directory):
        raise NotFoundError(f"there is no subscription {name!r}; store.subscriptions() tells which there are")
    lock = _locked(medium, name)
    try:
        *older, newest = _numbers(medium, directory)
        for number in older:
            medium.remove(_journal_name(directory, number))
        medium.sync_names(directory)  # also of those removed before: none may outlive the newest one in a crash
        medium.remove(_journal_name(directory, newest))
        medium.sync_names(directory)
    finally:
        lock.release()


def check_subscriptions(medium: Medium) -> list[Finding]:
    """Everything wrong with what is kept of subscriptions."""
    findings = []
    for name in subscription_names(medium):
        try:
            read_subscription(medium, name)
        except NotFoundError:  # dropped meanwhile, or begun and not kept yet
            continue
        except TidelogError as error:
            findings.append(Finding(_directory(name), str(error)))
    return findings


def write_subscription(medium: Medium, name: str, kept: Kept) -> None:
    """Keep what another store has of a subscription: for copies of it."""
    with SubscriptionLog.open(medium, name) as log:
        log.commit(kept)


class SubscriptionLog(Closing):
    """What is kept of a subscription, for the one who runs it; close it."""

    def __init__(self, medium: Medium, directory: str, lock: Lock) -> None:
        """Use :meth:`open`."""
        self._medium = medium
        self._directory = directory
        self._lock = lock
        self._journal: Journal | None = None
        self._number = 0
        self._sizes: dict[str, int] = {}
        """Chunks that the journal has."""
        self.kept: Kept | None = None
        """What the last step has left; None if there was none."""

    @classmethod
    def open(cls, medium: Medium, name: str) -> Self:
        """Take a subscription over. Raises :class:`LockedError` if somebody, here or elsewhere, runs it."""
        directory = _directory(name)
        lock = _locked(medium, name)
        log = cls(medium, directory, lock)
        try:
            log._recover()
        except BaseException:
            log.close()
            raise
        return log

    def _recover(self) -> None:
        numbers = _numbers(self._medium, self._directory)
        for number in reversed(numbers):
            path = _journal_name(self._directory, number)
            found = _read(self._medium, path)
            if found is None:  # begun, and nothing was kept in it
                self._medium.remove(path)
                continue
            self.kept, self._sizes = found
            self._number = number
            self._journal = Journal.open(self._medium, path)
            self._remove_before(number)
            return
        self._number = numbers[-1] if numbers else 0

    def commit(self, kept: Kept) -> None:
        """Keep what a step has left; when this returns it survives any crash."""
        sizes = {name: len(bytes_of(content)) for name, content in kept.chunks.items()}
        journal = self._journal
        if journal is None or journal.bytes > max(_LONG, 4 * sum(sizes.values())):
            self._number += 1
            name = _journal_name(self._directory, self._number)
            following = Journal.create(self._medium, name, room=1 << 12)
            self._sizes = {}
            following.append_durably(self._packed(kept, sizes))
            self._journal = following
            if journal is not None:
                journal.abandon()
            self._remove_before(self._number)
        else:
            journal.append_durably(self._packed(kept, sizes))
        self._sizes = sizes
        self.kept = kept

    def _packed(self, kept: Kept, sizes: Mapping[str, int]) -> bytes:
        new = [(name, size) for name, size in sizes.items() if name not in self._sizes]
        gone = [name for name in self._sizes if name not in sizes]
        output = bytes_of(kept.output)
        told = {"values": kept.values, "chunks": new, "gone": gone, "output": len(output)}
        head = json.dumps(told, separators=(",", ":")).encode()
        return b"".join((_LENGTH.pack(len(head)), head, *(bytes_of(kept.chunks[name]) for name, _ in new), output))

    def _remove_before(self, number: int) -> None:
        for each in _numbers(self._medium, self._directory):
            if each < number:
                self._medium.remove(_journal_name(self._directory, each))

    def close(self) -> None:
        """Let others run it."""
        try:
            if self._journal is not None:
                self._journal.abandon()  # every record is durable already
        finally:
            self._lock.release()


def _locked(medium: Medium, name: str) -> Lock:
    directory = _directory(name)
    medium.make_directory(directory)
    try:
        return medium.lock(f"{directory}/{_LOCK}")
    except LockedError as error:
        raise LockedError(
            f"subscription {name!r} is running, here or in another process ({error}); close it there first, or choose "
            "another name"
        ) from error


def _journal_name(directory: str, number: int) -> str:
    return f"{directory}/{number:0{_DIGITS}d}{_JOURNAL}"


def _numbers(medium: Medium, directory: str) -> list[int]:
    names = (path.rpartition("/")[2] for path in medium.names(f"{directory}/") if path.endswith(_JOURNAL))
    return sorted(int(stem) for name in names if (stem := name.removesuffix(_JOURNAL)).isdigit())


def _read(medium: Medium, path: str) -> tuple[Kept, dict[str, int]] | None:
    """What the last record of a journal says, and the lengths of its chunks; None if there is none."""
    chunks: dict[str, Readable] = {}
    last: Kept | None = None
    with read_journal(medium, path) as journal:
        for record in journal.records():
            try:
                last = _unpacked(record.payload, chunks)
            except NONSENSE as error:
                raise CorruptionError(
                    f"record {record.number} of {path} makes no sense: {error!r}; restore a backup, or drop the "
                    "subscription and begin it anew"
                ) from error
    if last is None:
        return None
    return last, {name: len(bytes_of(content)) for name, content in last.chunks.items()}


def _unpacked(payload: bytes, chunks: dict[str, Readable]) -> Kept:
    """A record behind those that have left some chunks, which are brought up to date."""
    (length,) = _LENGTH.unpack_from(payload)
    at = _LENGTH.size + length
    told = json.loads(payload[_LENGTH.size : at])
    for name in told["gone"]:
        del chunks[name]
    for name, size in told["chunks"]:
        chunks[name] = payload[at : at + size]
        at += size
    if at + told["output"] != len(payload):
        raise ValueError(f"found {len(payload)} bytes; expected {at + told['output']}")
    return Kept(told["values"], dict(chunks), payload[at:])
