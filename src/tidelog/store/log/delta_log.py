"""A state that many processes change without a lock, one commit after the other: numbered files, each a delta.

Commit ``N + 1`` is made by linking a synced file to the name of that number, which succeeds for exactly one of those
who try. Whoever comes second reads what is new, decides again and tries the next number.

Some files, the first included, are *checkpoints* that hold the whole state too, and every file names the last one
before it. So a reader reads the newest file, the checkpoint it names, and the deltas behind that. A checkpoint is
written when reading the deltas since the last one takes as long as reading that one. So checkpoints cost each commit
some kilobytes, however large the state is, and a reader takes at most about twice as long as for the state alone.

Files before the last two checkpoints are pruned once nobody can still be on the way to them (:meth:`DeltaLog.prune`),
oldest first. That order is what lets others tell the end of the log from a hole: *while a file exists, no later one was
pruned*. That the end itself was lost is told by a mark beside the files (:mod:`tidelog.store.log.newest_mark`).
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

from tidelog.model.errors import (
    NONSENSE,
    CorruptionError,
    ExistsError,
    NewerReleaseError,
    NotFoundError,
    StorageError,
    TidelogError,
)
from tidelog.storage.media.medium import Medium
from tidelog.storage.media.reserve import FULL
from tidelog.storage.read.check import Finding
from tidelog.store.log.documents import Document, decode, encode
from tidelog.store.log.file_names import born_at, join, new_file_name
from tidelog.store.log.members import Record
from tidelog.store.log.newest_mark import MARK, Newest, read_mark, write_mark

CHECKPOINT_AFTER: Final = 16
"""There are at least so many commits from one checkpoint to the next."""

_OPENING: Final = 8192
"""What it takes to read a file of a delta besides its bytes, in bytes of a checkpoint that are read in the same time:
about 80 microseconds against 10 for a kilobyte."""

_REMEMBERED: Final = 64
"""Checkpoints of which it is remembered when they were committed."""

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
    states: Record[S]
    """The form of states, but for their numbers."""
    changes: Record[C]

    @abstractmethod
    def empty(self) -> S:
        """The state with number 0."""

    @abstractmethod
    def apply(self, state: S, change: C, number: int, at: float) -> S:
        """The state ``number`` that ``change`` makes of ``state``; raises when it cannot be made."""

    def detached(self, state: S) -> S:
        """An equal state that shares nothing with others that :meth:`advance` could change."""
        return state

    def advance(self, state: S, change: C, number: int, at: float) -> S:
        """Like :meth:`apply`, for a state that is detached, and that nobody will ask for again: it may be used up.

        So is the result. For those who read many changes one after the other.
        """
        return self.apply(state, change, number, at)

    def change_to_dict(self, change: C) -> dict[str, Any]:
        """A change as JSON values."""
        return self.changes.to_dict(change)

    def change_from_dict(self, values: dict[str, Any]) -> C:
        """The change that :meth:`change_to_dict` described."""
        return self.changes.from_dict(values)

    def state_to_dict(self, state: S) -> dict[str, Any]:
        """A state, but for its number, as JSON values."""
        return self.states.to_dict(state)

    def state_from_dict(self, values: dict[str, Any], number: int) -> S:
        """The state that :meth:`state_to_dict` described."""
        return self.states.from_dict(values, number=number)


@dataclass(frozen=True, slots=True)
class _Known(Generic[S]):
    """A state, the hash of the document that led to it, and what it took to read it."""

    state: S
    digest: str | None
    checkpoint: int | None = None
    """The number of the last document with a state, up to this one; None if there is none yet."""
    whole: int = 0
    """The bytes of that document."""
    since: int = 0
    """What it takes to read the deltas behind it, in bytes."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the next commit is to be a checkpoint."""
        if self.checkpoint is None:
            return True
        return self.state.number + 1 - self.checkpoint >= CHECKPOINT_AFTER and self.since >= self.whole

    def followed(self, state: S, digest: str, size: int, *, is_checkpoint: bool) -> _Known[S]:
        """What is known behind the next document, of so many bytes."""
        if is_checkpoint:
            return _Known(state, digest, state.number, size)
        return _Known(state, digest, self.checkpoint, self.whole, self.since + size + _OPENING)


@dataclass(frozen=True, slots=True)
class _Read:
    """A document, its hash, and the bytes of its file."""

    document: Document
    digest: str
    size: int


class _UndecidedError(StorageError):
    """A commit that others can see, and that a crash may undo."""


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
        self._checkpoints: dict[int, tuple[float, int | None]] = {}
        """Of the last checkpoints that were met, when they were committed, and which one was before."""
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
        is_detached = False
        while self.medium.exists(self._name(known.state.number + 1)):
            try:
                found = self._read(known.state.number + 1)
            except NotFoundError:
                break
            if known is not start and not is_detached:
                known = replace(known, state=self._ledger.detached(known.state))
                is_detached = True
            known = self._next(known, found, is_detached=is_detached)
        # As long as this file exists, nothing behind it was pruned: what was not found just now was not there yet, and
        # what was found is no straggler in a hole (see _took_effect).
        return known if self.medium.exists(self._name(start.state.number)) else None

    def _read_all(self) -> _Known[S]:
        newest = self._newest_number()
        while True:
            try:
                known = self._replay(newest)
                lost = self._lost(known)
                if lost is None:
                    return known
                before, newest = newest, self._newest_number()
                if newest == before:  # then nobody has committed meanwhile what the mark names
                    raise CorruptionError(lost)
            except NotFoundError as error:
                before, newest = newest, self._newest_number()
                if newest == before:  # then nobody can have pruned what was not found
                    raise CorruptionError(
                        f"{error}, although {self._name(newest)} builds on it; restore it from a backup"
                    ) from error

    def _lost(self, known: _Known[S]) -> str | None:
        """What is wrong if the mark tells of a commit that is not there; None if all is well."""
        mark = read_mark(self.medium, self.directory)
        if mark is None or mark.number < known.state.number:
            return None
        if mark.number > known.state.number:
            return (
                f"{self._name(mark.number)} is missing: commit {mark.number} was made, and the last one that is there "
                f"is {known.state.number}; restore it from a backup, or salvage the store"
            )
        if mark.digest != known.digest:
            return (
                f"{self._name(mark.number)} is another file than the one that was committed; put back the file that "
                "belongs there, or salvage the store"
            )
        return None

    def _newest_number(self) -> int:
        numbers = self._numbers()
        if not numbers:
            mark = read_mark(self.medium, self.directory)
            if mark is not None:
                raise CorruptionError(
                    f"all files of the {self._ledger.kind} in {self._place()} are missing, of which there were "
                    f"{mark.number}; restore them from a backup, or salvage the store"
                )
            raise NotFoundError(f"there is no {self._ledger.kind} in {self._place()}")
        return numbers[-1]

    def _replay(self, newest: int) -> _Known[S]:
        last = self._read(newest)
        first = last.document.begins_at
        if first is None or first > newest:
            raise CorruptionError(f"{self._name(newest)} names no checkpoint to begin with; restore it from a backup")
        known = self._restored(last if first == newest else self._read(first))
        for number in range(first + 1, newest + 1):
            known = self._next(known, last if number == newest else self._read(number), is_detached=True)
        return known

    def salvage(self) -> tuple[S | None, list[str]]:
        """The newest state that documents which are whole lead to, and what is wrong with the others.

        Where some are missing or damaged, those behind them are applied as far as they still fit. None if there is no
        document to begin with.
        """
        wrong: list[str] = []
        found: dict[int, _Read] = {}
        numbers = self._numbers()
        for number in numbers:
            try:
                found[number] = self._read(number)
            except (CorruptionError, NotFoundError) as error:
                wrong.append(str(error))
        known: _Known[S] | None = None
        for number in sorted(found, reverse=True):
            try:
                known = self._replay(number)
                break
            except (CorruptionError, NotFoundError):
                continue
        if known is None:
            if numbers or wrong or read_mark(self.medium, self.directory) is not None:
                wrong.append(f"nothing is left of the {self._ledger.kind} in {self._place()} that could be read")
            return None, wrong
        lost = self._lost(known)
        if lost is not None:
            wrong.append(lost)
        state = known.state
        for number in sorted(number for number in found if number > state.number):
            document = found[number].document
            try:
                with self._understanding(document):
                    change = self._ledger.change_from_dict(document.delta)
                    state = self._ledger.apply(state, change, number, document.at)
            except CorruptionError as error:
                wrong.append(f"{error}; it was left out")
        return state, wrong

    def _restored(self, found: _Read) -> _Known[S]:
        document = found.document
        if document.state is None:
            raise CorruptionError(f"{self._name(document.number)} should be a checkpoint, but holds no state")
        with self._understanding(document):
            state = self._ledger.state_from_dict(document.state, document.number)
        return _Known(state, found.digest, document.number, found.size)

    def _next(self, known: _Known[S], found: _Read, *, is_detached: bool = False) -> _Known[S]:
        """What is known behind the next document; with ``is_detached``, what was known before is used up."""
        document = found.document
        if (known.digest, known.checkpoint) != (document.previous, document.checkpoint):
            raise CorruptionError(
                f"{self._name(document.number)} was not written behind the {self._name(document.number - 1)} that is "
                "there; restore both from the same backup"
            )
        with self._understanding(document):
            change = self._ledger.change_from_dict(document.delta)
            apply = self._ledger.advance if is_detached else self._ledger.apply
            state = apply(known.state, change, document.number, document.at)
        return known.followed(state, found.digest, found.size, is_checkpoint=document.state is not None)

    def _understanding(self, document: Document) -> _Understanding:
        return _Understanding(self._name(document.number))

    def _read(self, number: int) -> _Read:
        name = self._name(number)
        with self.medium.open(name) as file:
            content = file.read(0, file.size())
        found = _Read(*decode(self._ledger.kind, name, number, content), len(content))
        self._remember(found.document)
        return found

    def _remember(self, document: Document) -> None:
        if document.state is not None:
            self._checkpoints[document.number] = (document.at, document.checkpoint)
            if len(self._checkpoints) > _REMEMBERED:
                del self._checkpoints[min(self._checkpoints)]

    def _checkpoint(self, number: int) -> tuple[float, int | None]:
        """When a checkpoint was committed, and which one is before it; :class:`NotFoundError` if it is not there."""
        known = self._checkpoints.get(number)
        if known is None or not self.medium.exists(self._name(number)):
            document = self._read(number).document
            known = document.at, document.checkpoint
        return known

    def _numbers(self) -> list[int]:
        return sorted(int(match[1]) for name in self._plain_names() if (match := _NUMBERED.fullmatch(name)))

    def _plain_names(self) -> Iterator[str]:
        prefix = join(self.directory, "")
        for name in self.medium.names(prefix):
            plain = name[len(prefix) :]
            if "/" not in plain:
                yield plain

    def _name(self, number: int) -> str:
        return _file_name(self.directory, number)

    def _place(self) -> str:
        return self.directory or "the root"

    # Writing. -------------------------------------------------------------------------------------

    def create(self, change: C) -> S:
        """Make commit 1; raises :class:`ExistsError` when there is one. The directory must exist."""
        with self._turn:
            empty: _Known[S] = _Known(self._ledger.empty(), None)
            exists = self.exists()
            if not exists and read_mark(self.medium, self.directory) is not None:
                self._newest_number()  # which says what is lost
            made = None if exists else self._attempt(empty, change)
            if made is None:
                raise ExistsError(f"there is a {self._ledger.kind} in {self._place()} already; load it")
            return made.state

    def plant(self, state: S, at: float) -> None:
        """Begin a log, in a directory that has none, with a state that another log has; it keeps its number.

        ``at`` is when it was committed there. Raises :class:`ExistsError` if there is a log.
        """
        with self._turn:
            whole = self._ledger.state_to_dict(state)
            document = Document(state.number, at, secrets.token_hex(8), None, None, {}, whole)
            content, digest = encode(self._ledger.kind, self.directory, document)
            if self.exists() or not self._publish(document, content, digest):
                raise ExistsError(f"there is a {self._ledger.kind} in {self._place()} already; choose another place")
            write_mark(self.medium, self.directory, Newest(state.number, digest), durably=True)
            self.medium.sync_names(self.directory)
            self._newest = _Known(state, digest, state.number, len(content))

    def commit(self, change: Callable[[S], C | None], *, frees: bool = False) -> S:
        """Let ``change`` say what to change of the newest state, and commit it durably; returns the new state.

        ``change`` is called again with a newer state whenever somebody else was faster, so it must decide by its
        argument. It returns None to change nothing, and raises to give up: nothing is committed then. Raises
        :class:`NotFoundError` if there is no log. After an error of the medium nothing is committed either, unless its
        message says otherwise.

        A change that ``frees`` space, now or in time, is made on a full disk too: with what was set aside for it, and
        without a checkpoint.
        """
        with self._turn:
            is_short = False
            while True:
                known = self._load()
                wanted = change(known.state)
                if wanted is None:
                    return known.state
                try:
                    made = self._attempt(known, wanted, is_short=is_short)
                except StorageError as error:
                    is_full = error.errno in FULL and not isinstance(error, _UndecidedError)
                    if not (frees and is_full and self.medium.give_back()):
                        raise
                    is_short = True
                    continue
                if made is not None:
                    return made.state

    def _attempt(self, known: _Known[S], change: C, *, is_short: bool = False) -> _Known[S] | None:
        """Commit behind a known state; None if somebody else did. With ``is_short``, in no more bytes than needed."""
        number = known.state.number + 1
        at = self.clock()
        state = self._ledger.apply(known.state, change, number, at)
        delta = self._ledger.change_to_dict(change)
        is_whole = known.checkpoint is None or (known.wants_checkpoint and not is_short)
        whole = self._ledger.state_to_dict(state) if is_whole else None
        document = Document(number, at, secrets.token_hex(8), known.digest, known.checkpoint, delta, whole)
        content, digest = encode(self._ledger.kind, self.directory, document)
        if not self._publish(document, content, digest):
            return None
        if known.digest is not None:  # a log that lost its only file is noticed without a mark
            write_mark(self.medium, self.directory, Newest(number, digest))
        made = known.followed(state, digest, len(content), is_checkpoint=whole is not None)
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
            failure = _UndecidedError(
                f"{error}; {target} is committed for all who read it now, but a crash of the machine may undo it"
            )
            failure.errno = error.errno
            raise failure from error
        return True

    def _is_ours(self, document: Document) -> bool:
        """Whether the file that is in the way is our own: some network file systems link, then say it exists."""
        try:
            found = self._read(document.number)
        except NotFoundError:
            return False
        return found.document.writer == document.writer

    def _took_effect(self, number: int, digest: str) -> bool:
        """Whether the file just linked continues the log, or came so late that it fell into a hole left by pruning.

        A hole can only be where the file before has been pruned as well.
        """
        if number > 1 and self.medium.exists(self._name(number - 1)):
            return True
        if self._numbers()[-1:] == [number]:
            return True
        try:
            return self._read(number + 1).document.previous == digest
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
        checkpoint = self._last_but_one(numbers[-1])
        while checkpoint is not None and checkpoint >= numbers[0]:
            try:
                at, before = self._checkpoint(checkpoint)
            except NotFoundError:  # pruned by somebody else, who was interrupted before or is still at it
                return checkpoint
            if at <= limit:
                return checkpoint
            checkpoint = before
        return numbers[0]

    def _last_but_one(self, newest: int) -> int | None:
        """The number of the last checkpoint but one, up to a file that is there; None if there is only one."""
        newest_known = self._newest
        if newest_known is not None and newest_known.state.number == newest:
            last = newest_known.checkpoint
        else:
            try:
                last = self._read(newest).document.begins_at
            except NotFoundError:  # overtaken by far: somebody else is pruning
                return None
        try:
            return None if last is None else self._checkpoint(last)[1]
        except NotFoundError:
            return None

    def check(self) -> list[Finding]:
        """Everything wrong with the log; an empty list means that all is well.

        From the last checkpoint but one on, every file must be there, build on the one before, and checkpoints must say
        what their deltas add up to. Older files are waiting to be pruned and need only be whole.
        """
        numbers = self._numbers()
        if not numbers:
            return [Finding(self._place(), f"there is no {self._ledger.kind}")]
        newest = numbers[-1]
        needed = self._first_needed(numbers)
        findings = [
            Finding(join(self.directory, plain), "is no file of this log; move it elsewhere")
            for plain in self._plain_names()
            if not _NUMBERED.fullmatch(plain)
            and plain != MARK
            and not (plain.endswith(_TEMPORARY) and born_at(plain) is not None)
        ]
        for number in numbers:
            if number < needed:
                with suppress(NotFoundError):
                    findings += self._faults(number, None)[0]
        known: _Known[S] | None = None
        for number in range(needed, newest + 1):
            try:
                more, known = self._faults(number, known)
            except NotFoundError:
                more, known = [Finding(self._name(number), "is missing; restore it from a backup")], None
            findings += more
        if known is None and not findings:
            findings.append(Finding(self._name(newest), "builds on no checkpoint; restore the log from a backup"))
        lost = None if known is None else self._lost(known)
        if lost is not None and self._numbers()[-1:] == [newest]:
            findings.append(Finding(self._place(), lost))
        return findings

    def _first_needed(self, numbers: list[int]) -> int:
        """The number of the last checkpoint but one, by the newest file that can tell."""
        for number in reversed(numbers):
            try:
                last = self._read(number).document.begins_at
            except (StorageError, NotFoundError):
                continue  # and found when it is looked at
            if last is None:
                continue
            try:
                before = self._checkpoint(last)[1]
            except (StorageError, NotFoundError):
                return last
            return last if before is None else before
        return numbers[0]

    def _faults(self, number: int, before: _Known[S] | None) -> tuple[list[Finding], _Known[S] | None]:
        """What is wrong with a file, given the state before if it is known; and the state behind it if it is."""
        try:
            found = self._read(number)
            behind = None if before is None else self._next(before, found)
            if found.document.state is None:
                return [], behind
            restored = self._restored(found)
            if behind is not None and restored.state != behind.state:
                return [Finding(self._name(number), "does not hold the state that the files before it add up to")], None
            return [], restored
        except NotFoundError:
            raise
        except StorageError as error:
            return [Finding(self._name(number), str(error))], None


@lru_cache(64)  # readers ask for the names of the newest documents with every query
def _file_name(directory: str, number: int) -> str:
    return join(directory, f"{number:0{_DIGITS}d}.json")


class _Understanding:
    """Inside, whatever a ledger finds wrong with values that were stored is damage of the named file.

    Unless a newer release has written them, which is neither damage nor a matter of backups.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NewerReleaseError):
            raise NewerReleaseError(
                f"{self._name} has {error}: the store was written by a newer release; use that one, or a newer one. "
                "Nothing is damaged"
            ) from error
        if isinstance(error, (TidelogError, *NONSENSE)):
            raise CorruptionError(f"{self._name} makes no sense: {error!r}; restore it from a backup") from error
