"""A state that many processes change without a lock, one commit after the other: numbered files, each a delta.

Commit ``N + 1`` is made by linking a synced file to the name of that number, which succeeds for exactly one of those
who try. Whoever comes second reads what is new, decides again and tries the next number. Every 16th file, the first
included, is a *checkpoint* that holds the whole state too, so a reader reads one checkpoint and at most 15 deltas.

Files before the last two checkpoints are pruned once nobody can still be on the way to them (:meth:`DeltaLog.prune`),
oldest first. That order is what lets others tell the end of the log from a hole: *while a file exists, no later one was
pruned*.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

from tidelog.model.errors import ConflictError, CorruptionError, ExistsError, InputError, NotFoundError, StorageError
from tidelog.storage.check import Finding
from tidelog.storage.media import Medium
from tidelog.store.documents import Document, decode, encode
from tidelog.store.filenames import born_at, join, new_file_name

CHECKPOINT_EVERY: Final = 16

Clock: TypeAlias = Callable[[], float]
"""Wall-clock time in seconds since 1970."""

_DIGITS = 20
_NUMBERED = re.compile(rf"([0-9]{{{_DIGITS}}})\.json")
_TEMPORARY = ".tmp"


class Numbered(Protocol):
    """A state knows the number of the commit it is the result of; 0 before the first."""

    @property
    def number(self) -> int: ...  # noqa: D102


S = TypeVar("S", bound=Numbered)
C = TypeVar("C")


class Ledger(ABC, Generic[S, C]):
    """What a delta log is about: states, changes, and how both look as JSON values.

    ``apply`` must follow from its arguments alone: every reader repeats it.
    """

    kind: ClassVar[str]
    """Written into every file, so that files of different logs cannot be mistaken for each other."""

    @abstractmethod
    def empty(self) -> S:
        """The state with number 0."""

    @abstractmethod
    def apply(self, state: S, change: C, number: int, at: float) -> S:
        """The state ``number`` that ``change`` makes of ``state``; raises when it cannot be made."""

    @abstractmethod
    def change_to_dict(self, change: C) -> dict[str, Any]:
        """A change as JSON values."""

    @abstractmethod
    def change_from_dict(self, values: dict[str, Any]) -> C:
        """The change that :meth:`change_to_dict` described."""

    @abstractmethod
    def state_to_dict(self, state: S) -> dict[str, Any]:
        """A state, but for its number, as JSON values."""

    @abstractmethod
    def state_from_dict(self, values: dict[str, Any], number: int) -> S:
        """The state that :meth:`state_to_dict` described."""


@dataclass(frozen=True, slots=True)
class _Known(Generic[S]):
    """A state, and the hash of the document that led to it."""

    state: S
    digest: str | None


class DeltaLog(Generic[S, C]):
    """The log in ``directory`` of a medium. May be used by any number of threads and processes at once.

    Nothing is read or written before a method is called; reading never writes.
    """

    def __init__(self, medium: Medium, directory: str, ledger: Ledger[S, C], *, clock: Clock = time.time) -> None:
        self.medium = medium
        self.directory = directory
        self.clock = clock
        self._ledger = ledger
        self._newest: _Known[S] | None = None
        # Threads of one process take turns instead of colliding; a change may commit to its own log, and collide.
        self._turn = threading.RLock()

    # Reading. -------------------------------------------------------------------------------------

    def load(self) -> S:
        """The newest state; all commits acknowledged before this call, to whichever process, are in it.

        Raises :class:`NotFoundError` if there is no log, :class:`CorruptionError` if it is damaged.
        """
        return self._load().state

    def exists(self) -> bool:
        """Whether something was ever committed."""
        return bool(self._numbers())

    def _load(self) -> _Known[S]:
        known = self._newest
        newest = None if known is None else self._advanced(known)
        if newest is None:
            newest = self._read_all()
        self._newest = newest
        return newest

    def _advanced(self, start: _Known[S]) -> _Known[S] | None:
        """The newest state, found by going on from one known; None if pruning has overtaken it."""
        known = start
        while self.medium.exists(self._name(known.state.number + 1)):
            try:
                known = self._next(known, *self._read(known.state.number + 1))
            except NotFoundError:
                break
        # As long as this file exists, nothing behind it was pruned: what was not found just now was not there yet, and
        # what was found is no straggler in a hole (see _took_effect).
        return known if self.medium.exists(self._name(start.state.number)) else None

    def _read_all(self) -> _Known[S]:
        newest = self._newest_number()
        while True:
            try:
                return self._replay(newest)
            except NotFoundError as error:
                before, newest = newest, self._newest_number()
                if newest == before:  # then nobody can have pruned what was not found
                    raise CorruptionError(
                        f"{error}, although {self._name(newest)} builds on it; restore it from a backup"
                    ) from error

    def _newest_number(self) -> int:
        numbers = self._numbers()
        if not numbers:
            raise NotFoundError(f"there is no {self._ledger.kind} in {self._place()}")
        return numbers[-1]

    def _replay(self, newest: int) -> _Known[S]:
        number = checkpoint_of(newest)
        known = self._restored(*self._read(number))
        while known.state.number < newest:
            known = self._next(known, *self._read(known.state.number + 1))
        return known

    def _restored(self, document: Document, digest: str) -> _Known[S]:
        if document.state is None:
            raise CorruptionError(f"{self._name(document.number)} should be a checkpoint, but holds no state")
        with self._understanding(document):
            return _Known(self._ledger.state_from_dict(document.state, document.number), digest)

    def _next(self, known: _Known[S], document: Document, digest: str) -> _Known[S]:
        if known.digest != document.previous:
            raise CorruptionError(
                f"{self._name(document.number)} was not written behind the {self._name(document.number - 1)} that is "
                "there; restore both from the same backup"
            )
        with self._understanding(document):
            change = self._ledger.change_from_dict(document.delta)
            return _Known(self._ledger.apply(known.state, change, document.number, document.at), digest)

    def _understanding(self, document: Document) -> _Understanding:
        return _Understanding(self._name(document.number))

    def _read(self, number: int) -> tuple[Document, str]:
        name = self._name(number)
        with self.medium.open(name) as file:
            content = file.read(0, file.size())
        return decode(self._ledger.kind, name, number, content)

    def _numbers(self) -> list[int]:
        return sorted(int(match[1]) for name in self._plain_names() if (match := _NUMBERED.fullmatch(name)))

    def _plain_names(self) -> Iterator[str]:
        prefix = join(self.directory, "")
        for name in self.medium.names(prefix):
            plain = name[len(prefix) :]
            if "/" not in plain:
                yield plain

    def _name(self, number: int) -> str:
        return join(self.directory, f"{number:0{_DIGITS}d}.json")

    def _place(self) -> str:
        return self.directory or "the root"

    def needed(self, number: int) -> list[str]:
        """The names of the files that the state ``number`` and a :meth:`check` of it take, oldest first."""
        first = max(1, checkpoint_of(number) - CHECKPOINT_EVERY)
        return [self._name(each) for each in range(first, number + 1)]

    # Writing. -------------------------------------------------------------------------------------

    def create(self, change: C) -> S:
        """Make commit 1; raises :class:`ExistsError` when there is one. The directory must exist."""
        with self._turn:
            empty: _Known[S] = _Known(self._ledger.empty(), None)
            made = None if self.exists() else self._attempt(empty, change)
            if made is None:
                raise ExistsError(f"there is a {self._ledger.kind} in {self._place()} already; load it")
            return made.state

    def commit(self, change: Callable[[S], C | None]) -> S:
        """Let ``change`` say what to change of the newest state, and commit it durably; returns the new state.

        ``change`` is called again with a newer state whenever somebody else was faster, so it must decide by its
        argument. It returns None to change nothing, and raises to give up: nothing is committed then. Raises
        :class:`NotFoundError` if there is no log. After an error of the medium nothing is committed either, unless its
        message says otherwise.
        """
        with self._turn:
            while True:
                known = self._load()
                wanted = change(known.state)
                if wanted is None:
                    return known.state
                made = self._attempt(known, wanted)
                if made is not None:
                    return made.state

    def _attempt(self, known: _Known[S], change: C) -> _Known[S] | None:
        """Commit behind a known state; None if somebody else did."""
        number = known.state.number + 1
        at = self.clock()
        state = self._ledger.apply(known.state, change, number, at)
        delta = self._ledger.change_to_dict(change)
        whole = self._ledger.state_to_dict(state) if checkpoint_of(number) == number else None
        document = Document(number, at, secrets.token_hex(8), known.digest, delta, whole)
        content, digest = encode(self._ledger.kind, document)
        if not self._publish(document, content, digest):
            return None
        made = _Known(state, digest)
        self._newest = made
        return made

    def _publish(self, document: Document, content: bytes, digest: str) -> bool:
        target = self._name(document.number)
        temporary = join(self.directory, new_file_name(document.at, _TEMPORARY))
        try:
            with self.medium.create(temporary) as file:
                file.write(0, content)
                file.sync()
            try:
                linked = self.medium.link(temporary, target) or self._is_ours(document)
            except NotFoundError:
                return False  # swept up: this took longer than the grace period
        finally:
            # What stays behind, because of an error or a crash, is swept up some day.
            with suppress(StorageError, NotFoundError):
                self.medium.remove(temporary)
        if not linked or not self._took_effect(document.number, digest):
            return False
        try:
            self.medium.sync_names(self.directory)
        except StorageError as error:
            failure = StorageError(
                f"{error}; {target} is committed for all who read it now, but a crash of the machine may undo it"
            )
            failure.errno = error.errno
            raise failure from error
        return True

    def _is_ours(self, document: Document) -> bool:
        """Whether the file that is in the way is our own: some network file systems link, then say it exists."""
        try:
            found, _ = self._read(document.number)
        except NotFoundError:
            return False
        return found.writer == document.writer

    def _took_effect(self, number: int, digest: str) -> bool:
        """Whether the file just linked continues the log, or came so late that it fell into a hole left by pruning.

        A hole can only be where the file before has been pruned as well.
        """
        if number > 1 and self.medium.exists(self._name(number - 1)):
            return True
        if self._numbers()[-1:] == [number]:
            return True
        try:
            return self._read(number + 1)[0].previous == digest
        except NotFoundError:
            pass
        try:
            self.medium.remove(self._name(number))
        except NotFoundError:
            # Pruned as a part of the log, or as a straggler: nobody can tell any more.
            raise StorageError(
                f"commit {number} in {self._place()} took longer than the grace period, and its outcome is unknown; "
                "load the newest state to see what it contains"
            ) from None
        return False

    # Keeping order. -------------------------------------------------------------------------------

    def prune(self, grace: float, now: float | None = None) -> list[str]:
        """Remove files that no reader can need any more; returns their names.

        These are files before the last checkpoint but one, once the checkpoint that stands in for them is older than
        ``grace`` seconds, and what interrupted commits left behind that long ago. ``now`` is the clock's unless given.
        """
        limit = (self.clock() if now is None else now) - grace
        numbers = self._numbers()
        removed = []
        if numbers:
            keep_from = self._prunable(numbers, limit)
            removed = [self._name(number) for number in numbers if number < keep_from]
        for plain in self._plain_names():
            born = born_at(plain) if plain.endswith(_TEMPORARY) else None
            if born is not None and born <= limit:
                removed.append(join(self.directory, plain))
        for name in removed:  # numbers ascend: see the head of this module
            with suppress(NotFoundError):
                self.medium.remove(name)
        if removed:
            self.medium.sync_names(self.directory)
        return removed

    def _prunable(self, numbers: list[int], limit: float) -> int:
        """The number before which all may go."""
        checkpoint = checkpoint_of(numbers[-1]) - CHECKPOINT_EVERY
        while checkpoint >= numbers[0]:
            try:
                if self._read(checkpoint)[0].at <= limit:
                    return checkpoint
            except NotFoundError:  # pruned by somebody else, who was interrupted before or is still at it
                return checkpoint
            checkpoint -= CHECKPOINT_EVERY
        return numbers[0]

    def check(self) -> list[Finding]:
        """Everything wrong with the log; an empty list means that all is well.

        From the last checkpoint but one on, every file must be there, build on the one before, and checkpoints must say
        what their deltas add up to. Older files are waiting to be pruned and need only be whole.
        """
        numbers = self._numbers()
        if not numbers:
            return [Finding(self._place(), f"there is no {self._ledger.kind}")]
        newest = numbers[-1]
        needed = max(1, checkpoint_of(newest) - CHECKPOINT_EVERY)  # see :meth:`needed`
        findings = [
            Finding(join(self.directory, plain), "is no file of this log; move it elsewhere")
            for plain in self._plain_names()
            if not _NUMBERED.fullmatch(plain) and not (plain.endswith(_TEMPORARY) and born_at(plain) is not None)
        ]
        for number in numbers:
            if number < needed:
                with suppress(NotFoundError):
                    findings += self._faults(number, None)[0]
        known = _Known(self._ledger.empty(), None) if needed == 1 else None
        for number in range(needed, newest + 1):
            try:
                more, known = self._faults(number, known)
            except NotFoundError:
                more, known = [Finding(self._name(number), "is missing; restore it from a backup")], None
            findings += more
        return findings

    def _faults(self, number: int, before: _Known[S] | None) -> tuple[list[Finding], _Known[S] | None]:
        """What is wrong with a file, given the state before if it is known; and the state behind it if it is."""
        try:
            document, digest = self._read(number)
            behind = None if before is None else self._next(before, document, digest)
            if checkpoint_of(number) != number:
                return [], behind
            restored = self._restored(document, digest)
            if behind is not None and restored.state != behind.state:
                return [Finding(self._name(number), "does not hold the state that the files before it add up to")], None
            return [], restored
        except NotFoundError:
            raise
        except StorageError as error:
            return [Finding(self._name(number), str(error))], None


class _Understanding:
    """Inside, whatever a ledger finds wrong with values that were stored is damage of the named file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | InputError | ConflictError):
            raise CorruptionError(f"{self._name} makes no sense: {error!r}; restore it from a backup") from error


def checkpoint_of(number: int) -> int:
    """The number of the newest checkpoint that is not behind ``number``."""
    return number - (number - 1) % CHECKPOINT_EVERY
